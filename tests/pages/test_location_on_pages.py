"""Pages locate evidence by the protocol of their run or settings."""

from __future__ import annotations

import pytest

from midchart.core import api
from tests.support import app_data, patient_cohort
from tests.support.pages import page_at, page_html, shared_workspace
from tests.support.run_helpers import finished_run, workspace_at

pytestmark = pytest.mark.slow

REWORDED = "The polyp was taken out and the patient did well."
"""Near enough to a sentence of the record for the paper's score of .2, not for the window's .8."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A data folder, and a run of each preset on a cohort with that evidence."""
    with workspace_at(tmp_path_factory.mktemp("location")) as folder:
        cohort = app_data.make_cohort(folder / "data")
        table = cohort / "clinician-instruction-responses.tsv"
        evidence = f"{patient_cohort.FIRST}|||{patient_cohort.SECOND}"
        table.write_text(table.read_text().replace(evidence, REWORDED))
        run_by_preset = {}
        for preset in ("corrected", "published"):
            spec = {
                "name": preset, "kind": "answers", "data": str(cohort), "protocol": preset,
                "arms": ["bm25", "recency"], "readers": ["extractive"],
                "judges": ["token_overlap"],
            }  # fmt: skip
            run_by_preset[preset] = finished_run(spec)
        yield folder, run_by_preset


@pytest.fixture
def opened_runs(runs):
    folder, run_by_preset = runs
    with shared_workspace(folder):
        yield run_by_preset


def test_the_two_protocols_locate_this_evidence_differently(opened_runs):
    cohort = api.open_data("small")
    assert not api.gold_under(cohort, api.parse("corrected")).gold["q1"].spans
    assert api.gold_under(cohort, api.parse("published")).gold["q1"].spans


@pytest.mark.parametrize(("preset", "located"), [("corrected", False), ("published", True)])
def test_the_patient_page_locates_by_its_settings(opened_runs, preset: str, located: bool):
    app = page_at("patient", preset=preset)
    app.session_state["patient_arms"] = ["bm25", "recency"]
    app.session_state["patient_patient"] = "9001"
    app.session_state["patient_question"] = "q1"
    app.run()
    html = page_html(app)
    assert ("dropped the evidence" in html) == located == ("no located evidence" not in html)
    refused = [info.value for info in app.info if "could not be located" in info.value]
    assert bool(refused) != located


@pytest.mark.parametrize(("preset", "located"), [("corrected", False), ("published", True)])
def test_the_review_page_locates_by_its_runs_protocol(opened_runs, preset: str, located: bool):
    for card in api.review_cards(opened_runs[preset], "anna"):
        if card.instruction != "q1":
            api.add_review(opened_runs[preset], "anna", card.key, "correct")
    app = page_at("review", run=opened_runs[preset])
    app.session_state["reviewer"] = "anna"
    app.run()
    html = page_html(app)
    assert "What did the colonoscopy show?" in html
    assert ("not found in the record" in html) != located


@pytest.mark.parametrize(("preset", "located"), [("corrected", False), ("published", True)])
def test_the_arms_page_locates_by_its_runs_protocol(opened_runs, preset: str, located: bool):
    app = page_at("arms", run=opened_runs[preset], view="questions")
    app.run()
    app.toggle(key="differ").set_value(False).run()
    for token in app.selectbox(key="asked").options:
        app.selectbox(key="asked").set_value(token).run()
        if "What did the colonoscopy show?" in page_html(app):
            break
    html = page_html(app)
    assert "What did the colonoscopy show?" in html
    assert ("mc-line mc-held" in html or "mc-line mc-dropped" in html) == located
