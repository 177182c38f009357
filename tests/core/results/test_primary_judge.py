"""One judge decides: the default primary judge by hand-made answers, from rows, and by name."""

from __future__ import annotations

import json

import pytest

from midchart.core.errors import UnknownName
from midchart.core.judges import JUDGES
from midchart.core.protocol import Protocol
from midchart.core.results.report import report
from midchart.core.runs.directory import find_run
from midchart.core.runs.plan import default_primary
from midchart.core.runs.spec import parse_spec
from midchart.core.types import Answer, Gold, Instruction
from tests.support.run_helpers import (
    finished_run,
    spec,
    workspace_at,
    write_cohort,
)

COMPOSITE = "exact_else_overlap"
BY_HAND = [
    # reference, answer, verdict, what decides
    ("The dose is 36 mg daily", "The dose is 28 mg daily", "incorrect", "another number"),
    ("The dose is 36 mg daily", "36 mg", "correct", "the number alone"),
    ("2015-10-03", "on October 3, 2015", "correct", "the same date"),
    ("Yes", "Yes, since the operation", "correct", "polarity"),
    ("Yes", "She had an operation", "unparsed", "neither yes nor no"),
    ("Not documented in the record", "The record does not mention it", "correct", "a refusal"),
    ("a sore throat and fever", "fever with a throat infection", "correct", "half of the words"),
    ("a sore throat and fever", "a headache", "incorrect", "a fifth of the words"),
    ("a sore throat and fever", "a sore throat and fever in 2019", "correct",
     "a number in the answer does not change the rule"),
]  # fmt: skip


@pytest.mark.parametrize("reference, answer, outcome, why", BY_HAND)
def test_the_reference_alone_chooses_the_rule(reference, answer, outcome, why):
    judge = JUDGES.build(COMPOSITE, Protocol())
    verdict = judge.judge(Instruction("i", "p", "?"), Gold("i", reference), Answer(answer))
    assert verdict.outcome == outcome, why


@pytest.mark.parametrize(
    "judges, primary",
    [
        (["token_overlap", "exact"], "token_overlap"),
        (["exact", COMPOSITE, "statements"], "statements"),
        (["claude", COMPOSITE], COMPOSITE),
        (["token_overlap", "claude"], "token_overlap"),
        (["claude", "exact"], "claude"),
        (["exact", "token_overlap", "choice"], "choice"),
        ([], ""),
    ],
)
def test_the_default_by_the_judges_of_a_run(judges, primary):
    assert default_primary(judges) == primary


def test_a_spec_names_another_and_no_unknown_one():
    table = {
        "kind": "answers", "data": "demo", "arms": ["bm25"], "readers": ["extractive"],
        "judges": ["exact", "token_overlap"],
    }  # fmt: skip
    assert parse_spec(table).primary_judge == "exact"
    assert parse_spec(table | {"primary_judge": "token_overlap"}).primary_judge == "token_overlap"
    with pytest.raises(UnknownName, match="primary judge of the spec"):
        parse_spec(table | {"primary_judge": "nli"})


def test_tables_begin_with_the_primary_judge_and_an_older_derived_one_is_told(tmp_path):
    with workspace_at(tmp_path):
        place = write_cohort(tmp_path / "data" / "cohorts" / "tiny")
        judges = ["token_overlap", "exact", COMPOSITE]
        run = finished_run(spec(place, readers=["extractive"], judges=judges))
        folder = find_run(run)
        document = report(run)
        assert document["primary_judge"] == COMPOSITE
        assert document["tables"]["accuracy"][0]["judge"] == COMPOSITE
        assert document["tables"]["paired"][0]["judge"] == COMPOSITE
        written = json.loads(folder.spec.read_text())
        assert written["spec"]["primary_judge"] == COMPOSITE
        written["spec"]["primary_judge"] = "derived"
        folder.spec.write_text(json.dumps(written))
        older = report(run)
        assert older["primary_judge"] == COMPOSITE
        assert [w for w in older["warnings"] if "the primary judge derived of this run" in w]
