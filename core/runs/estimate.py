"""What a run will do, estimated before it starts: items, calls, tokens, cost, time, egress. Nothing
is written, sent or loaded."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from midchart.core import config as settings
from midchart.core import weights
from midchart.core.access import SpecRef, SpecText, needs
from midchart.core.arms import ARMS
from midchart.core.arms.map_reduce import SUMMARISE
from midchart.core.errors import DataError, EgressRefused, MidchartError
from midchart.core.format import count
from midchart.core.judges import JUDGES
from midchart.core.loaders.check import position_in_words
from midchart.core.named_files import shown_path
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.plan import READER, ArmConfig, ComponentSpec, Spec
from midchart.core.runs.planner import Destination, destinations, opened, permit
from midchart.core.runs.pool import named_cluster, read_cluster, require_divisible
from midchart.core.runs.spec import gathering, read_spec, read_toml
from midchart.core.runs.status import newest_first
from midchart.core.storage.jsonl import read_lines
from midchart.core.text import count_tokens, sentences
from midchart.core.text.prompt import HEAD, MIDDLE, TAIL
from midchart.core.types import Cohort, Instruction

# Time, by the rates of this machine's finished runs.


LATEST = 40
"""Number of latest finished runs of the same components whose rates are read."""
COUNTING = ("tasks", "seeds")
"""Fields that change the number of items, not the time of one."""


def _time(spec: Spec, items: int) -> dict[str, Any]:
    """``seconds`` that so many items took at the lowest and at the highest rate of finished runs of
    the same kind, readers and judges, or of the same option values where it has neither (null:
    there is none), and the ``basis``, in words. A run that was resumed has no rate."""
    rates: list[float] = []
    for folder in newest_first():
        with suppress(OSError, DataError):  # not finished, or damaged
            done = folder.finished()
            rows, once = done["done"] + done["failed"], len([*read_lines(folder.people)]) == 1
            if rows and once and _components(folder.plan()) == _components(spec):
                rates.append(done.get("seconds", 0.0) / rows)
        if len(rates) == LATEST:
            break
    if not rates:
        return {"seconds": None, "basis": "nothing like it has finished on this machine yet"}
    basis = f"{count(len(rates), 'finished run')} of the same readers and judges"
    return {"seconds": [items * min(rates), items * max(rates)], "basis": basis}


def _components(what: Spec) -> tuple[Any, ...]:
    """Kind, readers and judges; of a kind without them, arms and its own fields as a plan holds
    them."""
    if what.readers or what.judges:
        return what.kind, sorted(what.readers), sorted(what.judges)
    fields = {name: value for name, value in what.options.items() if name not in COUNTING}
    return what.kind, sorted(arm.label for arm in what.arms), json.dumps(fields, sort_keys=True)


# Calls and tokens.


DATE = count_tokens("[2015-01-01]")
"""Tokens of the date before a line of a prompt."""
FRAME = count_tokens(HEAD + MIDDLE + TAIL)
"""Tokens of a prompt without context and question."""
SAMPLE = 5
"""Records from which lengths are estimated."""
WINDOW = 32_768
"""Tokens assumed for a reader whose window is not in the spec."""
ANSWER = 0.5
"""Length assumed for an answer, as a share of the tokens it may have."""
CHARACTERS = 4.0
"""Characters of a token of English."""


class Lengths(NamedTuple):
    """Means over sampled records and their questions: events, units, tokens of all units and of the
    latest events; characters of questions and evidence."""

    events: float
    units: float
    total: float
    latest: float
    question: float
    evidence: float

    def prompt(self, entry: ArmConfig, window: int, protocol: Protocol) -> float:
        """Tokens of a prompt over an arm's selection."""
        unit = self.total / max(self.units, 1.0)
        limit = protocol.buffer_tokens(entry.tokens)
        buffer = self.latest if limit is None else min(self.latest, limit)
        context = self.total if entry.name == "full" else entry.k * unit + buffer
        context = min(context, self.total, entry.tokens or self.total)
        if protocol.context_tokens:
            context = min(context, protocol.context_tokens)
        frame = FRAME + self.question / CHARACTERS
        return min(context + frame, max(window - protocol.answer_tokens, frame))


