"""Which position of the evidence counts where nobody named one: the cohort's records decide."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from core.errors import DataError
from core.loaders.labelled import StoredRecords
from core.protocol import Protocol
from core.types import Cohort

FEW_EVENTS = 20
"""A cohort whose median record has fewer events goes by tokens: there the index of an event says
little, and in a record of one note nothing."""
MOST_READ = 101
"""Records that are counted, evenly spread over the cohort; all of them where there are fewer."""
WORDS = {"order": "order of events", "time": "elapsed time", "token": "tokens of the record"}


def resolve_position(protocol: Protocol, cohort: Cohort) -> tuple[Protocol, dict[str, Any]]:
    """The protocol with a position that is not "auto", and why it is that one.

    A position that the protocol names stays. The reason: ``used``; ``named``, whether the protocol
    named it; ``median_events`` of ``records`` records counted (None and 0 where it was named, or no
    record could be read, and ``used`` is then "order").
    """
    if protocol.position != "auto":
        why = {"used": protocol.position, "named": True, "median_events": None, "records": 0}
        return protocol, why
    counts = _event_counts(cohort)
    middle = float(median(counts)) if counts else None
    used = "token" if middle is not None and middle < FEW_EVENTS else "order"
    return (
        dataclasses.replace(protocol, position=used),
        {"used": used, "named": False, "median_events": middle, "records": len(counts)},
    )


def position_in_words(why: Mapping[str, Any]) -> str:
    """Which position is used and why, in a line."""
    used = WORDS[why["used"]]
    if why["named"]:
        return f"{used}, as the protocol says"
    if why["median_events"] is None:
        return f"{used}, as no record could be counted"
    limit = f"under {FEW_EVENTS}" if why["used"] == "token" else f"{FEW_EVENTS} or more"
    middle = why["median_events"]
    events = "1 event" if middle == 1 else f"{middle:,g} events"
    return f"{used}, as the median record has {events} ({limit})"


def _event_counts(cohort: Cohort) -> list[int]:
    """Events of the records counted; of coded events, of all patients once they are read in."""
    if isinstance(cohort.records, StoredRecords):
        data = cohort.records.data
        return np.diff(data.store().offsets).tolist() if data.ready() else []
    ids = list(cohort.records)
    step = max(len(ids) / MOST_READ, 1.0)
    counts: list[int] = []
    for i in range(min(len(ids), MOST_READ)):
        try:
            counts.append(len(cohort.records[ids[int(i * step)]].events))
        except DataError:
            continue  # it is among cohort.skipped now
    return counts
