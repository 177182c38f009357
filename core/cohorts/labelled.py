"""Cohorts of coded events with labels: the common part of EHRSHOT's layout and MEDS.

Opening one reads only its small files. Its events are read into a store in the cache when they
are first needed (:meth:`LabelledData.store`): immediately where they are few, by ``check`` or a
run where they are tens of millions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path

import duckdb
import numpy as np

from midchart.core import config as settings
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.records import Entry, NamedRecords, build_record
from midchart.core.errors import DataError, UnknownName
from midchart.core.sequences.build import (
    EARLIEST,
    LATEST,
    OUTSIDE,
    RawTable,
    build_store,
    describe_error,
    store_folder,
)
from midchart.core.sequences.store import (
    NO_TIME,
    EventStore,
    LabelRows,
    Labels,
    match_labels,
    split_codes,
)
from midchart.core.storage.rows import cursor
from midchart.core.storage.sources import DEEP, Source
from midchart.core.types import Cohort, LabelCount, Record

PICKLES = (".pkl", ".pickle")
"""Endings of pickled files."""
SMALL = 300 << 20
"""Bytes of events that are read without being asked for: about a second."""
Progress = Callable[[int, int], None]
_ReadLabels = Callable[[LoadLog], LabelRows]


@dataclass(frozen=True)
class EventFiles:
    """The files of a layout.

    ``splits``: reads patient id → split name. ``tasks``: task → reads its labels. ``names``:
    reads code → description.
    """

    source: RawTable
    splits: Callable[[LoadLog], Mapping[int, str]]
    tasks: Mapping[str, _ReadLabels]
    names: Callable[[LoadLog], Mapping[str, str]]


class LabelledData:
    """A cohort's events, splits and labels, each read on first access."""

    def __init__(self, files: EventFiles, log: LoadLog, path: str) -> None:
        self.files, self.log, self.path = files, log, path
        self._lock = threading.RLock()
        self._store: EventStore | None = None
        self._labels: dict[str, Labels] = {}

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, sorted."""
        return tuple(sorted(self.files.tasks))

    @cached_property
    def splits(self) -> Mapping[int, int]:
        """Patient id → 0 train, 1 tuning, 2 held_out, -1 none of these."""
        splits = split_codes(self.files.splits(self.log))
        if other := sum(code < 0 for code in splits.values()):
            self.log.warn(
                f"{other:,} patients are in a split that is none of train, tuning and held_out — "
                "they are in no split"
            )
        return splits

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Descriptions of codes."""
        return self.files.names(self.log)

    def ready(self) -> bool:
        """Whether the events are in the cache."""
        return self._store is not None or EventStore.there(self._folder())

    def patients(self) -> Mapping[str, int]:
        """Patient id → its row of the store where that exists, else -1 by the splits."""
        return self._rows if self.ready() else dict.fromkeys(map(str, sorted(self.splits)), -1)

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        return {str(id): row for row, id in enumerate(self.store().patients.tolist())}

    def _folder(self) -> Path:
        return store_folder(settings.cache_folder(), self.files.source)

    def store(self, progress: Progress | None = None) -> EventStore:
        """The event store, built where it is not in the cache; raises DataError.

        ``progress`` is called with the rows that are in order, and with all of them.
        """
        with self._lock:
            if self._store is None:
                folder, name = self._folder(), self.files.source.name
                store = build_store(self.files.source, folder, progress)
                if self._folder() != folder:
                    raise DataError(name, None, "changed while it was read", "read it once more")
                for problem in store.meta["problems"]:
                    self.log.skip(*problem)
                self.log.account(
                    name,
                    "rows",
                    total=store.meta["rows"],
                    shown=int(store.offsets[-1]),
                    reasons=store.meta["left_out"],
                )
                with_events, in_splits = {*store.patients.tolist()}, {*self.splits}
                if in_splits and (others := len(with_events - in_splits)):
                    reason = "with events are in no split — labels of theirs are used by none"
                    self.log.warn(f"{others:,} patients {reason}")
                if without := len(in_splits - with_events):
                    self.log.warn(f"{without:,} patients of the splits have no event")
                self._store = store
            return self._store

    def small(self) -> bool:
        """Whether the events may be read without being asked for."""
        return self.ready() or sum(file.size for file in self.files.source.files) <= SMALL

    def labels(self, task: str) -> Labels:
        """A task's labels; ``anemia`` also names the release's ``lab_anemia``.

        Raises UnknownName for an unknown task, DataError where its files cannot be read.
        """
        with self._lock:
            if task not in self.files.tasks:
                if f"lab_{task}" not in self.files.tasks:
                    raise UnknownName("task", task, self.tasks)
                task = f"lab_{task}"
            if task not in self._labels:
                rows = self.files.tasks[task](self.log)
                matched = match_labels(task, rows, self.store(), self.splits)
                name, log = f"labels of {task}", self.log
                if matched.unknown:
                    n = matched.unknown
                    log.skip(name, None, f"{n:,} labels are of patients without events — left out")
                if matched.repeated:
                    reason = "labels repeat a patient and time — the first is kept"
                    log.skip(name, None, f"{matched.repeated:,} {reason}")
                if matched.unsplit:
                    log.warn(f"{name}: {matched.unsplit:,} are of patients in no split")
                if len(rows.value) and int(rows.value.max()) > 3:
                    highest = int(rows.value.max())
                    log.warn(
                        f"{name}: values go to {highest:,}; positive is any value of at least 1"
                    )
                self._labels[task] = matched.labels
            return self._labels[task]

    def count(self, task: str) -> LabelCount:
        """Label counts of a task; raises as :meth:`labels`."""
        labels = self.labels(task)
        return LabelCount(len(labels), int(labels.positive.sum()), labels.counts())

    def name_of(self, code: str) -> str:
        """A code's description, or the code itself."""
        return self.names.get(code) or code


