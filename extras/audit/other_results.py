"""Runs of kind ``other_results``: what another system's log says of its answers, only read here.

Rows are written by :mod:`midchart.extras.audit.import_results`; nothing is judged again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.errors import SpecError
from midchart.core.results.tables import ends, generator
from midchart.core.runs.declared import Conclusion, Ends, Measure, Unit, View
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table
from midchart.core.runs.job import Job
from midchart.core.runs.plan import Plan, Spec
from midchart.core.stats.intervals import (
    Interval,
    cluster_members,
    cluster_totals,
    ratio,
    wilson_interval,
)
from midchart.core.stats.paired import (
    FEWEST_CLUSTERS,
    holm_adjust,
    mcnemar_exact,
    paired_floor,
    reported_interval,
    share_floor,
)
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.types import CUT_OFF, Cohort, Instruction

Floats = NDArray[np.float64]
_COMMON: Schema = dict.fromkeys(
    (
        *("key", "item", "status", "reason", "record", "instruction", "task", "system", "model"),
        "ended",
    ),
    "VARCHAR",
)
SAMPLES: Schema = {
    **_COMMON,
    "prompt_hash": "VARCHAR",
    **dict.fromkeys(("read_tokens", "output_tokens"), "BIGINT"),
    "cost_usd": "DOUBLE",
    **dict.fromkeys(("question", "answer", "place"), "VARCHAR"),
    "reference": "VARCHAR[]",
}
"""One row a sample. ``item``: its identifier in the log; ``record``: the patient, "" where the log
names none; ``instruction``: a hash of patient, task and question, which pairs two systems;
``ended``: null where the log does not say; ``place``: where in the log it is."""
SCORES: Schema = {**_COMMON, "metric": "VARCHAR", "score": "DOUBLE"}
"""One row a sample and metric of the log."""
PROMPTS: Schema = {
    **dict.fromkeys(("key", "item", "status", "reason", "messages", "context"), "VARCHAR")
}
"""One row a prompt, by ``prompt_hash``: its messages as given, as JSON, and the record's text in it
where the log has it apart."""

BY_CLUSTER = (
    Ends("patient_low", "patient_high", "by patient"),
    Ends("question_low", "question_high", "by question"),
    Ends("wilson_low", "wilson_high", "Wilson, questions independent"),
)
_HELP = "The mean of the log's own score; by question where the log does not name all patients."
MOST_STATED = 20
"""Tasks and metrics, and differences, that a conclusion states; the tables have all."""
MOST_PAIRED = 10
"""Systems of which each is compared with each; of more, each with the first."""
_PAIR_HELP = "First minus second on the questions that both answered; p by McNemar, Holm-adjusted."
_VERSUS = ("first", "second")


def _views(scale: str, suffix: str, by: str, unit: Unit, points: Unit) -> tuple[View, View]:
    """The scores and the differences of the metrics of a scale."""
    where = {"scale": (scale,)}
    score = Measure("score", "mean score", unit, _HELP, BY_CLUSTER, better="more")
    difference = Measure(
        "difference", "first minus second", points, _PAIR_HELP, BY_CLUSTER[:2], p="p_holm"
    )
    return (
        View(f"scores{suffix}", f"Which system scores best{by}?", "scores", (score,), "forest",
             rows=("answered_by",), choose=("task", "metric"), where=where,
             more=("patients", "cut_off", "read_tokens", "output_tokens", "cost_usd")),
        View(f"differences{suffix}", f"Do two systems differ on the same questions{by}?",
             "differences", (difference,), "forest", rows=_VERSUS, choose=("task", "metric"),
             where=where, more=("patients", "only_first", "only_second"), zero=True,
             about=f"Of more than {MOST_PAIRED} systems each is compared with the first."),
    )  # fmt: skip


@EXPERIMENTS.register("other_results")
class OtherResults(Experiment):
    """The scores of a log by model and task, and differences on the same questions."""

    name, title = "other_results", "Results of another system"
    schemas: ClassVar[Mapping[str, Schema]] = {
        "samples": SAMPLES,
        "scores": SCORES,
        "prompts": PROMPTS,
    }
    main = "samples"
    makes_records = True
    has_evidence = False
    views = (
        *_views("share", "", "", "%", "points"),
        *_views("number", "_numbers", " by metrics that are no shares", "", ""),
    )

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        """Raises SpecError: a log is imported, not run."""
        raise SpecError("results of another system are no run: midchart import-results PATH")

    def execute(self, job: Job) -> None:
        """Raises SpecError: the rows are those of the log."""
        raise SpecError("results of another system are only read here; import the log again")

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        """``scores`` by task, metric and system, and ``differences`` of two systems."""
        scores = store.select("scores", "*", "status = 'ok'")
        usage = _usage(store.select("samples", "*", "status = 'ok'"))
        groups: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
        for row in scores:
            systems = groups.setdefault((row["task"], row["metric"]), {})
            systems.setdefault(_label(row), []).append(row)
        tables: dict[str, Table] = {"scores": [], "differences": []}
        for (task, metric), systems in sorted(groups.items()):
            values = [row["score"] for rows in systems.values() for row in rows]
            scale = "share" if min(values) >= 0 and max(values) <= 1 else "number"
            place = {"task": task, "metric": metric, "scale": scale}
            for label, rows in sorted(systems.items()):
                facts = {name: rows[0][name] for name in ("model", "system")}
                counted = {
                    "answered_by": label,
                    **facts,
                    **place,
                    **_mean(rows, scale, plan, place, label),
                }
                tables["scores"].append(counted | usage[task, label])
            tables["differences"] += _differences(systems, place, plan)
        tested = [row for row in tables["differences"] if row["p"] is not None]
        for row, p in zip(tested, holm_adjust([row["p"] for row in tested]).tolist(), strict=True):
            row["p_holm"] = p
        return tables

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        """The best system of each task by its first metric, and the differences that are shown."""
        rows: Table = report["tables"]["scores"]
        if not rows:
            return Conclusion()
        tasks: dict[tuple[str, str], Table] = defaultdict(list)
        for row in rows:
            tasks[row["task"], row["metric"]].append(row)
        stated = islice(tasks.items(), MOST_STATED)
        details = [_best(task, metric, group) for (task, metric), group in stated]
        shown = [row for row in report["tables"]["differences"] if _is_shown(row)]
        details += [
            f"{row['first']} and {row['second']} differ in {row['metric']}"
            + (f" ({row['task']})" if row["task"] else "")
            + f": {_text(row['difference'], row['scale'], True)}, {row['n']} questions, "
            f"p {row['p_holm']:.3f} after Holm."
            for row in shown[:MOST_STATED]
        ]
        systems = len({row["answered_by"] for row in rows})
        return Conclusion(
            f"{systems} {'system' if systems == 1 else 'systems'}, scored by another program; "
            f"{len(shown) or 'no'} {'difference is' if len(shown) == 1 else 'differences are'} "
            "shown on the same questions.",
            tuple(details),
        )

    def warnings(self, plan: Plan) -> list[str]:
        """What the import noted: parts of the log that could not be read, unknown patients."""
        return list(plan.raw.get("found", {}).get("warnings", ()))


def _label(row: Mapping[str, Any]) -> str:
    return " · ".join(filter(None, (row["model"], row["system"]))) or "unnamed"


def _usage(samples: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Tokens and dollars by task and system, and how many answers were cut off (null: unsaid)."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in samples:
        groups[row["task"], _label(row)].append(row)
    usage: dict[tuple[str, str], dict[str, Any]] = {}
    for key, rows in groups.items():
        ended = [row["ended"] for row in rows if row["ended"] is not None]
        facts: dict[str, Any] = {"cut_off": sum(end in CUT_OFF for end in ended) if ended else None}
        for name in ("read_tokens", "output_tokens", "cost_usd"):
            known = [row[name] for row in rows if row[name] is not None]
            facts[name] = sum(known) if known else None
        usage[key] = facts
    return usage


def _clusters(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """By what rows are clustered, the patient where every row has one, and each row's cluster."""
    if all(row["record"] for row in rows):
        return "patient", [row["record"] for row in rows]
    return "question", [row["instruction"] for row in rows]


