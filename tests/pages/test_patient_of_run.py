"""Answers of a finished run on the Patient page: only where its arm kept the same sentences."""

from __future__ import annotations

import pytest

from midchart.core import api
from tests.support.pages import page_at, page_html

pytestmark = pytest.mark.slow


@pytest.fixture
def page(run: str):
    """The Patient page with the answers of the run's extractive reader, not run yet."""
    app = page_at("patient")
    app.session_state["patient_arms"] = ["bm25", "recency", "oracle"]
    app.session_state["patient_patient"] = "9001"
    app.session_state["patient_question"] = "q1"
    app.session_state["patient_reader"] = f"{run}:extractive"
    return app


def lines(app) -> dict[str, str]:
    """Arm title → its line of the first screen."""
    rows = page_html(app).split('<tr style="--mc-arm')[1:]
    return {row.split("<b>")[1].split("</b>")[0]: row.split("</tr>")[0] for row in rows}


def test_a_run_s_answer_and_verdicts_are_shown_with_its_reader_and_name(page, run):
    page.run()
    assert not page.exception
    shown = lines(page)
    assert shown.keys() == {"BM25", "Recency only", "Oracle (evidence)"}
    stored = {row["label"]: row for row in api.item(run, "q1")["arms"]}
    row = stored["bm25"]
    assert row["answer"].split("] ")[1][:30] in shown["BM25"]
    reader = "Answers of Extractive baseline (non-generative) of run small comparison"
    assert reader in page_html(page) and "Extractive baseline quotes " in shown["BM25"]
    first = row["verdicts"][0]
    assert first["judge"] == "token_overlap", "the primary judge of the run"
    words = f">{first['outcome']}</span><small>by Token overlap (offline)"
    assert words in shown["BM25"]
    assert "the run has no answer of this arm" in shown["Oracle (evidence)"]


def test_a_run_s_answer_is_not_shown_for_other_sentences_or_questions(page):
    page.session_state["k"] = 1
    page.run()
    assert "the run&#x27;s arm kept other sentences" in lines(page)["BM25"]
    assert "<q>" not in lines(page)["BM25"]
    page.session_state["patient_question"] = "typed"
    page.session_state["patient_typed"] = "Any polyp?"
    page.run()
    assert not page.exception
    assert "Answers of Extractive" in page_html(page) and "of run" not in page_html(page)
    assert "<q>" in lines(page)["BM25"], "the run does not ask this question: its reader answers"
