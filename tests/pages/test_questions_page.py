"""The Questions page: a set is saved, asked of every patient, and read as a table with sources."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.pages.ui.questions import view
from tests.support.pages import frame_with, open_page, plain_text
from tests.support.run_helpers import finished_run

pytestmark = pytest.mark.slow

QUESTIONS = ("Does the patient smoke?", "Which drug was stopped? <b>x</b>")
PAGE = 5


@pytest.fixture
def cohort(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three patients more than a page shows."""
    monkeypatch.setattr(view, "PAGE", PAGE)
    folder = workspace / "data" / "cohorts" / "ward"
    folder.mkdir(parents=True)
    for i in range(PAGE + 3):
        (folder / f"p{i:02d}.txt").write_text(f"Seen {i}.\nDoes smoke {i} a day.\nLives alone.")
    return folder


def asked(folder: Path) -> str:
    api.save_question_set(folder, "Ward round", QUESTIONS)
    spec = api.question_set_spec(str(folder), "Ward round", QUESTIONS, ["bm25"], "extractive")
    protocol = {"preset": "corrected", "k": 1, "recency": 0, "unmatched": "kept"}
    return finished_run(spec | {"protocol": protocol})


def wide(app: AppTest) -> pd.DataFrame:
    return frame_with(app, "patient")


def test_a_set_is_saved_from_the_form_and_asked(cohort: Path) -> None:
    app = open_page("questions")
    assert "Question set" not in [box.label for box in app.selectbox]
    app.text_area("set_typed").set_value("A?\nA?").run()
    app.text_input("set_name").set_value("Mine").run()
    app.button("set_save").click().run()
    assert "question 2 is the same as question 1" in plain_text(app)
    app.text_area("set_typed").set_value("\n".join(QUESTIONS)).run()
    app.button("set_save").click().run()
    (saved,) = api.question_sets(cohort)
    assert (saved.name, saved.questions) == ("Mine", QUESTIONS)
    assert "<b>" not in app.markdown[0].value.replace("\\<b\\>", "")
    assert app.selectbox("set_reader").value == api.default_reader()
    app.button("set_ask").click().run()
    (run,) = api.status(None)
    assert run["planned"] == 2 * (PAGE + 3)
    api.wait(run["run"])
    app.run()
    assert not app.exception
    assert len(wide(app)) == PAGE
    assert "set_remove" not in [one.key for one in app.button], "drawn when it is opened"
    app.session_state["set_drawer"] = True
    app.run().button("set_remove").click().run()
    assert api.question_sets(cohort) == []


def test_answers_are_paged_filtered_and_counted(cohort: Path) -> None:
    asked(cohort)
    app = open_page("questions", cohort="ward")
    assert list(wide(app).columns) == ["patient", "q1", "q2"]
    assert wide(app)["q1"][0] == "● undated Does smoke 0 a day."
    assert wide(app)["q2"][0] == "○ undated Lives alone."
    app.number_input("set_page").set_value(2).run()
    assert list(wide(app)["patient"]) == ["p05", "p06", "p07"]
    app.text_input("set_find").set_value("smoke 7 a").run()
    assert list(wide(app)["patient"]) == ["p07"]
    app.text_input("set_find").set_value("").run()
    app.multiselect("set_columns").set_value(["1"]).run()
    assert list(wide(app).columns) == ["patient", "q2"]
    app.selectbox("set_filter").set_value("evidence marked").run()
    assert "No patient matches" in plain_text(app)
    counts = frame_with(app, "answered")
    assert list(counts["question"]) == [f"{n}. {text}" for n, text in enumerate(QUESTIONS, 1)]
    assert list(counts["answered"]) == [str(PAGE + 3), "0"]
    assert list(counts["found no answer"]) == ["0", str(PAGE + 3)]


def test_an_unknown_set_stops(cohort: Path) -> None:
    asked(cohort)
    for name, value in (("set", "0123"), ("run", "x"), ("cohort", "none")):
        address = {"cohort": "ward", name: value}
        (error,) = open_page("questions", **address).error
        assert f" {value}: " in error.value.replace("\\", ""), name


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ({"state": "answered", "answer": "a\n b", "source": "s"}, "● 2020-01-01 No fever."),
        ({"state": "answered", "answer": "a\n b"}, "◐ 2020-01-01 No fever.\n“a b”"),
        ({"state": "answered", "answer": "x" * 99}, f"◐ 2020-01-01 No fever.\n“{'x' * 52} …”"),
        ({"state": "found no answer", "evidence": "in the prompt"}, "○ 2020-01-01 No fever."),
        (
            {"state": "heading alone", "evidence": "partly dropped"},
            "○ 2020-01-01 No fever.\n✗ evidence partly dropped",
        ),
        ({"state": "failed", "evidence": "cut"}, "! 2020-01-01 No fever.\n✗ evidence cut"),
    ],
)
def test_a_cell_has_the_chart_first_and_the_reader_below(cell: dict[str, str], text: str) -> None:
    best = {"id": "s", "day": "2020-01-01", "text": "No fever."}
    filled = {"answer": None, "evidence": None, "source": None} | cell
    assert view.cell_text(filled, {"of": 3, "sentences": [best]}) == text
    unranked = view.cell_text(filled, {"of": 3, "sentences": []})
    assert "no sentence of 3 was ranked" in unranked


def test_a_cell_opens_the_patient_at_its_source(
    cohort: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: dict[str, object] = {}
    pages: list[tuple[str, str]] = []
    monkeypatch.setattr(view.st, "session_state", session)
    monkeypatch.setattr(view.navigation, "go", lambda page, cohort: pages.append((page, cohort)))
    run = {"run": "r1", "status": "done"}
    view.open_source("ward", run, "p02", QUESTIONS[0], 0, "hybrid k=3", "extractive")
    record = api.open_data("ward").records["p02"]
    typed = api.typed_question(record, QUESTIONS[0])
    assert pages == [("patient", "ward")]
    assert (session["patient_patient"], session["patient_question"]) == ("p02", "typed")
    assert session["patient_typed"] == QUESTIONS[0]
    assert session["patient_arms"][0] == "hybrid"
    assert session["patient_reader"] == "r1:extractive"
    assert session["patient_open"] == (record.digest, typed.id, 0, "")
    id = api.keep_question(cohort, "p02", QUESTIONS[0])
    view.open_source("ward", run, "p02", QUESTIONS[0], None, "bm25", "extractive")
    assert session["patient_reader"] == ":extractive"
    assert session["patient_question"] == id
