"""Records read when they are asked for, a few kept.

A cohort of MedAlign's size does not fit in memory gladly and is seldom needed whole, so a
:class:`LazyRecords` knows the ids and reads a record on access. A record that cannot be read
raises its DataError every time and is entered among the cohort's skipped once.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import PurePath
from typing import Any

import numpy as np

from core.errors import DataError, UnknownName
from core.loaders.files import skip_of
from core.storage.lru import LRU
from core.types import Event, Record, Skip

KEPT = 32
"""Most recently used records kept in memory."""


class LazyRecords(Mapping[str, Record]):
    """Record id → Record, parsed on access; other names of a record are accepted as well.

    ``readers``: id → function that reads the record and its warnings. ``aliases``: other name
    (a file's name or stem) → id, or None for a file that holds no record of the cohort. Looking up
    a name that is neither raises UnknownName.
    """

    def __init__(
        self,
        readers: Mapping[str, Callable[[], tuple[Record, list[str]]]],
        aliases: Mapping[str, str | None],
        skipped: list[Skip],
        warnings: list[str],
    ) -> None:
        self._readers, self._aliases = readers, aliases
        self._skipped, self._warnings = skipped, warnings
        self._kept: LRU[Record] = LRU(KEPT)
        self._failed: dict[str, DataError] = {}
        self._told: set[str] = set()
        self._lock = threading.RLock()

    def id_of(self, name: str) -> str | None:
        """The record's id for its id or another of its names; None where there is none."""
        return name if name in self._readers else self._aliases.get(name)

    def of_file(self, filename: str) -> str | None:
        """The id of the record in a file, named with or without its folder and ending.

        What is a file's name is that file, also where it is another record's id; what is none may
        be a record's id.
        """
        name = PurePath(filename.replace("\\", "/")).name
        forms = (filename, name, PurePath(name).stem)
        for form in forms:
            if form in self._aliases:
                return self._aliases[form]
        return next((form for form in forms if form in self._readers), None)

    def __getitem__(self, name: str) -> Record:
        id = self.id_of(name)
        if id is None:
            raise UnknownName("record", name, self._readers)
        with self._lock:
            return self._kept.get(id, lambda: self._read(id))

    def get(self, name: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The record, or ``default`` where no record has the name."""
        return self[name] if self.id_of(name) is not None else default

    def _read(self, id: str) -> Record:
        if id in self._failed:
            raise self._failed[id].with_traceback(None)
        try:
            record, warnings = self._readers[id]()
        except DataError as error:
            self._failed[id] = error
            self._skipped.append(skip_of(error))
            raise
        if id not in self._told:
            self._told.add(id)
            self._warnings.extend(warnings)
        return record

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.id_of(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


# Raw entries in document order become a Record in time order.


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