def _lengths(cohort: Cohort, instructions: Sequence[Instruction], protocol: Protocol) -> Lengths:
    ids = list(dict.fromkeys(instruction.record_id for instruction in instructions))
    step = max(len(ids) / SAMPLE, 1.0)
    sampled = {ids[int(i * step)] for i in range(min(SAMPLE, len(ids)))}
    records: list[tuple[float, ...]] = []
    for id in sampled:
        with suppress(DataError):  # the reason of its items in the run
            units = sentences(cohort.records[id], protocol)
            events = sorted({unit.span.event for unit in units})
            recent = set(events[-protocol.recency :] if protocol.recency else [])
            latest = sum(unit.tokens for unit in units if unit.span.event in recent)
            records.append((len(events), len(units), sum(unit.tokens for unit in units), latest))
    golds = [cohort.gold.get(i.id) for i in instructions if i.record_id in sampled]
    evidence = [sum(map(len, gold.snippets)) for gold in golds if gold is not None]
    return Lengths(
        *(fmean(sizes) for sizes in zip(*(records or [(0, 1, 0, 0)]), strict=True)),
        question=fmean([len(i.question) for i in instructions] or [0]),
        evidence=fmean(evidence or [0]),
    )


def _row(spec: Spec, entry: ComponentSpec, label: str, calls: int, read: float) -> dict[str, Any]:
    """Calls of a reader, the tokens that it reads and writes in all, and what they cost, of one
    that has a price (null: it is not known)."""
    read, written = round(read), round(calls * spec.protocol.answer_tokens * ANSWER)
    sizes = {"calls": calls, "read_tokens": read, "written_tokens": written}
    row: dict[str, Any] = {"label": label, **sizes}
    if price_of := getattr(READERS.get(entry.name), "price", None):
        price = price_of(**entry.options)
        row["cost_usd"] = None if price is None else price.of(read, written)
    return row


def _reader(
    spec: Spec, entry: ComponentSpec, questions: int, lengths: Lengths, added: int
) -> dict[str, Any]:
    window = int(entry.options.get("window") or WINDOW)
    prompts = sum(lengths.prompt(arm, window, spec.protocol) for arm in spec.arms)
    calls, read = questions * len(spec.arms), prompts * questions + added * len(spec.arms)
    return _row(spec, entry, entry.label, calls, read)


def _arms_reader(spec: Spec, arm: ArmConfig, records: int, lengths: Lengths) -> dict[str, Any]:
    """What an arm has its own reader write of each record, once for all questions: a summary of
    each chunk of events (those of summaries are not counted)."""
    entry = ComponentSpec(**arm.options[READER])
    default = inspect.signature(ARMS.get(arm.name)).parameters.get("events")
    chunk = arm.options.get("events", default.default if default else 0)
    calls = records * ceil(lengths.events / (chunk or max(lengths.events, 1)))
    read = records * (lengths.total + DATE * lengths.units)
    read += calls * (FRAME + count_tokens(SUMMARISE))
    return _row(spec, entry, f"{entry.label}, for the arm {arm.label}", calls, read)


def _judge(spec: Spec, entry: ComponentSpec, questions: int, lengths: Lengths) -> dict[str, Any]:
    calls = questions * len(spec.arms) * len(spec.readers) * entry.repeats
    row = {"label": entry.label, "calls": calls, "read_tokens": 0, "written_tokens": 0}
    row |= {"budget_usd": entry.options.get("budget_usd") or None}
    estimate_call = getattr(JUDGES.get(entry.name), "estimate_call", None)
    if estimate_call is None:
        return row | {"model": False, "cost_usd": 0.0, "price": "a rule: it calls nobody"}
    response = spec.protocol.answer_tokens * ANSWER * CHARACTERS
    if spec.protocol.response_characters:
        response = min(response, spec.protocol.response_characters)
    texts = lengths.question, lengths.evidence, response
    one = estimate_call(spec.protocol, *texts, **entry.options)
    return row | {
        "read_tokens": one.read_tokens * calls,
        "written_tokens": one.written_tokens * calls,
        "model": True,
        "cost_usd": None if one.cost_usd is None else one.cost_usd * calls,
        "price": one.price,
    }