class StoredRecords(NamedRecords):
    """Patient id → Record, made from the event store on access.

    Raises DataError where the events are too many to be read without being asked for.
    """

    def __init__(self, data: LabelledData) -> None:
        self.data, self.aliases = data, {}

    @property
    def _ids(self) -> Mapping[str, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.data.patients()

    def _record(self, id: str) -> Record:
        data = self.data
        if not data.small():
            raise DataError(
                str(data.files.source.name), None, "has not been read in yet",
                f"run `midchart check {data.path}` once (minutes)",
            )  # fmt: skip
        store = data.store()
        row = self._ids.get(id)
        if row is None:
            raise UnknownName("record", id, self)
        return _record(data, store, row, id)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def _record(data: LabelledData, store: EventStore, row: int, name: str) -> Record:
    part = slice(int(store.offsets[row]), int(store.offsets[row + 1]))
    codes, texts, units, kinds = (store.words(w) for w in ("code", "text", "unit", "kind"))
    entries: list[Entry] = []
    for micros, code, value, text, unit, kind in zip(
        store.time[part].tolist(), store.code[part].tolist(), store.value[part],
        store.text[part].tolist(), store.unit[part].tolist(), store.kind[part].tolist(),
        strict=True,
    ):  # fmt: skip
        time = None if micros == NO_TIME else _EPOCH + timedelta(microseconds=micros)
        number, stated, of = "" if np.isnan(value) else str(value), texts[text], units[unit]
        if number and stated not in ("", number):
            number, stated, of = "", f"{number} {of}".rstrip() + f"; {stated}", ""
        entries.append(
            (time, kinds[kind] or "event", codes[code], data.name_of(codes[code]),
             stated or number, of, "", "", None, "")
        )  # fmt: skip
    return build_record(name, entries, {}, data.files.source.name, by_time=False)


def labelled(cohort: Cohort) -> LabelledData:
    """The events, splits and labels of a cohort; raises DataError where it has none."""
    if not isinstance(cohort.records, StoredRecords):
        raise DataError(
            cohort.path, None, "holds no coded events with labels",
            "EHRSHOT's folder or a MEDS root is needed",
        )  # fmt: skip
    return cohort.records.data


def readable_tasks(data: LabelledData) -> Iterator[str]:
    """Tasks whose labels can be read; the others are skipped parts of the cohort."""
    for task in data.tasks:
        with data.log.skipping():
            data.labels(task)
            yield task


def unique_splits(
    rows: Iterable[tuple[int | None, int | None, str | None]], name: str, log: LoadLog
) -> dict[int, str]:
    """Patient id → split of (line, id, split) rows; patients in two splits are in none."""
    splits: dict[int, str] = {}
    twice: set[int] = set()
    invalid: list[int | None] = []
    for line, id, split in rows:
        if id is None or split is None:
            invalid.append(line)
        elif splits.setdefault(id, split) != split:
            twice.add(id)
    if invalid:
        reason = "rows have no patient id that is a whole number, or no split — left out"
        log.skip(name, invalid[0], f"{len(invalid):,} {reason}")
    if twice:
        log.skip(name, None, f"{len(twice):,} patients are in two splits — they are in none now")
    return {id: split for id, split in splits.items() if id not in twice}


# Label values as SQL that gives whole numbers.

_GRADES = {"false": 0, "no": 0, "normal": 0, "true": 1, "yes": 1, "mild": 1, "moderate": 2,
           "severe": 3}  # fmt: skip


def text_value(column: str) -> str:
    """SQL for the grade in a text column; null where there is none."""
    cases = " ".join(f"WHEN '{word}' THEN {value}" for word, value in _GRADES.items())
    text = f"lower(trim({column}::VARCHAR))"
    return f"CASE {text} {cases} ELSE {number_value(text)} END"


def number_value(column: str) -> str:
    """SQL for the grade in a numeric column: its integer part."""
    return f"try_cast(floor(try_cast({column} AS DOUBLE)) AS INT)"


def read_labels(select: str, name: str, log: LoadLog, csv: Source | None = None) -> LabelRows:
    """Labels from SQL giving ``p`` BIGINT, ``t`` BIGINT µs and ``y`` INT, in file order.

    Rows without one of them are skipped, one line a reason. ``csv``: the one file that the SQL
    reads with ``store_rejects``; its malformed lines are skipped and counted, and line numbers are
    given where every line of the file is a row. Raises DataError.
    """
    malformed: tuple[int, int | None] = (0, None)
    try:
        with cursor() as base:
            columns = {n: np.ma.asarray(c) for n, c in base.execute(select).fetchnumpy().items()}
            if csv is not None:
                counted = "SELECT count(DISTINCT line), min(line) FROM reject_errors"
                malformed = base.execute(counted).fetchone() or malformed
    except duckdb.Error as error:
        raise DataError(name, None, describe_error(error), "fix or replace it") from None
    columns["moment"] = np.ma.masked_outside(columns["t"], EARLIEST, LATEST)
    n = len(columns["p"])
    if malformed[0]:
        reason = "lines are not a row of the table — left out; the first is named"
        log.skip(name, malformed[1], f"{malformed[0]:,} {reason}")
    # Every line but the header is a row where as many line ends follow it, those at the end apart.
    numbered = csv is not None and csv.content().rstrip(b"\r\n").count(b"\n") == n
    left_out = np.zeros(n, bool)
    for column, reason in (
        ("p", "no patient id that is a whole number"),
        ("t", "no readable prediction time"),
        ("moment", f"a prediction time {OUTSIDE}"),
        ("y", "no readable value"),
    ):
        missing = np.ma.getmaskarray(np.ma.asarray(columns[column])) & ~left_out
        left_out |= missing
        if missing.any():
            first = int(np.flatnonzero(missing)[0]) + 2 if numbered else None
            log.skip(name, first, f"{int(missing.sum()):,} labels have {reason} — left out")
    return LabelRows(
        np.asarray(columns["p"], np.int64)[~left_out],
        np.asarray(columns["t"], np.int64)[~left_out],
        np.asarray(columns["y"], np.int32)[~left_out],
    )


def warn_of_pickles(folder: Source, log: LoadLog) -> None:
    """Warn of pickled files, which are never opened because they may run code."""
    files = [file for file in folder.entries(DEEP) if file.ending in PICKLES]
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        log.warn(
            f"{files[0].name}{more}: pickled files are refused, since "
            "opening one runs whatever it holds; counts are made from the events instead"
        )


# EHRSHOT's chest X-ray labels: fourteen findings in one bit mask, read as fourteen tasks.

CHEXPERT = "chexpert"
FINDINGS = (
    "no_finding", "enlarged_cardiomediastinum", "cardiomegaly", "lung_lesion", "lung_opacity",
    "edema", "consolidation", "pneumonia", "atelectasis", "pneumothorax", "pleural_effusion",
    "pleural_other", "fracture", "support_devices",
)  # fmt: skip


def with_findings(tasks: Mapping[str, _ReadLabels]) -> dict[str, _ReadLabels]:
    """``tasks`` with one task per finding in place of ``chexpert``, whose file is read once."""
    others = dict(tasks)
    read = others.pop(CHEXPERT, None)
    if read is None:
        return others
    cached: list[LabelRows] = []

    def finding(bit: int, log: LoadLog) -> LabelRows:
        if not cached:
            cached.append(_valid_masks(read(log), log))
        rows = cached[0]
        value = (rows.value >> (len(FINDINGS) - 1 - bit)) & 1
        return LabelRows(rows.patient, rows.time, value.astype(np.int32))

    return others | {f"{CHEXPERT}_{f}": partial(finding, i) for i, f in enumerate(FINDINGS)}


def _valid_masks(rows: LabelRows, log: LoadLog) -> LabelRows:
    """The labels whose value is a mask of fourteen bits; others are skipped and counted."""
    valid = (rows.value >= 0) & (rows.value < 1 << len(FINDINGS))
    if not valid.all():
        reason = f"labels are no mask of {len(FINDINGS)} findings, 0 to {(1 << len(FINDINGS)) - 1}"
        log.skip(f"labels of {CHEXPERT}", None, f"{int((~valid).sum()):,} {reason} — left out")
    return LabelRows(rows.patient[valid], rows.time[valid], rows.value[valid])
