"""From the published protocol to the corrected one, a fault at a time: runs, and what each changes.

The first step is what the paper ran, each further one takes one fault more away, the last is the
corrected protocol. The effect of a step depends on the faults that remain, so each fault is also
run alone, turned on in the corrected protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from midchart.core.access import CohortName, CohortRef, Entries, RunRef, needs
from midchart.core.experiments.answers.tables import shares
from midchart.core.experiments.replication.paper import Row, other_runs
from midchart.core.protocol import PRESETS, Protocol
from midchart.core.results.comparison import Outcomes, differences, read_outcomes
from midchart.core.results.items import run_facts
from midchart.core.results.report import counted_store
from midchart.core.results.reviews import reviews_of, with_reviews
from midchart.core.results.tables import CELL, counted, pick, read_published
from midchart.core.runs.directory import find_run
from midchart.core.runs.plan import RULE_JUDGES
from midchart.core.runs.planner import digest_of
from midchart.core.runs.schemas import COUNTS
from midchart.core.runs.status import status
from midchart.core.storage.rows import literal


@dataclass(frozen=True, slots=True)
class Fault:
    """A published fault: what it ``did``, its protocol ``fields``, and the ``arms`` that it
    concerns (all where empty)."""

    name: str
    title: str
    did: str
    fields: tuple[str, ...]
    arms: tuple[str, ...]


FAULTS = tuple(
    Fault(f["name"], f["title"], f["did"], tuple(f["fields"].split()), tuple(f["arms"].split()))
    for f in read_published("faults.csv")
)
"""In the order in which they are taken away."""

REPORTING = ("intervals", "position")
"""Published choices of how figures are reported: no answer or verdict depends on them, so they
are corrected with the last fault, without a separate step."""


class ReplicationStep(NamedTuple):
    """A run of a replication: ``fault`` is the one that it takes away or alone has, None for the
    first; ``title`` is for people."""

    name: str
    title: str
    protocol: Protocol
    fault: Fault | None = None


def steps() -> tuple[ReplicationStep, ...]:
    """The published protocol, then one fault less each, down to the corrected one."""
    published = PRESETS["published"]
    sequence = [ReplicationStep("published", "As published", published)]
    left = dict(published.differences())
    for fault in FAULTS:
        fields = fault.fields + (REPORTING if fault is FAULTS[-1] else ())
        changes: dict[str, Any] = {name: left.pop(name)[0] for name in fields if name in left}
        protocol, title = replace(sequence[-1].protocol, **changes), fault.title.lower()
        sequence.append(ReplicationStep(fault.name, f"Without: {title}", protocol, fault))
    return tuple(sequence)


def alone() -> tuple[ReplicationStep, ...]:
    """The corrected protocol with one published fault each, named ``only_`` and the fault's."""
    published, corrected = PRESETS["published"], PRESETS["corrected"]
    sequence: list[ReplicationStep] = []
    for fault in FAULTS:
        protocol = replace(corrected, **{name: getattr(published, name) for name in fault.fields})
        title = f"Only: {fault.title.lower()}"
        sequence.append(ReplicationStep(f"only_{fault.name}", title, protocol, fault))
    return tuple(sequence)


ARMS: Sequence[Any] = (
    *("full", "bm25", {"name": "bm25", "k": 1}, {"name": "bm25", "k": 3}, {"name": "bm25", "k": 5}),
    *("bm25_filtered", "bm25_temporal", "bm25_ranked", "dense", "mmr", "cross_encoder", "qccs"),
    *("llmlingua2", "map_reduce", "oracle", "recency", "random", "shortest"),
)
"""The paper's arms, the controls it lacks, and the arms added since; ``map_reduce`` works with the
reader of the run."""


@needs("viewer", paths=("data",))
def step_specs(
    data: CohortName,
    arms: Entries[Sequence[Any]],
    reader: Entries[Any],
    judges: Entries[Sequence[Any]],
    hosts: Sequence[str] = (),
    part: str = "",
) -> dict[str, dict[str, Any]]:
    """The spec of every step and every fault alone, by name.

    ``reader``, ``judges`` and ``arms`` are names or tables as a spec holds them; ``hosts`` are
    those off this machine to which text may be sent; ``part``: the patients asked about, all where
    empty.
    """
    reader_name = reader if isinstance(reader, str) else reader["name"]
    more = {"part": part, "allow_hosts": list(hosts)}
    return {
        step.name: {
            "name": f"replication · {step.title.lower()}",
            "group": f"replication, {reader_name}",
            "kind": "answers",
            "data": data,
            "arms": list(arms),
            "readers": [reader],
            "judges": list(judges),
            "protocol": {"preset": "corrected"}
            | {name: value for name, (_, value) in step.protocol.differences().items()},
            "seed": step.protocol.seed,
            **{name: value for name, value in more.items() if value},
        }
        for step in (*steps(), *alone())
    }


