"""What a run will do, told before it starts: items, calls, tokens, dollars, and what would leave.

Nothing is made, sent or loaded. Tokens are worked out from a few records, spread over the cohort,
and from the arms' budgets, so they are "about": a selection of long notes is longer than one of
short readings. Dollars rest on the price table of the judges (:mod:`core.judges.model.prices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from core import settings, weights
from core.arms import ARMS
from core.errors import DataError, EgressRefused
from core.judges import JUDGES
from core.loaders.position import position_in_words
from core.packing import HEAD, MIDDLE, TAIL
from core.protocol import Protocol
from core.readers import READERS
from core.run.compose.summaries import writing
from core.run.compose.timing import expected
from core.run.entries import READER, ArmEntry
from core.run.kind import KINDS
from core.run.leaving import Destination, destinations, permit
from core.run.members import MemberEntry
from core.run.opening import opened
from core.run.plan import Spec
from core.run.planning import chosen, find_data, positioned
from core.run.spec import read_spec
from core.text import count_tokens, sentences
from core.types import Cohort, Instruction

SAMPLE = 5
"""Records from which lengths are worked out."""
WINDOW = 32_768
"""Taken for a reader that does not say how long a prompt it reads."""
ANSWER = 0.5
"""Share of the tokens an answer may have that it is taken to have."""
CHARACTERS = 4.0
"""Of a token of English."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of the sampled records and their questions: tokens of all units, units, tokens of the
    latest events, characters of questions and evidence; (events, units, tokens) of each record."""

    total: float
    units: float
    latest: float
    question: float
    evidence: float
    records: tuple[tuple[int, int, int], ...] = ()

    def prompt(self, entry: ArmEntry, window: int, protocol: Protocol) -> float:
        """Tokens of a prompt over an arm entry's selection."""
        unit = self.total / max(self.units, 1.0)
        limit = protocol.buffer_tokens(entry.tokens)
        buffer = self.latest if limit is None else min(self.latest, limit)
        kept = self.total if entry.name == "full" else entry.k * unit + buffer
        kept = min(kept, self.total, entry.tokens or self.total)
        if protocol.context_tokens:
            kept = min(kept, protocol.context_tokens)
        frame = count_tokens(HEAD + MIDDLE + TAIL) + self.question / CHARACTERS
        return min(kept + frame, max(window - protocol.answer_tokens, frame))


def estimate(source: str | Path | dict[str, Any], cluster: str = "") -> dict[str, Any]:
    """What the run of a spec will do; ``cluster``: whose machines are to do its work.

    ``items``, ``instructions``, ``records``; ``position``, which one of the evidence its tables go
    by and why; ``readers`` (those that arms work with, too) and
    ``judges``, each with its label, calls and tokens, a judge that is a language ``model`` with its
    price; ``calls`` of readers and such judges, ``tokens`` and ``cost_usd`` in all (null where a
    price is not known); ``hosts``, every server called; ``leaves``, what would leave this machine
    (null: nothing), with ``refused``, why it may not as things stand; ``cluster``, the same for the
    machines of a named one; ``weights`` it needs; ``time``, the seconds it takes (null: unknown)
    and by what. Raises as starting it does, but for what may not leave.
    """
    spec = read_spec(source)
    path = find_data(spec.data, spec.base)
    kind = KINDS.build(spec.kind)
    source_cohort = opened(str(path))
    spec, position = positioned(spec, source_cohort)
    cohort = kind.cohort(source_cohort, spec)
    instructions = chosen(cohort, spec)
    lengths = _lengths(cohort, instructions, spec.protocol)
    readers = [_reader(spec, entry, instructions, lengths) for entry in spec.readers]
    own = [entry for entry in spec.arms if READER in entry.options]
    readers += [_arms_reader(spec, entry, instructions, lengths) for entry in own]
    judges = [_judge(spec, entry, instructions, lengths) for entry in spec.judges]
    found = destinations(spec.arms, spec.readers, spec.judges, len(instructions))
    patients = kind.patients(cohort, instructions)
    costs = [judge["cost_usd"] for judge in judges if judge["calls"] and judge["model"]]
    items = kind.planned(spec, cohort, instructions)
    return {
        "items": items,
        "instructions": len(instructions),
        "records": patients,
        "position": position_in_words(position) if position else "",
        "readers": readers,
        "judges": judges,
        "calls": sum(row["calls"] for row in (*readers, *judges) if row.get("model", True)),
        "tokens": sum(row["read_tokens"] + row["written_tokens"] for row in (*readers, *judges)),
        "cost_usd": None if None in costs else sum(costs),
        "hosts": [destination.shown() for destination in found],
        "leaves": _leaves(found, cohort, spec, patients, len(instructions)),
        "cluster": _cluster(cluster, cohort),
        "weights": _weights(spec),
        "time": expected(spec, path, items),
    }


def _spread(instructions: Sequence[Instruction]) -> list[str]:
    records = list(dict.fromkeys(instruction.record_id for instruction in instructions))
    step = max(len(records) / SAMPLE, 1.0)
    return [records[int(i * step)] for i in range(min(SAMPLE, len(records)))]


