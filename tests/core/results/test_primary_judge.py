"""One judge decides: the default primary judge by hand-made answers, from rows, and by name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from midchart.core.errors import UnknownName
from midchart.core.judges import JUDGES
from midchart.core.protocol import Protocol
from midchart.core.results.primary import with_primary
from midchart.core.results.report import report
from midchart.core.results.tables import facts
from midchart.core.runs.directory import find_run
from midchart.core.runs.plan import ComponentSpec, default_primary
from midchart.core.runs.spec import parse_spec
from midchart.core.types import Answer, Gold, Instruction
from tests.support.run_helpers import (
    finished_run,
    read_questions,
    spec,
    workspace_at,
    write_cohort,
    write_questions,
)
from tests.support.stage2_rows import made_rows, plan, store_of

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


def test_a_question_with_options_is_judged_by_the_option():
    judge = JUDGES.build(COMPOSITE, Protocol())
    asked = Instruction("i", "p", "Which dose?", options=("28 mg", "36 mg"))
    assert judge.judge(asked, Gold("i", "36 mg"), Answer("B")).outcome == "correct"
    assert judge.judge(asked, Gold("i", "36 mg"), Answer("A")).outcome == "incorrect"


@pytest.mark.parametrize(
    "judges, primary",
    [
        (["token_overlap", "exact"], COMPOSITE),
        (["exact", "claude", "token_overlap"], COMPOSITE),
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
    assert parse_spec(table).primary_judge == COMPOSITE
    assert parse_spec(table | {"primary_judge": "exact"}).primary_judge == "exact"
    with pytest.raises(UnknownName, match="primary judge of the spec"):
        parse_spec(table | {"primary_judge": "nli"})


def _rows(outcomes: dict[str, tuple[str, str, str]]) -> tuple[list[dict], list[dict]]:
    """Answers and verdicts: question → (exact's outcome, its ``raw``, token overlap's outcome)."""
    answers, verdicts = made_rows()
    one = [row for row in answers if (row["label"], row["reader"]) == ("bm25", "one")]
    template = {row["answer_key"]: row for row in verdicts}
    chosen = [row for row in one if row["instruction"] in outcomes]
    judged_rows = []
    for row in chosen:
        exact, raw, overlap = outcomes[row["instruction"]]
        for judge, outcome, words in (("exact", exact, raw), ("token_overlap", overlap, "")):
            judged_rows.append(
                template[row["key"]]
                | {"key": f"{row['key']}/{judge}", "judge": judge, "outcome": outcome, "raw": words}
            )
    return chosen, judged_rows


def _judged(folder, verdicts, answers):
    entries = tuple(ComponentSpec(name, label=name) for name in ("token_overlap", "exact"))
    store = store_of(folder, answers, verdicts)
    run_plan = with_primary(plan(judge_entries=entries), store)
    with facts(store, run_plan) as ask:
        rows = ask(
            "SELECT instruction, outcome FROM judged JOIN questions USING (question) "
            f"WHERE judge = '{run_plan.primary_judge}' ORDER BY ALL"
        )
    return run_plan, {row["instruction"]: row["outcome"] for row in rows}


OUTCOMES = {
    "q00": ("incorrect", "0 of 1 values", "correct"),  # a value: exact decides
    "q01": ("incorrect", "words in order", "correct"),  # no value: overlap decides
    "q02": ("correct", "words in order", "incorrect"),
    "q03": ("unparsed", "yes expected, neither yes nor no said", "incorrect"),
}
DECIDED = {"q00": "incorrect", "q01": "correct", "q02": "incorrect", "q03": "unparsed"}


def test_older_rows_give_the_same_verdicts(tmp_path):
    answers, verdicts = _rows(OUTCOMES)
    run_plan, judged = _judged(tmp_path / "items", verdicts, answers)
    assert run_plan.judges == (COMPOSITE, "token_overlap", "exact")
    assert judged == DECIDED


def test_exported_rows_without_the_judges_words_keep_them_apart(tmp_path):
    """``raw`` is left out of an export without text; ``without_value`` holds no text."""
    answers, verdicts = _rows(OUTCOMES)
    for row in verdicts:
        if row["judge"] == "exact":
            row["without_value"] = row["raw"] == "words in order"
        row["raw"] = None
    _, judged = _judged(tmp_path / "new", verdicts, answers)
    assert judged == DECIDED
    run_plan, judged = _judged(
        tmp_path / "old", [row | {"without_value": None} for row in verdicts], answers
    )
    assert run_plan.judges == ("exact", "token_overlap")
    assert judged == {name: exact for name, (exact, _, _) in OUTCOMES.items()}


@pytest.fixture
def cohort(tmp_path):
    """Half of the references state a dose, half name the drug in words alone."""
    with workspace_at(tmp_path):
        place = write_cohort(tmp_path / "data" / "cohorts" / "tiny")
        questions = read_questions(place)
        for at, row in enumerate(questions):
            if at % 2:
                row["clinician_response"] = "the patient takes a drug as prescribed"
        write_questions(place, questions)
        yield place


def test_a_run_writes_its_primary_judge_and_derives_what_that_judge_says(cohort):
    judges = ["token_overlap", "exact", COMPOSITE]
    run = finished_run(spec(cohort, readers=["extractive"], judges=judges))
    folder = find_run(run)
    assert json.loads(folder.spec.read_text())["spec"]["primary_judge"] == COMPOSITE
    store, written = folder.store(folder.plan()), {}
    for row in store.select("verdicts", "answer_key, outcome", f"judge = '{COMPOSITE}'"):
        written[row["answer_key"]] = row["outcome"]
    without = tuple(e for e in folder.plan().judge_entries if e.label != COMPOSITE)
    older = with_primary(replace(folder.plan(), judge_entries=without, named_primary=""), store)
    with facts(store, older) as ask:
        derived = ask(f"SELECT answer_key, outcome FROM judged WHERE judge = '{COMPOSITE}'")
    assert {row["answer_key"]: row["outcome"] for row in derived} == written
    assert {"correct", "incorrect"} <= set(written.values())
    document = report(run)
    assert document["primary_judge"] == COMPOSITE
    assert document["tables"]["accuracy"][0]["judge"] == COMPOSITE
    assert document["tables"]["paired"][0]["judge"] == COMPOSITE