# The runs on a cohort. They are found by what they ran (cohort, reader, protocol), not by name: one
# started from the command line counts like any other. A run on files that the cohort no longer
# holds does not.


OF_A_RUN = ("run", "status", "done", "failed", "planned", "reason", "imported")


@needs("viewer")
def replication(
    data: CohortRef,
    reader: Entries[str],
    arms: Entries[Sequence[Any]] = ARMS,
    judges: Entries[Sequence[Any]] = (),
) -> dict[str, Any]:
    """How far the replication with a reader (its label) on a cohort is.

    ``arms`` and ``judges``: those that its runs should have, as a spec names them. ``steps``: a row
    each with its best run, None where there is none; ``runs``: ids of the finished ones in that
    order; ``alone``: rows as of ``steps``, of the runs with one fault alone.
    """
    names = {judge if isinstance(judge, str) else judge["name"] for judge in judges}
    # Of an arm its k, None for the protocol's.
    entries: list[dict[str, Any]] = [{"name": a} if isinstance(a, str) else a for a in arms]
    wanted = {(str(entry["name"]), entry.get("k")) for entry in entries}
    best = _best_runs(Path(data), reader, wanted, names)
    rows, only = ([_step_row(step, best) for step in of] for of in (steps(), alone()))
    runs = [row["run"] if row["status"] == "done" else None for row in rows]
    return {"steps": rows, "runs": runs, "alone": only}


@needs("viewer")
def paper_runs(data: CohortRef, reader: str) -> tuple[str | None, str | None, list[str]]:
    """The finished runs by which the paper's claims are judged on a cohort: of the published and
    the corrected protocol with a reader (its label), and the newest of a curve, of gates and
    forecasts."""
    runs: Sequence[str | None] = replication(data, reader, ARMS)["runs"]
    others = [run["run"] for run in other_runs(data).values() if run]
    return runs[0], runs[-1], others


def _step_row(step: ReplicationStep, best: Mapping[Protocol, Row]) -> Row:
    fault, run = step.fault, best.get(replace(step.protocol, preset=""))
    return {
        "name": step.name,
        "title": step.title,
        "did": fault.did if fault else "",
        "fields": {name: getattr(step.protocol, name) for name in fault.fields} if fault else {},
        **{key: run and run[key] for key in OF_A_RUN},
    }


@needs("viewer")
def readers_of(data: CohortRef) -> dict[str, Any]:
    """The readers that alone read a run of answers on a cohort, newest run first: label → the name
    or table that a spec names it by. Of runs that this installation made: the reader of an imported
    run was chosen by its sender."""
    readers: dict[str, Any] = {}
    for run in status():
        if run["imported"] or run["kind"] != "answers" or Path(run["data"]) != Path(data):
            continue
        entries = find_run(run["run"]).plan().reader_entries
        if len(entries) == 1:
            name, options = entries[0].name, entries[0].options
            readers.setdefault(entries[0].label, {"name": name, **options} if options else name)
    return readers


def _best_runs(
    data: Path, reader: str, arms: set[tuple[str, int | None]], judges: set[str]
) -> dict[Protocol, Row]:
    """Protocol → the status of the best run of judged answers on a cohort by a reader alone: a
    finished one, then one with most of the arms and judges asked for, on all patients, the
    newest."""
    best: dict[Protocol, tuple[tuple[bool, int, bool], Row]] = {}
    digest = digest_of(str(data))
    for run in status():
        if run["kind"] != "answers" or Path(run["data"]) != data:
            continue
        plan = find_run(run["run"]).plan()
        # Without a judge nothing is compared, and a gate's training patients are not counted.
        of_all = plan.judge_entries and not plan.limit and plan.part in ("", "test")
        if not of_all or plan.readers != (reader,) or plan.digest != digest:
            continue
        usual = plan.protocol.budget().k
        entries = {(e.name, None if e.k == usual else e.k) for e in plan.arms if e.tokens is None}
        named = {entry.name for entry in plan.judge_entries}
        fit = run["status"] == "done", len(arms & entries) + len(judges & named), not plan.part
        protocol = replace(plan.asked, preset="")
        if protocol not in best or fit > best[protocol][0]:
            best[protocol] = fit, run
    return {protocol: run for protocol, (_, run) in best.items()}


EFFECT = (
    *("n", "acted", "both", "changed", "right_here", "right_there", "difference", "low", "high"),
    *("unscored", "bound_low", "bound_high", "p"),
)
"""Columns of the effect of a run against another on the same questions: ``acted``, on how many of
``both`` the prompt, the answer or what was judged is another text; of the ``n`` judged in both how
many ``changed``, and were right in one alone; the paired ``difference`` with its interval by
patient, its bounds over ``unscored`` ones and McNemar's ``p``."""


