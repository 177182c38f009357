"""Runs of kind ``other_results``: another system's log, opened as a finished run that is only read
here; nothing is judged again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from hashlib import sha256
from itertools import combinations, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core import config as settings
from midchart.core.access import Received, guarded, needs
from midchart.core.egress import audit
from midchart.core.errors import DataError, InputError, SpecError, one_line
from midchart.core.identity import person
from midchart.core.options import read_run_name
from midchart.core.parsing import user_path
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest, now, versions
from midchart.core.results.comparison import adjust_holm
from midchart.core.results.importing import make_read_only
from midchart.core.results.tables import ends, generator, grouped
from midchart.core.runs.declared import Conclusion, Ends, Measure, Unit, View
from midchart.core.runs.directory import (
    DIGESTS,
    LOG_OF,
    RunDirectory,
    make_run,
    row_digests,
    write_json,
)
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
    mcnemar_exact,
    paired_cells,
    paired_floor,
    reported_interval,
    share_floor,
)
from midchart.core.storage.files import incoming, writing
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.types import CUT_OFF, Cohort, Instruction, Manifest
from midchart.extras.audit.samples.open import format_of, read_samples
from midchart.extras.audit.samples.sample import Sample

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
        groups = grouped(scores, lambda row: (row["task"], row["metric"]))
        tables: dict[str, Table] = {"scores": [], "differences": []}
        for (task, metric), of_task in sorted(groups.items()):
            systems, values = grouped(of_task, _label), [row["score"] for row in of_task]
            scale = "share" if min(values) >= 0 and max(values) <= 1 else "number"
            place = {"task": task, "metric": metric, "scale": scale}
            for label, rows in sorted(systems.items()):
                facts = {name: rows[0][name] for name in ("model", "system")}
                counted = {
                    "answered_by": label,
                    **facts,
                    **place,
                    **_mean(rows, scale, plan, *place.values(), label),
                }
                tables["scores"].append(counted | usage[task, label])
            tables["differences"] += _differences(systems, place, plan)
        adjust_holm(tables["differences"], ("p",))
        return tables

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        """The best system of each task by its first metric, and the differences that are shown."""
        rows: Table = report["tables"]["scores"]
        if not rows:
            return Conclusion()
        tasks = grouped(rows, lambda row: (row["task"], row["metric"]))
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
    usage: dict[tuple[str, str], dict[str, Any]] = {}
    for key, rows in grouped(samples, lambda row: (row["task"], _label(row))).items():
        ended = [row["ended"] for row in rows if row["ended"] is not None]
        facts: dict[str, Any] = {"cut_off": sum(end in CUT_OFF for end in ended) if ended else None}
        for name in ("read_tokens", "output_tokens", "cost_usd"):
            known = [row[name] for row in rows if row[name] is not None]
            facts[name] = sum(known) if known else None
        usage[key] = facts
    return usage


def _estimate(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    values: Floats,
    counted: Sequence[Floats],
    floor: Callable[[Floats], Interval],
    plan: Plan,
    *key: object,
) -> dict[str, Any]:
    """The columns of a mean, with its interval by patient where every row has one, else by
    question; null for too few. ``floor``: the interval that it contains, of the sums of ``counted``
    by cluster; none without any."""
    patients = all(row["record"] for row in rows)
    _, member = cluster_members([row["record" if patients else "instruction"] for row in rows])

    def sums(columns: Sequence[Floats]) -> Floats:
        return np.column_stack([np.bincount(member, weights=of) for of in columns]).astype(float)

    means = sums([values, np.ones(len(rows))])
    interval = None
    if len(means) >= FEWEST_CLUSTERS:
        totals = cluster_totals(means, plan.protocol.resamples, generator(plan, *key))
        least = floor(sums(counted)) if len(counted) else None
        interval = reported_interval(ratio(totals[:, 0], totals[:, 1]), len(means), least)
    return {
        "n": len(rows),
        "patients": len(means) if patients else None,
        name: float(values.mean()),
        **ends("patient_", interval if patients else None),
        **ends("question_", None if patients else interval),
    }


def _mean(rows: Sequence[Mapping[str, Any]], scale: str, plan: Plan, *key: str) -> dict[str, Any]:
    values = np.array([row["score"] for row in rows], dtype=np.float64)
    counted = (values, np.ones(len(values))) if scale == "share" else ()
    binary = bool(np.isin(values, (0.0, 1.0)).all())
    wilson = wilson_interval(int(values.sum()), len(values)) if binary else None
    return {
        **_estimate("score", rows, values, counted, lambda of: share_floor(*of.T), plan, *key),
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
        binary = bool(np.isin(np.concatenate([left, right]), (0.0, 1.0)).all())
        named = [{"record": records[one], "instruction": one} for one in shared]
        counted = paired_cells(left, right).T if binary else ()
        estimate = _estimate(
            "difference", named, left - right, counted, paired_floor,
            plan, *place.values(), first, second,
        )  # fmt: skip
        only = int((left > right).sum()), int((left < right).sum())
        table.append(
            {
                **dict(zip(_VERSUS, (first, second), strict=True)),
                **place,
                **estimate,
                "only_first": only[0],
                "only_second": only[1],
                "p": mcnemar_exact(*only) if binary else None,
            }
        )
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


KIND = "other_results"
LONGEST_SOURCE = 100
"""Characters of a log's name that the name of its run has."""
MOST_NAMED = 20
"""Parts of a log that could not be read, by name; the others are counted."""


