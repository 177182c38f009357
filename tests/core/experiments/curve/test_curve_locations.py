"""The Curve page says how its evidence was located, how often that is wrong, and leaves out what
was located weakly where one asks for it."""

from __future__ import annotations

import csv
import io

import pytest
import streamlit as st

from midchart.core import api
from midchart.core.errors import InputError
from midchart.core.results.report import report
from tests.support.run_helpers import finished_run, set_workspace, workspace_at

QUESTIONS = "clinician-instruction-responses.tsv"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A small demo with its exact spans, and one without, one of its questions reworded."""
    with workspace_at(tmp_path_factory.mktemp("locations")) as home:
        api.prepare_demo(home / "data" / "cohorts" / "exact", 8, 60)
        folder = home / "data" / "cohorts" / "searched"
        api.prepare_demo(folder, 8, 60)
    file = folder / QUESTIONS
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened, delimiter="\t"))
    single = next(row for row in rows if row["evidence"] and "|||" not in row["evidence"]
                  and len(row["evidence"].split()) > 7)  # fmt: skip
    single["evidence"] += " unquoted"
    out = io.StringIO()
    names = [name for name in rows[0] if name != "evidence_spans"]
    writer = csv.DictWriter(out, names, delimiter="\t", lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    file.write_text(out.getvalue(), encoding="utf-8")
    return home, single["instruction_id"]


@pytest.fixture
def weak(demo, monkeypatch):
    """The id of the reworded question; the data folder is in force."""
    home, id = demo
    set_workspace(monkeypatch, home)
    st.cache_data.clear()
    return id




def test_a_least_score_leaves_out_the_weakly_located_question_alone(weak: str):
    cohort = api.open_data("searched")
    score = cohort.gold[weak].score
    assert score is not None and 0.8 <= score < 0.95
    assert api.curve_choices(cohort)["location_scores"][0] == score
    (summary,) = api.curve(cohort, resamples=100)["summary"]
    (left,) = api.curve(cohort, resamples=100, least_score=0.95)["summary"]
    answers = sum(r.used and r.instruction_id == weak for r in cohort.responses)
    assert (summary["weak"], left["weak"], summary["n"] - left["n"]) == (0, answers, answers)
    assert left["unlocated"] == summary["unlocated"]
    shown = {
        row["instruction"]
        for bin in range(10)
        for row in api.curve_bin(cohort, bin, least_score=0.95)
    }
    assert weak not in shown and len(shown) == left["clusters"]
    with pytest.raises(InputError, match="0–1"):
        api.curve(cohort, least_score=1.5)




def test_a_run_counts_locations_by_each_of_its_positions_and_leaves_out_as_the_page_does(weak: str):
    spec = {"name": "c", "kind": "curve", "strata": ["all"], "protocol": {"resamples": 100}}
    run = finished_run({**spec, "data": "exact", "positions": ["order", "token"]})
    table = report(run)["tables"]["location"]
    for position in ("order", "token"):
        of_position = [
            {k: v for k, v in r.items() if k != "position"}
            for r in table
            if r["position"] == position
        ]
        assert of_position == api.curve_locations(api.open_data("exact"), position)
    assert any(r["measure"] == "located by text: on another event" and r["n"] for r in table)
    run = finished_run({**spec, "data": "searched", "least_score": 0.95})
    assert report(run)["tables"]["summary"][0]["weak"] > 0




