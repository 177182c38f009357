"""Comparison of runs: pairs counted by hand, differing specs, and runs that cannot be paired."""

from __future__ import annotations

import pytest

from midchart.core.errors import InputError, UnknownName
from midchart.core.results.comparison import compare_runs
from midchart.core.results.items import rows
from midchart.core.runs.directory import make_run, write_json
from midchart.core.runs.planner import plan
from midchart.core.runs.schemas import SELECTIONS, blank
from midchart.core.runs.spec import read_spec
from midchart.core.stats.paired import mcnemar_exact, newcombe_paired
from tests.support.run_helpers import write_cohort

FIRST = [True] * 6 + [False] * 2
SECOND = [True] * 3 + [False] * 3 + [True] + [False]
"""Of eight: 3 right in both, 3 in the first alone, 1 in the second alone, 1 in neither."""


@pytest.fixture
def cohort(workspace):
    return write_cohort(workspace / "data" / "cohorts" / "tiny", records=2)


def selection_run(cohort, outcomes, arms=("bm25",), cut=None, **changes):
    """A finished run of kind selection in which each arm kept the evidence as error; of the
    questions that ``cut`` numbers for an arm, the prompt was cut, at 500 tokens and the number."""
    spec = {"kind": "selection", "data": str(cohort), "arms": list(arms), **changes}
    folder = make_run(plan(read_spec(spec)))
    begun = folder.plan()
    store = folder.store(folder.plan())
    store.reopen()
    names = [(record, f"i{record}{q}") for record in range(2) for q in range(4)]
    for entry in begun.arms:
        for number, ((record, instruction), held) in enumerate(zip(names, outcomes, strict=True)):
            row = {
                "key": f"{entry.label}{instruction}", "item": f"{entry.label}{instruction}",
                "status": "failed" if held is None else "ok",
                "label": entry.label, "arm": entry.name,
                "instruction": instruction, "record": str(record + 1), "evidence": held,
                "evidence_all": held, "band": "0-10",
            }  # fmt: skip
            if cut is not None:
                lost = number in cut.get(entry.label, ())
                row |= {"prompt_tokens": 500 + number, "prompt_cut": lost}
                row |= dict.fromkeys(
                    ("evidence_in_prompt", "evidence_all_in_prompt"), held and not lost
                )
            store.append("selections", {**blank(SELECTIONS), **row})
    store.compact()
    store.close()
    write_json(folder.done, {"done": 8 * len(begun.arms), "failed": 0})
    return folder.id


def test_paired_counts_computed_by_hand(cohort):
    first, second = selection_run(cohort, FIRST), selection_run(cohort, SECOND, seed=1)
    (row,) = compare_runs([first, second])["results"]
    expected = newcombe_paired(3, 1, 3, 1)
    assert (row["n"], row["patients"], row["only_run"], row["only_baseline"]) == (8, 2, 1, 3)
    assert (row["baseline_share"], row["run_share"]) == (6 / 8, 4 / 8)
    assert row["difference"] == pytest.approx(-2 / 8) == expected.estimate
    assert (row["difference_low"], row["difference_high"]) == (expected.low, expected.high)
    assert row["p"] == mcnemar_exact(1, 3) == row["p_holm"]
    # Two patients, who changed alike: fewer than five give no interval by patient.
    assert row["patient_low"] is row["patient_high"] is None
    (back,) = compare_runs([second, first])["results"]
    assert back["difference"] == -row["difference"], "the leftmost is the baseline"