@guarded
@needs("researcher", paths=("folder",))
def import_results(path: Received, name: str = "", sample_format: str = "") -> dict[str, Any]:
    """Open a log (a file or folder of a known format) as a finished run.

    ``name``: of the run, else the log's, hidden characters as escapes. Gives ``run``, ``folder``,
    ``format``, ``samples``, ``scores``, ``patients`` (None where the log names none) and
    ``warnings``: what could not be read, and what the figures lack. Raises DataError where nothing
    can be read, UnknownName for a format that is not known, InputError for a name that is too long
    or cannot be printed, MissingModel where its package is not installed; then nothing is left of
    it.
    """
    place = user_path(path)
    chosen_name = read_run_name(name, "import")
    source = _shown(place.name)
    read_format = format_of(place, sample_format)
    runs, cohort = settings.runs_folder(), _received_for(place)
    with writing(runs):
        runs.mkdir(parents=True, exist_ok=True)
        stack = ExitStack()
        hidden = stack.enter_context(incoming(runs, settings.imports_lock()))
    stack.enter_context(writing(runs))
    store = RowStore(hidden, OtherResults.schemas)
    stack.callback(store.close)
    troubles: list[str] = []
    count = unread = scores = unnamed = 0
    patients: set[str] = set()
    prompts: set[str] = set()
    total = sha256()

    def trouble(line: str) -> None:
        nonlocal unread
        unread += 1
        if len(troubles) < MOST_NAMED:
            troubles.append(one_line(line))

    with stack:
        # The rows, before the run's folder is made: the run appears complete or not at all.
        for sample in read_samples(place, trouble, sample_format):
            count += 1
            total.update(_append(store, prompts, sample).encode())
            scores += len(sample.scores)
            patients.add(sample.patient)
            unnamed += not sample.patient
        if not count:
            reason = troubles[0] if troubles else f"{place.name}: holds no sample"
            raise DataError(place.name, None, f"nothing can be read ({reason})", "check the format")
        store.compact()
        warnings = [*troubles, *_doubts(count, unread, scores, unnamed)]
        facts = {"format": read_format.name, "warnings": warnings}
        run_name = chosen_name or f"{source} ({read_format.name})"

        def complete(folder: RunDirectory) -> None:
            if _received_for(place) != cohort:
                raise InputError(f"{place.name}: its cohort was removed meanwhile")
            for table in hidden.glob("*.parquet"):
                table.rename(folder.items / table.name)
            finished = {"run": folder.id, "finished": now(), "seconds": 0.0, "planned": count}
            digests = row_digests(folder)
            write_json(folder.imported, {
                "cohort": "absent", "data": "", "imported": now(), "by": person().name,
                "with_text": True, LOG_OF: cohort, DIGESTS: digests,
            })  # fmt: skip
            write_json(folder.done, {**finished, "done": count, "failed": 0, DIGESTS: digests})
            make_read_only(folder)
            audit.note("run imported", run=folder.id, file=place.name)

        document = _document(run_name, source, total.hexdigest(), count, facts)
        folder = make_run(document, complete=complete)
    return {
        "run": folder.id,
        "folder": str(folder.path),
        "format": read_format.name,
        "samples": count,
        "scores": scores,
        "patients": None if unnamed else len(patients),
        "warnings": warnings,
    }