@needs("viewer")
def waterfall(runs: list[RunRef], label: str, judge: str) -> list[Row]:
    """What each fault costs an arm: a row a run, its accuracy, and but for the first the columns of
    EFFECT against the one before."""
    rows: list[Row] = []
    shown = ("n", "accuracy", "patient_low", "patient_high", "unparsed")
    before = None
    for run in runs:
        with run_facts(run) as (ask, plan):
            overall = shares(plan, counted(ask, CELL), [((), {})])
        named = (row for row in overall if (row["label"], row["judge"]) == (label, judge))
        of_arm: Row = next(named, {})
        after = _answers(run, label, judge)
        effect = _effect(before, after, label, judge)
        rows.append({"run": run} | effect | {name: of_arm.get(name) for name in shown})
        before = after
    return rows


@needs("viewer")
def faults_alone(
    corrected: RunRef, runs: Mapping[str, RunRef | None], label: str, judge: str
) -> list[Row]:
    """What each fault does alone: a row a fault, with the columns of EFFECT against the corrected
    run, of which "here" is the fault's.

    ``runs``: name of a step of :func:`alone` → its finished run, None where there is none.
    ``silent``: why the fault cannot show here; empty where it acted or was not run.
    """
    arm = next((e.name for e in find_run(corrected).plan().arms if e.label == label), "")
    rows: list[Row] = []
    base = _answers(corrected, label, judge)
    for fault in FAULTS:
        run, other = runs.get(f"only_{fault.name}"), fault.arms and arm not in fault.arms
        row: Row = {"fault": fault.name, "title": fault.title, "did": fault.did, "run": run}
        after = _answers(run, label, judge) if run and not other else None
        row |= _effect(base, after, label, judge)
        silent = "" if row["acted"] or not run else "changed no prompt, answer or judged text"
        if other:
            silent = f"concerns the arms {' and '.join(fault.arms)} alone"
        rows.append(row | {"silent": silent})
    return rows


Answers = tuple[dict[str, tuple[Any, ...]], Outcomes]


def _effect(base: Answers | None, run: Answers | None, label: str, judge: str) -> Row:
    """The columns EFFECT of a run against another, null without one of them; those of the
    difference where one lacks the arm or judge."""
    row: Row = dict.fromkeys(EFFECT)
    if base is None or run is None:
        return row
    (before, outcomes_before), (after, outcomes_after) = base, run
    both = before.keys() & after.keys()
    row |= {"acted": sum(before[key] != after[key] for key in both), "both": len(both)}
    for pair in differences(outcomes_before, outcomes_after):
        if (pair["arm"], pair["judge"]) == (label, judge):
            row |= pick(pair, ("n", "difference", "unscored", "bound_low", "bound_high", "p"))
            ends = (pair["patient_low"], pair["patient_high"]) if row["acted"] else (None, None)
            row |= dict(zip(("low", "high"), ends, strict=True))
            row |= {"right_here": pair["only_run"], "right_there": pair["only_baseline"]}
            row["changed"] = pair["only_run"] + pair["only_baseline"]
    return row


def _answers(run: str, label: str, judge: str) -> Answers:
    """Instruction → the hash of its prompt, the answer, and the hash of what was judged; and the
    outcomes of the run."""
    folder = find_run(run)
    plan = folder.plan()
    store = counted_store(folder, plan)
    asked = any(e.label == judge and e.name not in RULE_JUDGES for e in plan.judge_entries)
    judge_prompt = plan.protocol.judge_prompt if asked else ""
    answers = store.select(
        "answers",
        "key, instruction, prompt_hash, answer",
        f"label = {literal(label)} AND status = 'ok' AND ({store.counted})",
    )
    where = f"{COUNTS} AND judge = {literal(judge)} AND label = {literal(label)}"
    verdicts = store.select("verdicts", "answer_key, prompt_hash", where)
    judged = {row["answer_key"]: row["prompt_hash"] for row in verdicts}
    texts = {
        row["instruction"]: (
            row["prompt_hash"],
            row["answer"],
            judged.get(row["key"]) and f"{judge_prompt} {judged[row['key']]}",
        )
        for row in answers
    }
    return texts, read_outcomes(run)


@needs("viewer")
def arms_and_judges(run: RunRef) -> tuple[list[str], list[str]]:
    """Labels of a run's arms and judges, the primary judge first, people last."""
    folder = find_run(run)
    plan = with_reviews(folder.plan(), reviews_of(folder))
    return [entry.label for entry in plan.arms], list(plan.judges)