def _lengths(cohort: Cohort, instructions: Sequence[Instruction], protocol: Protocol) -> Lengths:
    total: list[float] = []
    units: list[float] = []
    latest: list[float] = []
    each: list[tuple[int, int, int]] = []
    sampled = set(_spread(instructions))
    for id in sampled:
        try:
            pieces = sentences(cohort.records[id], protocol)
        except DataError:
            continue  # the run tells it as the reason of its items
        tokens = [piece.tokens for piece in pieces]
        events = sorted({piece.span.event for piece in pieces})[-protocol.recency :]
        recent = set(events if protocol.recency else [])
        total.append(sum(tokens))
        each.append((len({piece.span.event for piece in pieces}), len(tokens), sum(tokens)))
        units.append(len(tokens))
        latest.append(sum(p.tokens for p in pieces if p.span.event in recent))
    asked = [i for i in instructions if i.record_id in sampled]
    golds = [cohort.gold.get(i.id) for i in asked]
    evidence = [float(sum(map(len, gold.snippets))) for gold in golds if gold is not None]
    return Lengths(
        fmean(total or [0.0]),
        fmean(units or [1.0]),
        fmean(latest or [0.0]),
        fmean([float(len(i.question)) for i in instructions] or [0.0]),
        fmean(evidence or [0.0]),
        tuple(each),
    )


def _reader(
    spec: Spec, entry: MemberEntry, instructions: Sequence[Instruction], lengths: Lengths
) -> dict[str, Any]:
    window = int(entry.options.get("window") or WINDOW)
    prompts = [lengths.prompt(arm, window, spec.protocol) for arm in spec.arms]
    calls = len(instructions) * len(spec.arms)
    return {
        "label": entry.label,
        "calls": calls,
        "read_tokens": round(sum(prompts) * len(instructions)),
        "written_tokens": round(calls * spec.protocol.answer_tokens * ANSWER),
    }


def _arms_reader(
    spec: Spec, arm: ArmEntry, instructions: Sequence[Instruction], lengths: Lengths
) -> dict[str, Any]:
    """What an arm has its own reader write of each record, whatever is asked of it."""
    entry = MemberEntry.read(arm.options[READER])
    one = writing(
        arm,
        spec.protocol,
        int(entry.options.get("window") or WINDOW),
        lengths.records,
        lengths.question / CHARACTERS,
        spec.protocol.answer_tokens * ANSWER,
    )
    n = len({instruction.record_id for instruction in instructions})
    return {
        "label": f"{entry.label}, for the arm {arm.label}",
        "calls": round(one.calls * n),
        "read_tokens": round(one.read * n),
        "written_tokens": round(one.written * n),
    }


def _judge(
    spec: Spec, entry: MemberEntry, instructions: Sequence[Instruction], lengths: Lengths
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": entry.label,
        "calls": len(instructions) * len(spec.arms) * len(spec.readers) * entry.repeats,
        "read_tokens": 0,
        "written_tokens": 0,
        "model": False,
        "cost_usd": 0.0,
        "budget_usd": entry.options.get("budget_usd") or None,
        "caching": "",
        "price": "a rule: it calls nobody",
    }
    forecast = getattr(JUDGES.get(entry.name), "forecast", None)
    if forecast is None:
        return row
    response = spec.protocol.answer_tokens * ANSWER * CHARACTERS
    if spec.protocol.response_characters:
        response = min(response, spec.protocol.response_characters)
    one = forecast(lengths.question, lengths.evidence, response, **entry.options)
    calls = row["calls"]
    return row | {
        "read_tokens": one.read_tokens * calls,
        "written_tokens": one.written_tokens * calls,
        "model": True,
        "cost_usd": None if one.cost_usd is None else one.cost_usd * calls,
        "caching": one.caching,
        "price": one.price,
    }


def _leaves(
    found: Sequence[Destination], cohort: Cohort, spec: Spec, patients: int, questions: int
) -> dict[str, Any] | None:
    away = [destination for destination in found if not destination.local]
    if not away:
        return None
    refused = ""
    try:
        permit(found, cohort.manifest, spec.allow_hosts)
    except EgressRefused as error:
        refused = str(error)
    readers = any(destination.purpose.startswith("reader") for destination in away)
    what = "questions, evidence and answers"
    return {
        "hosts": sorted({destination.host for destination in away}),
        "what": f"parts of records, {what}" if readers else what,
        "records": patients,
        "questions": questions,
        "encrypted": all(destination.encrypted for destination in away),
        "refused": refused,
    }


def _cluster(cluster: str, cohort: Cohort) -> dict[str, Any] | None:
    """What goes to the machines of a cluster that does the work; None where there is none."""
    if not cluster:
        return None
    refused = ""
    try:
        permit((), cohort.manifest, (), cluster)
    except EgressRefused as error:
        refused = str(error)
    return {"place": cluster, "what": "records, prompts and answers", "refused": refused}


def _weights(spec: Spec) -> list[dict[str, Any]]:
    """Weights that members of the run load, and whether they are here: without, it is refused."""
    used: dict[str, list[str]] = {}
    members = [(ARMS, e.name, e.options) for e in spec.arms]
    members += [(READERS, e.name, e.options) for e in spec.readers]
    members += [(JUDGES, e.name, e.options) for e in spec.judges]
    for registry, name, options in members:
        needs = getattr(registry.get(name), "needs", None)
        if needs:
            model = options.get("model", needs)
            used.setdefault(str(model), []).append(name)
    catalogue = {row["name"]: row for row in weights.catalogue()}
    return [
        {
            "name": name,
            "used_by": ", ".join(dict.fromkeys(by)),
            "size_mb": catalogue[name]["size_mb"] if name in catalogue else None,
            "here": catalogue[name]["here"]
            if name in catalogue
            else any(p.exists() for p in (Path(name), settings.models_folder() / name)),
            "where": catalogue[name]["where"]
            if name in catalogue
            else str(settings.models_folder() / name),
        }
        for name, by in used.items()
    ]
