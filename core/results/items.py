"""Item lookup: one instruction across arms, and where arms or judges disagree."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from midchart.core.access import RunRef, needs
from midchart.core.errors import InputError, UnknownName
from midchart.core.options import received_fields
from midchart.core.results.comparison import detectable, paired
from midchart.core.results.funnel import step_of
from midchart.core.results.report import counted_store, withdraw
from midchart.core.results.reviews import review_verdicts, reviews_of, with_reviews
from midchart.core.results.tables import CRITERIA, facts
from midchart.core.runs.directory import RunDirectory, find_run
from midchart.core.runs.experiment import EXPERIMENTS, Experiment
from midchart.core.runs.plan import Plan
from midchart.core.runs.planner import digest_of, open_source
from midchart.core.runs.schemas import ALL_IN_PROMPT, ALL_KEPT
from midchart.core.runs.status import status
from midchart.core.storage.rows import Ask, RowStore, literal
from midchart.core.types import Cohort

Row = dict[str, Any]
OF_THE_QUESTION = (
    "record", "band", "middle", "order_position", "time_position", "token_position",
    "task_type", "domain",
)  # fmt: skip
HITS = dict(CRITERIA.values())
"""Columns that say whether a selection is a hit → their SQL."""
CUT, PARTLY_DROPPED = "cut", "partly dropped"
EVIDENCE_OUTCOME = (
    f"(CASE WHEN NOT evidence THEN 'dropped' WHEN NOT {ALL_KEPT} THEN '{PARTLY_DROPPED}' "
    f"WHEN {ALL_IN_PROMPT} THEN 'in the prompt' WHEN NOT {ALL_IN_PROMPT} THEN '{CUT}' "
    f"WHEN {ALL_KEPT} AND evidence_in_prompt IS NULL THEN 'kept' END)"
)
"""SQL: where the pieces of the evidence of a selection are: all in the prompt (or kept, where there
is none), all kept and one or more cut from it, some or all dropped by the arm; null where that is
not known."""


def _judged(folder: RunDirectory) -> tuple[Plan, list[Row]]:
    """A run's plan with people among its judges, and their verdicts as rows of verdicts."""
    plan, reviews = folder.plan(), reviews_of(folder)
    return with_reviews(plan, reviews), review_verdicts(folder, reviews)


@contextmanager
def run_facts(run: str) -> Generator[tuple[Ask, Plan]]:
    """Query the answers and verdicts that a run's tables count, people's among them, with the plan
    that names people among its judges; raises InputError for a run without answers."""
    folder = find_run(run)
    plan, people = _judged(folder)
    store = counted_store(folder, plan)
    if "verdicts" not in store.schemas:
        raise InputError(f"run {run} of kind {plan.kind} has no answers whose arms can be compared")
    with facts(store, plan, people) as ask:
        yield ask, plan


def _sorted(plan: Plan, rows: list[Row]) -> list[Row]:
    """Rows in the order in which the spec names arms, readers and judges."""
    arms = {entry.label: i for i, entry in enumerate(plan.arms)}
    readers = {name: i for i, name in enumerate(plan.readers)}
    judges = {name: i for i, name in enumerate(plan.judges)}
    return sorted(
        rows,
        key=lambda row: (
            arms[row["label"]],
            readers.get(row.get("reader", ""), 0),
            judges.get(row.get("judge", ""), 0),
        ),
    )


@needs("viewer")
def answered_by(run: RunRef) -> tuple[str, ...]:
    """The labels of a run's readers, in the order of its spec; raises UnknownName."""
    return find_run(run).plan().readers


@needs("viewer")
def rows(run: RunRef, table: str) -> list[Row]:
    """All rows of a table of a run: answers and verdicts, or selections; raises UnknownName."""
    folder = find_run(run)
    return folder.store(folder.plan()).select(table)


def _rows_of(store: RowStore, table: str, instruction: str) -> list[Row]:
    return store.select(table, "*", f"instruction = {literal(instruction)}")


@needs("viewer")
def item(run: RunRef, instruction: str) -> dict[str, Any]:
    """Everything a run holds about an instruction: ``arms``, for each arm entry (and reader) its
    row with its ``verdicts``, the one that counts of each judge. Raises UnknownName where it holds
    nothing (yet)."""
    folder = find_run(run)
    plan, people = _judged(folder)
    store = folder.store(plan)
    main = EXPERIMENTS.build(plan.kind).main
    selected = _sorted(plan, _rows_of(store, main, instruction))
    if not selected:
        known = store.select(main, "DISTINCT instruction")
        raise UnknownName("instruction of the run", instruction, [r["instruction"] for r in known])
    verdicts: dict[str, list[Row]] = {}
    if "verdicts" in store.schemas:
        judged = _rows_of(store, "verdicts", instruction)
        judged = _sorted(plan, judged + [v for v in people if v["instruction"] == instruction])
        again: dict[tuple[str, str], list[str]] = {}
        for verdict in judged:
            if verdict["repeat"]:
                asked = again.setdefault((verdict["answer_key"], verdict["judge"]), [])
                asked.append(verdict["outcome"])
        for verdict in judged:
            if not verdict["repeat"]:
                key = verdict["answer_key"]
                verdict["again"] = again.get((key, verdict["judge"]), [])
                verdicts.setdefault(key, []).append(verdict)
    first = selected[0]
    return {
        "run": run,
        "instruction": instruction,
        **{name: first[name] for name in OF_THE_QUESTION},
        "arms": [{**row, "verdicts": verdicts.get(row["key"], [])} for row in selected],
    }


