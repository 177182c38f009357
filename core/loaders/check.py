"""Reading a cohort: counts, what was skipped and where, and the position measure it asks for.

With ``position = "auto"`` in the protocol the cohort's records choose the measure.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from midchart.core.charts.store import ChartRecords
from midchart.core.cohorts.gold import gold_under, locator_errors
from midchart.core.cohorts.labelled import StoredRecords, readable_tasks
from midchart.core.loaders.ledger import LARGEST, leaves_of
from midchart.core.loaders.open import files_state
from midchart.core.protocol import Protocol
from midchart.core.types import Account, Cohort

FEW_EVENTS = 20
"""With fewer events in the median record, positions are by tokens: event order has little
resolution there, and none in a record of one note."""
_WORDS = {"order": "order of events", "time": "elapsed time", "token": "tokens of the record"}


def resolve_position(protocol: Protocol, cohort: Cohort) -> tuple[Protocol, dict[str, Any]]:
    """The protocol with a position other than "auto", and the reason for it.

    The reason: ``used``; ``named``, whether the protocol named it; ``median_events`` of
    ``records`` records counted (None and 0 where it was named or no record could be read; the
    latter uses "order").
    """
    if protocol.position != "auto":
        why = {"used": protocol.position, "named": True, "median_events": None, "records": 0}
        return protocol, why
    counts = _event_counts(cohort)
    middle = float(median(counts)) if counts else None
    used = "token" if middle is not None and middle < FEW_EVENTS else "order"
    why = {"used": used, "named": False, "median_events": middle, "records": len(counts)}
    return dataclasses.replace(protocol, position=used), why


def position_in_words(why: Mapping[str, Any]) -> str:
    """Which position is used and why, in a line."""
    used = _WORDS[why["used"]]
    if why["named"]:
        return f"{used}, as the protocol says"
    if why["median_events"] is None:
        return f"{used}, as no record could be counted"
    limit = f"under {FEW_EVENTS}" if why["used"] == "token" else f"{FEW_EVENTS} or more"
    middle = why["median_events"]
    events = "1 event" if middle == 1 else f"{middle:,g} events"
    return f"{used}, as the median record has {events} ({limit})"


def _event_counts(cohort: Cohort) -> list[int]:
    """Events of each record; of coded events, once they are stored."""
    records = cohort.records
    if isinstance(records, StoredRecords):
        return np.diff(records.data.store().offsets).tolist() if records.data.ready() else []
    if isinstance(records, ChartRecords):
        return records.counts["events"].tolist()
    return [len(record.events) for record in records.values()]


_POSITION = ("order", "time", "token", "score", "candidates")
"""Fields of each located gold: its positions, its score and its number of equal candidates."""
Progress = Callable[[int, int], None]


def check_cohort(
    cohort: Cohort,
    progress: Progress | None = None,
    protocol: Protocol | None = None,
    locator: bool = False,
    validate: bool = False,
    leaves: bool | None = None,
) -> dict[str, Any]:
    """Counts, skipped parts, warnings and gold positions of a cohort; reads all of it.

    ``events`` and ``tokens`` (None for coded events) of the ``records`` that can be read;
    ``undated``, events before the first dated one of their record, which are in no position band;
    ``unconfined``, what limits this machine lacks for reading files of others, in a line, or None;
    ``unlocated``, gold whose evidence was not found; ``undated_evidence``, gold in entries without
    a date; ``labels`` of coded events: by task n, positive, and by split the labels (``splits``)
    and the positive ones (``positives``).
    Evidence is located by ``protocol`` (default: corrected); ``locator`` adds the locator's errors
    on this cohort, ``validate`` what of FHIR resources does not follow the standard (``invalid``).
    ``progress`` is called with (done, planned) while coded events are read. ``leaves``: whether the
    ledger is made (:mod:`.ledger`), by default where the files have at most its ``LARGEST`` bytes;
    else ``leaves`` is None.
    """
    # Counts of the cohort, and its evidence by this protocol.
    rule = protocol or Protocol()
    cohort = gold_under(cohort, rule)
    stored = cohort.records if isinstance(cohort.records, StoredRecords) else None
    counts: dict[str, int | None] = {"records": len(cohort.records)}
    if stored is not None:
        events = stored.data.store(progress).events
        counts = {"records": len(stored), "events": events, "tokens": None, "undated": 0}
    elif isinstance(cohort.records, ChartRecords):
        counts |= {name: int(each.sum()) for name, each in cohort.records.counts.items()}
    labels = (
        None
        if stored is None
        else {
            task: {
                "n": cohort.labels[task].n,
                "positive": cohort.labels[task].positive,
                "splits": {name: n for name, n, _ in cohort.labels[task].splits},
                "positives": {name: positive for name, _, positive in cohort.labels[task].splits},
            }
            for task in readable_tasks(stored.data)
        }
    )
    gold = [(i, cohort.gold[i.id]) for i in cohort.instructions if i.id in cohort.gold]
    located = [(i, g) for i, g in gold if g.spans]
    report: dict[str, Any] = {
        "name": cohort.manifest.name,
        "path": cohort.path,
        "format": cohort.format,
        "manifest": dataclasses.asdict(cohort.manifest),
        **counts,
        "instructions": len(cohort.instructions),
        "gold": len(cohort.gold),
        "unlocated": len(gold) - len(located),
        "undated_evidence": sum(g.order is None for _, g in located),
        "responses": len(cohort.responses),
        "balance": balance(cohort.accounts),
        "leaves": _leaves(cohort, leaves),
        "unconfined": (
            f"on this machine files are read without a limit on {', '.join(cohort.unconfined)} — "
            "import files of others on Linux with the packages landlock and pyseccomp"
            if cohort.unconfined
            else None
        ),
        "skipped": [dataclasses.asdict(skip) for skip in cohort.skipped],
        "warnings": list(cohort.warnings),
        "unsettled": [dataclasses.asdict(column) for column in cohort.unsettled],
        "positions": [
            {"record": i.record_id, "instruction": i.id}
            | {name: getattr(g, name) for name in _POSITION}
            for i, g in located
            if g.order is not None
        ],
    }
    # What was asked for in addition.
    if validate:
        from midchart.core.loaders.fhir import invalid_resources

        report["invalid"] = [dataclasses.asdict(skip) for skip in invalid_resources(cohort)]
    if locator:
        report["locator"] = locator_errors(cohort, rule, "token", progress)
    return report | ({"labels": labels} if labels is not None else {})


def _leaves(cohort: Cohort, wanted: bool | None) -> list[dict[str, Any]] | None:
    """The rows of the ledger of a cohort of text; None where it is not made."""
    place = Path(cohort.path)
    if wanted is False or isinstance(cohort.records, StoredRecords) or not place.exists():
        return None
    if wanted is None and sum(size for *_, size in files_state(place)) > LARGEST:
        return None
    return leaves_of(cohort)


def balance(accounts: Mapping[tuple[str, str], Account]) -> list[dict[str, Any]]:
    """What became of the parts of a cohort's files, by what they are (files, rows, resources, …).

    ``total`` in the source, ``shown`` in records, ``left_out`` by reason, and ``unaccounted``: the
    rest, 0 unless something was lost.
    """
    sums: dict[str, list[Account]] = defaultdict(list)
    for (_, what), one in accounts.items():
        sums[what].append(one)
    rows: list[dict[str, Any]] = []
    for what, parts in sums.items():
        reasons: Counter[str] = Counter()
        for reason, number in (stated for one in parts for stated in one.reasons):
            reasons[reason] += number
        row: dict[str, Any] = {"what": what}
        row |= {name: sum(getattr(one, name) for one in parts) for name in ("total", "shown")}
        row["left_out"] = dict(reasons.most_common())
        row["unaccounted"] = sum(one.unaccounted for one in parts)
        if row["total"] or row["unaccounted"]:
            rows.append(row)
    return rows
