"""Records parsed on access, the most recent ones cached.

A cohort of MedAlign's size does not fit in memory and is rarely read completely, so
:class:`LazyRecords` holds ids and reads a record on access.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import PurePath
from typing import Any

import numpy as np

from core.errors import DataError, UnknownName
from core.loaders.files import LoadLog
from core.storage.lru import LRU
from core.types import Event, Record

CACHED = 32
"""Most recently used records in memory."""
ReadRecord = Callable[[], tuple[Record, list[str]]]
"""Reads a record and its warnings; raises DataError."""


class LazyRecords(Mapping[str, Record]):
    """Record id → Record, parsed on access; a record's other names are accepted as well.

    ``readers``: id → function that reads it. ``aliases``: other name (a file's name or stem) → id,
    or None for a file without a record of the cohort. An unknown name raises UnknownName. A record
    that cannot be read raises its DataError every time and enters ``log.skipped`` once.
    """

    def __init__(
        self,
        readers: Mapping[str, ReadRecord],
        log: LoadLog,
        aliases: Mapping[str, str | None] | None = None,
    ) -> None:
        self._readers, self._log, self._aliases = readers, log, aliases or {}
        self._cache: LRU[Record] = LRU(CACHED)
        self._failed: dict[str, DataError] = {}
        self._lock = threading.RLock()

    def id_of(self, name: str) -> str | None:
        """The record's id for its id or another of its names; None where there is none."""
        return name if name in self._readers else self._aliases.get(name)

    def of_file(self, filename: str) -> str | None:
        """The id of the record in a file, named with or without its folder and ending.

        A file's name means that file, also where it is another record's id; any other name may be
        a record's id.
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
            return self._cache.get(id, lambda: self._read(id))

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
            self._log.skip_error(error)
            raise
        for warning in warnings:
            self._log.warn(warning)
        return record

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.id_of(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


Entry = tuple[datetime | None, str, str, str, str, str, str, str, int | None, str]
"""An event before it has its order: time, kind, code, name, text, unit, note id, visit id, line,
author."""


def entry(
    time: datetime | None,
    kind: str,
    *,
    code: str = "",
    name: str = "",
    text: str = "",
    unit: str = "",
    note_id: str = "",
    visit_id: str = "",
    line: int | None = None,
    author: str = "",
) -> Entry:
    """An entry by field names."""
    return time, kind, code, name, text, unit, note_id, visit_id, line, author


def _time_order(entries: Sequence[Entry]) -> list[int]:
    """Indices in stable time order; an entry without a time stays after the one before it."""
    keys: list[datetime] = []
    last = datetime.min
    for one in entries:
        if one[0] is not None:
            last = one[0]
        keys.append(last)
    return sorted(range(len(entries)), key=keys.__getitem__)


def digest_of(id: str, entries: Sequence[Entry], facts: Sequence[tuple[str, str]]) -> str:
    """Hash (hex, 128 bits) of all content, the same in every process and on every machine.

    Lengths are hashed before the characters, so two different records never give the same input.
    Line numbers and authors are not content and are not hashed.
    """
    fields = [id, *chain.from_iterable(facts), *chain.from_iterable(one[1:8] for one in entries)]
    times = [one[0].isoformat() if one[0] else "" for one in entries]
    digest = hashlib.blake2b(digest_size=16)
    digest.update(np.fromiter(map(len, fields), dtype="<u8").tobytes())
    digest.update("".join(fields).encode("utf-8", "surrogatepass"))
    digest.update(",".join(times).encode())
    return digest.hexdigest()


def build_record(
    id: str, entries: Sequence[Entry], facts: Mapping[str, str], source: str, by_time: bool = True
) -> Record:
    """The record of these entries, sorted by time unless ``by_time`` is False."""
    ordered = [entries[i] for i in _time_order(entries)] if by_time else list(entries)
    stated = tuple(facts.items())
    events = tuple([Event(i, *one) for i, one in enumerate(ordered)])
    return Record(id, events, digest_of(id, ordered, stated), stated, source)


class PatientEntries:
    """Entries of many patients, collected in the order they are read, and made into records."""

    def __init__(self, log: LoadLog) -> None:
        self.log = log
        self.entries: dict[str, list[Entry]] = {}
        self.facts: dict[str, dict[str, str]] = {}
        """Demographics by patient, as the source states them."""
        self.ids: dict[tuple[str, str], str] = {}
        """Patient by (stated id, text), in a format whose ids are not unique."""
        self._source: dict[str, str] = {}
        self._undated: dict[str, list[int]] = {}
        self._numbers = Counter[str]()

    def unused(self, name: str, names: Container[str]) -> str:
        """The name, or else the first of ``name-2``, ``name-3``, … that is not among ``names``."""
        free = name
        while free in names:
            self._numbers[name] += 1  # so that many of one name take no quadratic time
            free = f"{name}-{self._numbers[name] + 1}"
        return free

    def add(self, patient: str, file: str, *entries: Entry) -> None:
        """Enter entries, none or several, read from ``file``; undated ones with a line count."""
        self.entries.setdefault(patient, []).extend(entries)
        self._source.setdefault(patient, file)
        undated = [one[8] for one in entries if one[0] is None and one[8] is not None]
        if undated:
            self._undated.setdefault(file, []).extend(undated)

    def records(self, by_time: bool = True) -> LazyRecords:
        """The records; one warning for each file with entries that have no readable time.

        ``by_time`` False: the format has no times, so entries stay in the order of the file.
        """
        for file, lines in self._undated.items() if by_time else ():
            self.log.warn(
                f"{file}:{lines[0]}: {len(lines)} entries have no readable time — they stay where "
                "the file has them and have no time position"
            )

        def read(patient: str) -> tuple[Record, list[str]]:
            facts = self.facts.get(patient, {})
            source = self._source[patient]
            return build_record(patient, self.entries[patient], facts, source, by_time), []

        return LazyRecords({p: partial(read, p) for p in self.entries}, self.log)