def test_a_difference_that_unscored_outcomes_overturn_is_not_claimed(cohort):
    """Two runs that keep nothing and everything differ; once the first has six of eight failed,
    the two left are all that is scored, and the six could go either way."""
    nothing, everything = selection_run(cohort, [False] * 8), selection_run(cohort, [True] * 8)
    (row,) = compare_runs([nothing, everything])["results"]
    assert (row["verdict"], row["unscored"]) == ("better", 0)
    assert row["bound_low"] == row["bound_high"] == row["difference"] == 1.0
    assert row["p_bound_holm"] == row["p_holm"]

    one_fails = selection_run(cohort, [None] + [False] * 7)
    (row,) = compare_runs([one_fails, everything])["results"]
    assert (row["n"], row["unscored"], row["difference"]) == (7, 1, 1.0)
    assert (row["bound_low"], row["bound_high"]) == (7 / 8, 1.0)
    assert row["p_bound"] == mcnemar_exact(7, 0) and row["verdict"] == "better"

    some = selection_run(cohort, [None, None] + [False] * 6)
    (row,) = compare_runs([some, everything])["results"]
    assert row["p_holm"] == mcnemar_exact(6, 0) <= 0.05
    assert (row["bound_low"], row["bound_high"]) == (6 / 8, 1.0) and row["verdict"] == "better"

    # The same six, and two unscored ones on the other side: the bound holds five percent no more.
    partly_scored = selection_run(cohort, [True] * 6 + [None, None])
    (row,) = compare_runs([selection_run(cohort, [False] * 6 + [True] * 2), partly_scored])[
        "results"
    ]
    assert (row["n"], row["difference"], row["p_holm"]) == (6, 1.0, mcnemar_exact(6, 0))
    assert (row["bound_low"], row["bound_high"]) == (4 / 8, 6 / 8)
    assert row["p_bound"] == mcnemar_exact(6, 2) > 0.05
    assert row["verdict"].startswith("not claimed")


def test_what_differs_in_the_specs_is_reported_and_nothing_else(cohort):
    first = selection_run(cohort, FIRST, name="a")
    second = selection_run(cohort, FIRST, name="b")
    third = selection_run(cohort, FIRST, arms=["bm25", {"name": "bm25", "k": 1}], seed=5, limit=8)
    assert compare_runs([first, second])["spec"] == []
    differing = {row.pop("field"): row for row in compare_runs([first, third])["spec"]}
    assert differing["protocol.seed"] == {first: "42", third: "5"}
    assert differing["spec.arms"] == {first: "bm25", third: "bm25, bm25 k=1"}
    assert differing["spec.limit"] == {first: "", third: "8"}
    assert set(differing) == {"protocol.seed", "spec.arms", "spec.limit", "planned"}


def test_what_cannot_be_compared_is_stated(cohort, tmp_path):
    first = selection_run(cohort, FIRST)
    other = write_cohort(tmp_path / "data" / "cohorts" / "other", records=2, events=21)
    elsewhere = selection_run(other, SECOND)
    assert "other files" in compare_runs([first, elsewhere])["notes"][0]
    apart = selection_run(cohort, FIRST, ["recency", "full"])
    compared = compare_runs([first, apart])
    assert compared["results"] == [] and "shares no arm" in compared["notes"][0]
    with pytest.raises(InputError, match="two runs"):
        compare_runs([first, first])
    with pytest.raises(UnknownName):
        compare_runs([first, "../../etc"])
    assert len(rows(first, "selections")) == 8


def test_evidence_is_compared_where_the_reader_sees_it(cohort):
    """Kept eight times each; the prompts of one run lose it three times, of the other once."""
    first = selection_run(cohort, [True] * 8, cut={"bm25": (5,)})
    second = selection_run(cohort, [True] * 6 + [False] * 2, cut={"bm25": (1, 2, 7)}, seed=1)
    (row,) = compare_runs([first, second])["results"]
    assert row["measure"] == "all pieces of the evidence in the prompt"
    assert (row["baseline_share"], row["run_share"]) == (7 / 8, 4 / 8)
    # A run without a prompt limit has no such figure, so what was kept is compared, and said.
    (row,) = compare_runs([first, selection_run(cohort, SECOND)])["results"]
    assert row["measure"] == "all pieces of the evidence kept, before any prompt limit"
    assert row["baseline_share"] == 1.0