@needs("viewer")
def outcomes(run: RunRef, reader: str, judge: str) -> list[Row]:
    """One judge's verdicts on one reader's answers: a row an instruction and arm, no text.

    ``counted``: whether the tables of the report count it; ``step``: where its evidence ended
    (:data:`midchart.core.results.funnel.STEPS`), None where it is unlocated or nothing was judged.
    A run that judges nothing has the place of the evidence as the outcome
    (:data:`EVIDENCE_OUTCOME`).
    """
    folder = find_run(run)
    plan, people = _judged(folder)
    store, counts = folder.store(plan), counted_store(folder, plan)
    main = EXPERIMENTS.build(plan.kind).main
    listed = {r["instruction"] for r in counts.select(main, "DISTINCT instruction", counts.counted)}
    about = "label, instruction, record, band, middle, task_type, domain"
    if "verdicts" in store.schemas:
        with facts(store, plan, people) as ask:
            known = {row["column_name"] for row in ask("DESCRIBE judged")}
            hits = (*HITS, "semantic", "evidence_quoted")
            hits = ", ".join(name for name in hits if name in known)
            verdicts = ask(
                f"SELECT {about}, outcome, refusal, failure_kind, {hits} "
                f"FROM judged WHERE reader = {literal(reader)} AND judge = {literal(judge)} "
                "ORDER BY instruction"
            )
    else:
        hits = ", ".join(f"{sql} AS {name}" for name, sql in HITS.items())
        columns = f"{about}, {EVIDENCE_OUTCOME} AS outcome, {hits}"
        verdicts = store.select(main, columns, "selection IS NOT NULL AND outcome IS NOT NULL")
    named = any(row.get("evidence_quoted") is not None for row in verdicts)
    return [
        row | {"counted": row["instruction"] in listed, "step": _step(row, named)}
        for row in _sorted(plan, verdicts)
    ]


def _step(row: Row, names_sources: bool) -> str | None:
    if row.get("evidence") is None or row["outcome"] in ("unparsed", "failed"):
        return None
    prompted = row["evidence_all_in_prompt"]
    facts = {
        "kept": row["evidence_all"],
        "prompted": row["evidence_all"] if prompted is None else prompted,
        "quoted": row.get("evidence_quoted"),
        "correct": row["outcome"] == "correct" if "refusal" in row else None,
    }
    return step_of(facts, names_sources)


@needs("viewer")
def primary_judge(run: RunRef) -> str:
    """The label of the judge by which a run's conclusions are drawn; raises UnknownName."""
    return find_run(run).plan().primary_judge


@needs("viewer")
def wrong_in_the_middle(run: RunRef, reader: str, arms: Sequence[str]) -> list[Row]:
    """Questions from the middle of a record that ``reader`` answered wrongly under ``arms``
    (labels), by the primary judge, those with the most wrong answers first. Raises UnknownName."""
    folder = find_run(run)
    plan, people = _judged(folder)
    store = folder.store(plan)
    if "verdicts" not in store.schemas or not plan.judges:
        return []
    with facts(store, plan, people) as ask:
        return ask(
            "SELECT instruction, any_value(record) AS record, count(*) AS wrong "
            f"FROM judged WHERE reader = {literal(reader)} "
            f"AND judge = {literal(plan.primary_judge)} "
            f"AND label IN ({', '.join(map(literal, arms))}) AND middle AND correct = false "
            "GROUP BY instruction ORDER BY count(*) FILTER (NOT refusal) DESC, "
            "count(*) FILTER (coalesce(evidence_in_prompt, false)) DESC, instruction"
        )


@needs("viewer")
def compared(run: RunRef, baseline: RunRef) -> dict[str, list[Row]]:
    """``paired`` and ``detectable`` of a report, against another arm (by its label). Raises
    UnknownName for an arm that the run does not have, InputError for a run without answers."""
    with run_facts(run) as (ask, plan):
        rows = paired(ask, plan, baseline)
    tables = {"paired": rows, "detectable": detectable(rows)}
    if status(run)["status"] != "done":
        withdraw(tables)
    return tables


@needs("viewer")
def asked_of(run: RunRef) -> Cohort:
    """The cohort whose questions a run asks; a needle run makes its own of the one it names. Raises
    UnknownName, DataError, or InputError where what it was made of has changed since."""
    folder = find_run(run)
    plan, data = folder.plan(), folder.cohort_path()
    experiment = EXPERIMENTS.build(plan.kind)
    if folder.imported_facts():
        _refuse_foreign_files(run, experiment, plan)
    source = open_source(data)
    cohort = experiment.cohort(source, plan)
    if cohort is not source and digest_of(data) != plan.digest:
        raise InputError(
            f"run {run} asks about records made of a cohort that has changed: {data}; its cards "
            "cannot be shown"
        )
    return cohort


def _refuse_foreign_files(run: str, experiment: Experiment, plan: Plan) -> None:
    """Raise InputError where an imported run names a file of the machine that it came from, which
    is nothing, or another file, on this one."""
    for field in experiment.fields:
        if plan.options.get(field) and field in received_fields(experiment.options_model):
            raise InputError(
                f"run {run} was imported, and the file that its field {field!r} names is not part "
                "of an export"
            )