def _interval(
    sums: Floats, sizes: Floats, floor: Interval | None, plan: Plan, *name: object
) -> tuple[float, float] | None:
    """The interval of a mean from sums and numbers of rows of each cluster, [clusters]; None for
    too few."""
    if len(sums) < FEWEST_CLUSTERS:
        return None
    totals = cluster_totals(
        np.column_stack([sums, sizes]), plan.protocol.resamples, generator(plan, *name)
    )
    return reported_interval(ratio(totals[:, 0], totals[:, 1]), len(sums), floor)


def _mean(
    rows: Sequence[Mapping[str, Any]], scale: str, plan: Plan, place: Mapping[str, str], label: str
) -> dict[str, Any]:
    by, names = _clusters(rows)
    values = np.array([row["score"] for row in rows], dtype=np.float64)
    _, member = cluster_members(names)
    sizes = np.bincount(member).astype(np.float64)
    sums = np.bincount(member, weights=values).astype(np.float64)
    floor = share_floor(sums, sizes) if scale == "share" else None
    interval = _interval(sums, sizes, floor, plan, *place.values(), label)
    binary = bool(np.isin(values, (0.0, 1.0)).all())
    wilson = wilson_interval(int(values.sum()), len(values)) if binary else None
    other = "question" if by == "patient" else "patient"
    return {
        "n": len(values),
        "patients": len(sizes) if by == "patient" else None,
        "score": float(values.mean()),
        **ends(f"{by}_", interval),
        **ends(f"{other}_", None),
        **ends("wilson_", wilson),
    }