def _shown(file: str) -> str:
    """The name of a file that somebody sent, as one line that any terminal shows."""
    text = one_line(file)
    return text if len(text) <= LONGEST_SOURCE else f"{text[: LONGEST_SOURCE - 1]}…"


def _received_for(place: Path) -> str:
    """The cohort that a log was received for (:mod:`midchart.extras.audit.received_logs`), or
    ""."""
    logs = settings.received_folder().resolve()
    inside = place.resolve()
    if not inside.is_relative_to(logs):
        return ""
    cohort = next(iter(inside.relative_to(logs).parts), "")
    return cohort if cohort and (settings.cohorts_folder() / cohort).is_dir() else ""


_encoded = json.JSONEncoder(ensure_ascii=False).encode
_encoded_in_order = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def _append(store: RowStore, prompts: set[str], sample: Sample) -> str:
    """Write a sample's rows, and its prompt where it is none of ``prompts``; gives a hash of
    them."""
    messages = _encoded([[one.role, one.text] for one in sample.messages])
    prompt = digest(messages, sample.context)
    shared: dict[str, Any] = {"item": sample.id, "status": "ok", "reason": None}
    common = {
        **shared,
        "record": sample.patient,
        "instruction": digest(sample.patient, sample.task, sample.question or messages),
        "task": sample.task,
        "system": sample.system,
        "model": sample.model,
        "ended": sample.ended or None,
    }
    row: dict[str, Any] = {
        **common,
        "prompt_hash": prompt,
        "read_tokens": sample.input_tokens,
        "output_tokens": sample.output_tokens,
        "cost_usd": sample.cost_usd,
        "question": sample.question,
        "answer": sample.answer,
        "place": sample.place,
        "reference": list(sample.reference),
    }
    content = _encoded_in_order([row, dict(sample.scores)])
    key = digest(sample.id, content)
    store.append("samples", {"key": key, **row})
    for metric, score in sample.scores.items():
        scored = {**common, "metric": metric, "score": float(score)}
        store.append("scores", {"key": digest(key, metric), **scored})
    if prompt not in prompts:
        prompts.add(prompt)
        texts = {"messages": messages, "context": sample.context}
        store.append("prompts", {"key": prompt, **shared, **texts})
    return key


def _doubts(count: int, unread: int, scores: int, unnamed: int) -> list[str]:
    doubts: list[str] = []
    if unread > MOST_NAMED:
        doubts.append(f"{unread - MOST_NAMED:,} further parts of the log could not be read")
    if not scores:
        doubts.append("the log holds no score, so there is nothing to compare")
    if unnamed:
        doubts.append(
            f"{unnamed:,} of {count:,} samples name no patient: where one of them counts, "
            "intervals are by question, and too narrow if questions share a patient"
        )
    return doubts


def _document(
    name: str, source: str, content: str, count: int, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """``spec.json`` of an imported log; its texts may not leave this machine."""
    return {
        "spec": {
            "name": name, "kind": KIND, "data": source, "arms": [], "readers": [], "judges": [],
            "limit": None, "part": "", "options": {}, "allow_hosts": [],
        },
        "protocol": Protocol().as_dict(),
        "position": None,
        "cohort": {
            "path": source, "format": facts["format"], "digest": content,
            "data_use": asdict(Manifest(name=source)),
        },
        "versions": versions(),
        "weights": {},
        "instructions": count,
        "planned": count,
        "found": dict(facts),
    }  # fmt: skip