@needs("viewer")
def estimate(source: SpecRef, cluster: str = "") -> dict[str, Any]:
    """What the run of a spec will do; ``cluster``: whose machines are to do its work.

    ``readers`` (those of arms too) and ``judges`` with label, calls, tokens and price; ``calls``,
    ``tokens`` and ``cost_usd`` in all (null: a price is unknown); ``hosts`` called; ``leaves``,
    what would leave this machine (null: nothing), with ``refused``, why it may not; ``cluster``,
    the same for a named cluster; ``weights`` needed; ``time``, the lowest and highest ``seconds``
    (null: unknown) and their basis. Raises as starting the run does, except for what may not leave.
    """
    _, spec, position, cohort, instructions = opened(read_spec(source))
    kind = EXPERIMENTS.build(spec.kind)
    lengths = _lengths(cohort, instructions, spec.protocol)
    n, records = len(instructions), len({instruction.record_id for instruction in instructions})
    added = kind.added_tokens(cohort, instructions)
    readers = [_reader(spec, entry, n, lengths, added) for entry in spec.reader_entries]
    with_reader = [arm for arm in spec.arms if READER in arm.options]
    readers += [_arms_reader(spec, arm, records, lengths) for arm in with_reader]
    judges = [_judge(spec, entry, n, lengths) for entry in spec.judge_entries]
    listed = destinations(spec, n)
    patients = kind.patients(cohort, instructions)
    costs = [judge["cost_usd"] for judge in judges if judge["calls"] and judge["model"]]
    costs += [reader["cost_usd"] for reader in readers if "cost_usd" in reader]
    items = kind.planned(spec, cohort, instructions)
    return {
        "items": items,
        "instructions": n,
        "records": patients,
        "position": position_in_words(position) if position else "",
        "readers": readers,
        "judges": judges,
        "calls": sum(row["calls"] for row in (*readers, *judges) if row.get("model", True)),
        "tokens": sum(row["read_tokens"] + row["written_tokens"] for row in (*readers, *judges)),
        "cost_usd": None if None in costs else sum(costs),
        "hosts": [destination.shown() for destination in listed],
        "leaves": _leaves(listed, cohort, spec, patients, n),
        "cluster": {"address": cluster}
        | _sent("records, prompts and answers", (), cohort, (), cluster)
        if cluster
        else None,
        "weights": _weights(spec),
        "time": _time(spec, items),
    }


def _sent(
    what: str, listed: Sequence[Destination], cohort: Cohort, hosts: Sequence[str], cluster: str
) -> dict[str, Any]:
    """What would leave this machine, and why it may not; ``refused`` is "" where it may."""
    try:
        permit(listed, cohort, hosts, cluster)
    except EgressRefused as error:
        return {"what": what, "refused": str(error)}
    return {"what": what, "refused": ""}


def _leaves(
    listed: Sequence[Destination], cohort: Cohort, spec: Spec, patients: int, questions: int
) -> dict[str, Any] | None:
    external = [destination for destination in listed if not destination.local]
    if not external:
        return None
    readers = any(destination.purpose.startswith("reader") for destination in external)
    what = "parts of records, " * readers + "questions, evidence and answers"
    return {
        "hosts": sorted({destination.host for destination in external}),
        "records": patients,
        "questions": questions,
        "encrypted": all(destination.encrypted for destination in external),
        **_sent(what, listed, cohort, spec.allow_hosts, ""),
    }


def _weights(spec: Spec) -> list[dict[str, Any]]:
    """Weights that components of the run load, and whether they are installed."""
    lists = ((ARMS, spec.arms), (READERS, spec.reader_entries), (JUDGES, spec.judge_entries))
    used: dict[str, list[str]] = {}
    for registry, entries in lists:
        for entry in entries:
            if needs := getattr(registry.get(entry.name), "needs", None):
                used.setdefault(str(entry.options.get("model", needs)), []).append(entry.name)
    catalogue = {row["name"]: row for row in weights.catalogue()}
    rows: list[dict[str, Any]] = []
    for name, by in used.items():
        folder = weights.in_models_folder(name)
        unknown = {"size_mb": None, "here": folder.exists(), "where": shown_path(folder)}
        facts = {field: catalogue.get(name, unknown)[field] for field in unknown}
        rows.append({"name": name, "used_by": ", ".join(dict.fromkeys(by)), **facts})
    return rows


@needs("viewer")
def preflight(source: SpecText, on: str = "") -> dict[str, Any]:
    """What a spec will do, and every reason why it cannot start; raises nothing for a wrong one.

    ``source``: TOML text, a TOML file's path (a ``Path``), or a mapping. ``on``: where its work is
    to be done (:mod:`midchart.core.runs.planner`). ``problems``: reasons; ``estimate``: null where
    the spec is not valid; ``cluster``: whose machines would see records, "" for none.
    """
    estimated: dict[str, Any] | None = None
    problems: list[str] = []
    cluster = ""
    try:
        cluster = read_cluster(on)
    except MidchartError as error:
        problems.append(str(error))
    with gathering() as missing:
        try:
            table = read_toml(source) if isinstance(source, str) else source
            estimated = estimate(
                table if isinstance(table, Path) else dict(table), named_cluster(cluster)
            )
            require_divisible(read_spec(table), cluster)
        except MidchartError as error:
            problems.append(str(error))
    problems += missing
    for external in ("leaves", "cluster"):
        if estimated is not None and estimated[external] and estimated[external]["refused"]:
            problems.append(estimated[external]["refused"])
    runs = settings.runs_folder()
    folder = next(path for path in (runs, *runs.parents) if path.exists())
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        problems.append(f"{shown_path(folder)} cannot be written to, which a run needs")
    return {
        "problems": list(dict.fromkeys(problems)),
        "estimate": estimated,
        "cluster": named_cluster(cluster),
    }