def _differences(
    systems: Mapping[str, Sequence[Mapping[str, Any]]], place: Mapping[str, str], plan: Plan
) -> Table:
    """Each pair of systems on the questions that both have; several answers of a system to a
    question count by their mean."""
    means: dict[str, dict[str, float]] = {}
    records: dict[str, str] = {}
    for label, rows in sorted(systems.items()):
        by_question: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            by_question[row["instruction"]].append(row["score"])
            records[row["instruction"]] = row["record"]
        means[label] = {question: float(np.mean(some)) for question, some in by_question.items()}
    pairs = list(combinations(means, 2))
    if len(means) > MOST_PAIRED:
        pairs = pairs[: len(means) - 1]
    table: Table = []
    for first, second in pairs:
        shared = sorted(means[first].keys() & means[second].keys())
        if not shared:
            continue
        left = np.array([means[first][question] for question in shared])
        right = np.array([means[second][question] for question in shared])
        by, names = _clusters(
            [{"record": records[question], "instruction": question} for question in shared]
        )
        _, member = cluster_members(names)
        sizes = np.bincount(member).astype(np.float64)
        sums = np.bincount(member, weights=left - right).astype(np.float64)
        binary = bool(np.isin(np.concatenate([left, right]), (0.0, 1.0)).all())
        outcomes = (left * right, left * (1 - right), right * (1 - left), (1 - left) * (1 - right))
        cells = np.column_stack([np.bincount(member, weights=one) for one in outcomes])
        floor = paired_floor(cells) if binary else None
        interval = _interval(sums, sizes, floor, plan, *place.values(), first, second)
        only = int((left > right).sum()), int((left < right).sum())
        other = "question" if by == "patient" else "patient"
        table.append({
            **dict(zip(_VERSUS, (first, second), strict=True)),
            **place,
            "n": len(shared),
            "patients": len(sizes) if by == "patient" else None,
            "difference": float((left - right).mean()),
            **ends(f"{by}_", interval),
            **ends(f"{other}_", None),
            "only_first": only[0],
            "only_second": only[1],
            "p": mcnemar_exact(*only) if binary else None,
            "p_holm": None,
        })  # fmt: skip
    return table


def _is_shown(row: Mapping[str, Any]) -> bool:
    """Whether a difference holds at .05 after Holm and its interval, where it has one, leaves out
    0."""
    low = row["patient_low"] if row["patient_low"] is not None else row["question_low"]
    high = row["patient_high"] if row["patient_high"] is not None else row["question_high"]
    tested = row["p_holm"] is not None and row["p_holm"] <= 0.05
    return tested and (low is None or not low <= 0 <= high)


def _best(task: str, metric: str, rows: Table) -> str:
    best = max(rows, key=lambda row: row["score"])
    named = f"{task}, {metric}" if task else metric
    return (
        f"{named}: highest {_text(best['score'], best['scale'])} by {best['answered_by']} "
        f"({best['n']} answers; {len(rows)} {'system' if len(rows) == 1 else 'systems'})."
    )


def _text(value: float, scale: str, difference: bool = False) -> str:
    sign = "+" if difference else ""
    if scale == "number":
        return f"{value:{sign}.3f}"
    return f"{100 * value:{sign}.1f} {'points' if difference else '%'}"
