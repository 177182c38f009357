"""Raw entries in document order become a Record in time order.

Sorting is global and stable, because encounters overlap. An entry without a readable time keeps
no time; for sorting alone it stays behind the entry before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain

import numpy as np

from core.types import Event, Record

Raw = tuple[datetime | None, str, str, str, str, str, str, str, int | None]
"""An entry without its order: time, kind, code, name, text, unit, note id, visit id, line."""


def _time_order(raw: Sequence[Raw]) -> list[int]:
    keys: list[datetime] = []
    last = datetime.min
    for entry in raw:
        if entry[0] is not None:
            last = entry[0]
        keys.append(last)
    return sorted(range(len(raw)), key=keys.__getitem__)


def digest_of(id: str, raw: Sequence[Raw], facts: Sequence[tuple[str, str]]) -> str:
    """Hash (hex, 128 bits) of all content, the same in every process and on every machine.

    Lengths go in before the characters, so no two different records give the same input. Lines
    are where a text stands in a file, not what it says, and stay out.
    """
    fields = [id, *chain.from_iterable(facts), *chain.from_iterable(entry[1:8] for entry in raw)]
    times = [entry[0].isoformat() if entry[0] else "" for entry in raw]
    made = hashlib.blake2b(digest_size=16)
    made.update(np.fromiter(map(len, fields), dtype="<u8").tobytes())
    made.update("".join(fields).encode("utf-8", "surrogatepass"))
    made.update(",".join(times).encode())
    return made.hexdigest()


def build_record(
    id: str, raw: Sequence[Raw], facts: Mapping[str, str], source: str, by_time: bool = True
) -> Record:
    """The record of these entries; ``by_time`` False keeps the order they are given in."""
    ordered = [raw[i] for i in _time_order(raw)] if by_time else list(raw)
    stated = tuple(facts.items())
    events = tuple([Event(i, *entry) for i, entry in enumerate(ordered)])
    return Record(id, events, digest_of(id, ordered, stated), stated, source)
