"""Runs of kind curve, and the same through midchart.core.api: rows, counts, resume, refusals."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from midchart.core import api
from midchart.core.errors import InputError
from midchart.core.experiments.curve.rows import (
    CurveChoice,
    observe,
    points,
    scored,
    select,
)
from midchart.core.protocol import Protocol
from midchart.core.runs.directory import make_run
from midchart.core.runs.job import Job
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from midchart.extras.lab.synthetic.cohort import MODELS as SIMULATED
from tests.support.run_helpers import (
    continue_run,
    finished_run,
    read_questions,
    workspace_at,
    write_cohort,
    write_questions,
)

RECORDS, EVENTS = 12, 31
DEPTHS = (0.0, 10 / 30, 0.5, 1.0)
MODELS = ("model-a", "model-b", "<b>c</b>")
SPEC = {"kind": "curve", "data": "tiny", "name": "t", "protocol": {"resamples": 200}}


def write_responses(folder: Path, simulated: str = "") -> list[dict[str, str]]:
    """Three models: a is always right, b at the edges alone, c never; and rows that do not count.

    Instruction ip<q> lies at DEPTHS[q]. Record 0's first question is about something that the
    record does not hold, its second has evidence in two places, its third no specialty.
    """
    questions = read_questions(folder)
    questions[0]["evidence"] = "zzzz qqqq"
    half = " ".join(questions[3]["evidence"].split()[:4])
    questions[1]["evidence"] += f"|||{half}|||zzzz qqqq"
    questions[2]["submitter_specialty"] = ""
    write_questions(folder, questions)
    rows = []
    for question in questions:
        q = int(question["instruction_id"][-1])
        right = {"model-a": "1", "model-b": "yes" if q in (0, 3) else "0", "<b>c</b>": "no"}
        for model, verdict in right.items():
            answer = question["clinician_response"] if verdict in ("1", "yes") else "999 gram"
            rows.append(
                {**question, "model_name": model, "binary_correct": verdict, "is_used_eval": "yes",
                 "model_response": answer, "simulated": simulated}
            )  # fmt: skip
        rows.append({**rows[-1], "model_name": "left out", "is_used_eval": "no"})
    rows[4]["binary_correct"] = "unsure"  # model-a's answer to the second question of record 0
    with (folder / "clinician-reviewed-model-responses.tsv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return rows


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with workspace_at(tmp_path_factory.mktemp("curve")) as folder:
        cohorts = folder / "data" / "cohorts"
        write_responses(write_cohort(cohorts / "tiny", RECORDS, EVENTS))
        write_responses(write_cohort(cohorts / "made-up", 2, EVENTS), simulated="yes")
        write_cohort(cohorts / "silent", 1)
        yield folder


@pytest.fixture(scope="module")
def done(place):
    return api.report(finished_run({**SPEC, "bins": [5, 10], "positions": ["time", "order"]}))


def of(table, **named):
    return [row for row in table if all(row[k] == v for k, v in named.items())]


def test_the_numbers_equal_counts_of_the_answers(done):
    """12 records × 4 questions × 3 models: 144 answers, one without a verdict, three unlocated."""
    tables = done["tables"]
    summary = of(tables["summary"], stratum="all", position="order", bins=10)[0]
    assert (summary["n"], summary["unlocated"], summary["unscored"]) == (140, 3, 1)
    assert summary["clusters"] == 47
    bins = {r["bin"]: r for r in of(tables["curve"], stratum="all", position="order", bins=10)}
    # At the edges a and b are right of three, in the middle a alone. The question whose verdict
    # is missing stands at its best match, the snippet that is quoted whole.
    counts = {b: (r["n"], r["clusters"]) for b, r in bins.items() if r["n"]}
    assert counts == {0: (33, 11), 3: (35, 12), 5: (36, 12), 9: (36, 12)}
    assert bins[0]["accuracy"] == pytest.approx(2 / 3)
    assert bins[3]["accuracy"] == pytest.approx(11 / 35)
    assert (bins[1]["accuracy"], bins[1]["ci_low"], bins[1]["null_low"]) == (None, None, None)
    assert summary["middle"] == pytest.approx(23 / 71)
    assert summary["edge"] == pytest.approx(2 / 3)
    assert summary["difference"] == pytest.approx(23 / 71 - 2 / 3)
    # The least a two-sided p can be with 200 permutations.
    assert summary["difference_p"] == pytest.approx(2 / 201)
    assert (summary["peak_bin"], summary["trough_bin"]) == (0, 3)
    assert summary["share_10_90"] == pytest.approx(71 / 140)
    assert summary["uniform_share"] == 0.8
    assert summary["simulated"] is False
    assert summary["quadratic"] > 0 and summary["quadratic_holm"] < 0.001
    flat = of(tables["summary"], stratum="model", value="model-a", position="order", bins=10)[0]
    assert (flat["n"], flat["gap"], flat["gap_p"]) == (46, 0.0, 1.0)
    stated = of(tables["summary"], stratum="specialty", value="not stated", bins=5)
    assert {row["n"] for row in stated} == {3}


def test_the_api_returns_the_rows_of_the_run(done, place):
    cohort, protocol = api.open_data("tiny"), Protocol(resamples=200)
    for stratum, value in (("all", ""), ("model", "<b>c</b>"), ("specialty", "medicine")):
        curve_tables = api.curve(cohort, bins=5, stratum=stratum, value=value, position="time",
                          protocol=protocol)  # fmt: skip
        chosen = {"stratum": stratum, "value": value, "bins": 5, "position": "time"}
        for table in ("curve", "summary", "verdict"):
            assert curve_tables[table] == of(done["tables"][table], **chosen), table
    every = api.curve(cohort, stratum="model", resamples=100)
    assert [row["value"] for row in every["summary"]] == sorted(MODELS)
    choices = api.curve_choices(cohort)
    assert choices["strata"]["model"] == sorted(MODELS)


def test_the_papers_score_is_exact_for_structured_values_and_else_token_overlap(place):
    cohort = api.open_data("tiny")
    asked = [
        (i, r) for r in cohort.responses for i in cohort.instructions if i.id == r.instruction_id
    ]
    exact, overlap, both = (
        scored(name, cohort, asked, Protocol()) for name in ("exact", "jaccard", "exact_or_jaccard")
    )
    references = [cohort.gold[i.id].answer if i.id in cohort.gold else "" for i, _ in asked]
    numbers = np.array([any(c.isdigit() for c in text) for text in references])
    assert numbers.any()
    np.testing.assert_array_equal(both[numbers], exact[numbers])
    free = ~numbers & np.isnan(exact)
    np.testing.assert_array_equal(both[free], overlap[free])


def test_every_piece_of_the_evidence_is_one_place_of_one_cluster(place):
    cohort = api.open_data("tiny")
    best = api.curve(cohort, score="jaccard", resamples=100)["summary"][0]
    every = api.curve(cohort, score="jaccard", snippets="all", resamples=100)["summary"][0]
    # One question of three snippets: two found (three answers more), one not (three unlocated).
    assert (best["n"], best["unlocated"], best["clusters"]) == (141, 3, 47)
    assert (every["n"], every["unlocated"], every["clusters"]) == (144, 6, 47)
    assert every["held"] == 6 / 144  # no other question has two places
    at = {round(a["position"], 3) for a in api.curve_bin(cohort, 9, "jaccard", snippets="all")}
    assert at == {1.0}
    observed = observe(cohort, cohort.instructions, Protocol())
    for snippets in ("best", "all"):
        choice = CurveChoice("clinician", "time", "model", "model-a", snippets)
        taken, _ = select(observed, choice)
        rows = points(observed, choice)
        assert taken is not None and taken.rows == len(rows)
        assert taken.right.sum() == rows["score"].sum()


def test_a_stopped_run_resumes_to_the_same_tables(place, monkeypatch):
    spec = {**SPEC, "strata": ["model"], "scores": ["clinician", "jaccard"]}
    undisturbed = make_run(plan(read_spec(spec)))
    cut = make_run(plan(read_spec(spec)))
    appended, append = [], Job.append

    def stop_after_two(job, table, row):
        appended.append(row["item"])
        if len(appended) == 2:
            cut.cancel.touch()
        append(job, table, row)

    assert continue_run(undisturbed) == "done"
    with monkeypatch.context() as patch:
        patch.setattr(Job, "append", stop_after_two)
        assert continue_run(cut) == "cancelled"
    assert api.status(cut.id)["done"] == 2
    assert continue_run(cut) == "done"
    tables = [api.report(folder.id)["tables"] for folder in (undisturbed, cut)]
    assert tables[0] == tables[1]
    assert len(tables[0]["summary"]) == 6


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data": "silent"}, "no model responses"),
        ({"scores": ["judge"]}, "'judge'"),
        ({"scores": []}, "at least 1 item"),
        ({"positions": ["event"]}, "Valid: order, time"),
        ({"bins": [7]}, "Valid: 10, 5"),
        ({"bins": 10}, "valid list"),
        ({"strata": ["sex"]}, "'sex'"),
        ({"snippets": "first"}, "Valid: all, best"),
        ({"arms": ["bm25"]}, "takes no arms"),
        ({"score": ["exact"]}, "Did you mean scores"),
    ],
)
def test_impossible_choices_are_refused_in_one_line(place, change, says):
    before = api.status()
    with pytest.raises(InputError) as error:
        api.start({**SPEC, **change})
    assert says in str(error.value) and "\n" not in str(error.value)
    assert api.status() == before


def test_the_demos_declared_effect_is_what_its_curve_shows(place):
    """Each fifth of a synthetic cohort's curve beside the chances its answers were drawn with."""
    api.prepare_demo(place / "data" / "cohorts" / "synthetic", patients=16, events_per_patient=120)
    cohort = api.open_data("synthetic")
    chance = {model.name: model.accuracy for model in SIMULATED}
    curve = api.curve(cohort, bins=5)
    assert curve["summary"][0]["simulated"] is True
    squares = 0.0
    for row in curve["curve"]:
        answers = api.curve_bin(cohort, row["bin"], bins=5)
        declared = np.array([chance[a["model"]](a["position"]) for a in answers])
        assert row["n"] == len(declared) > 0
        off = row["accuracy"] * row["n"] - declared.sum()
        squares += off**2 / (declared * (1 - declared)).sum()
    assert squares < chi2.ppf(0.999, 5)
