"""Pages of audits and of imported logs: what was lost, cards, scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from midchart.core import api, config
from midchart.core.cohorts.gold import gold_under
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.extras.audit.cards import audit_cards
from midchart.extras.audit.other_results import import_results
from midchart.extras.audit.pages.patient import address
from midchart.pages.ui.shared.pickers import token
from tests.extras.audit.audited_systems import Losses, questions_of, write_log
from tests.support import app_data
from tests.support.pages import frame_with, open_page, page_text, shared_workspace
from tests.support.run_helpers import finished_run

LOGS = Path(__file__).with_name("logs")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cohort in a workspace that is in force."""
    with shared_workspace(tmp_path_factory.mktemp("audits")) as _:
        yield str(app_data.make_cohort(config.data_folder()))


def test_the_page_of_an_audit_has_its_conclusion_its_ledger_and_the_worst_questions(data, tmp_path):
    cohort = gold_under(open_cohort(data), Protocol())
    log = tmp_path / "answers.jsonl"
    lost = Losses(retrieval=1.0, middle=1.0)
    truth = write_log(cohort, questions_of(cohort), lost, log, np.random.default_rng(0))
    audited = finished_run(
        {"name": "audited", "kind": "audit", "data": data, "log": str(log), "arms": ["bm25"],
         "judges": ["exact_else_overlap"]}
    )  # fmt: skip
    n = len(truth.parts)
    page = open_page("results", run=audited)
    assert f"between “in the chart” and “retrieved” ({n})" in page_text(page)
    ledger = frame_with(page, "lost")
    assert list(ledger["lost"])[1] == n
    worst = frame_with(open_page("results", run=audited, view="worst"), "lost at")
    assert set(worst["lost at"]) == {"retrieved"} and len(worst) == n
    # The chart of one of them, with the marks of the system.
    row = api.report(audited)["tables"]["worst"][0]
    name = Path(data).name
    asked = {
        "patient": token(name, row["record"]),
        "question": token(name, row["own_question"]),
    }
    sample = address(audited, row["instruction"])
    chart = page_text(open_page("patient", cohort=name, **asked, **sample))
    assert "What else was in the system's prompt?" in chart
    assert row["instruction"] not in str(sample), "an address has no identifier of a log"
    alone = page_text(open_page("patient", cohort=name, **asked))
    assert "What else was in the system's prompt?" not in alone


def test_page_review_deals_blinded_cards_of_an_audit_and_says_what_they_say(data, tmp_path):
    cohort = gold_under(open_cohort(data), Protocol())
    log, asked = tmp_path / "answers.jsonl", questions_of(cohort)
    write_log(cohort, asked, Losses(retrieval=0.5, middle=0.5), log, np.random.default_rng(0))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line["question"] = f"Please say {line['question']}"
        line["answer"] = "The answer of the audited system."
    log.write_text("\n".join(map(json.dumps, lines)))
    audited = finished_run(
        {"name": "audited", "kind": "audit", "data": data, "log": str(log), "arms": ["bm25"],
         "judges": ["exact_else_overlap"]}
    )  # fmt: skip
    page = open_page("review", run=audited)
    assert "0 of 0 cards marked" in page_text(page)
    page.button(key="card_deal").click().run()
    assert not page.exception
    cards = audit_cards(audited)
    dealt = min(10, len(lines))
    assert f"0 of {dealt} cards marked" in page_text(page)
    assert cards[0]["text"] in page_text(page)
    assert "answer of the audited system" not in page_text(page), "cards are blind"
    gold = {(q.record_id, f"Please say {q.question}"): cohort.gold[q.id] for q in asked}
    for card in cards:
        api.mark_evidence(data, card["question"], gold[card["record"], card["text"]].spans)
    page = open_page("review", run=audited)
    assert f"{dealt} of {dealt} cards marked" in page_text(page)
    assert f"by {dealt} card{'s' * (dealt > 1)} and the machine" in page_text(page)
    corrected = frame_with(open_page("results", run=audited, view="corrected"), "cards")
    assert set(corrected["cards"]) == {dealt}


def test_the_page_of_an_imported_log_has_its_conclusion_and_scores(data):
    imported = import_results(LOGS / "promptfoo/results.json", "synthetic ward")["run"]
    page = open_page("results", run=imported)
    assert "2 systems, scored by another program" in page_text(page)
    scores = frame_with(page, "mean score")
    expected = ["other · prompt eb7867ef", "short · prompt eb7867ef"]
    assert list(scores["answered by"]) == expected
