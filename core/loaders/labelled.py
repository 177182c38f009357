"""Cohorts of coded events with labels: what EHRSHOT's two layouts and any MEDS root share.

Opening one reads only its small files. Its events are read into a store in the cache when they
are first needed (:meth:`LabelledData.store`): at once where they are few, by ``check`` or a run
where they are tens of millions, since no page should wait minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from core import config as settings
from core.errors import DataError, UnknownName
from core.loaders.files import data_error, skip_of, stably
from core.loaders.records import Raw, build_record
from core.sequences.build import RawTable, build_store, store_folder
from core.sequences.duck import connect, said
from core.sequences.labels import LabelRows, Labels, match_labels, split_codes
from core.sequences.store import NO_TIME, EventStore
from core.types import Cohort, LabelCount, Record, Skip

SMALL = 300 << 20
"""Bytes of events that are read without being asked for: a second or some."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class EventFiles:
    """What a layout knows of its files.

    ``splits``: reads patient id → split name. ``tasks``: task → reads its labels. ``names``:
    reads code → description. Each may add to the skipped parts and warnings it is given.
    """

    root: Path
    source: RawTable
    splits: Callable[[list[Skip], list[str]], Mapping[int, str]]
    tasks: Mapping[str, Callable[[list[Skip], list[str]], LabelRows]]
    names: Callable[[list[str]], Mapping[str, str]]


class LabelledData:
    """A cohort's events, splits and labels, each read once, when first asked for."""

    def __init__(self, files: EventFiles, skipped: list[Skip], warnings: list[str]) -> None:
        self.files, self._skipped, self._warnings = files, skipped, warnings
        self._lock = threading.RLock()
        self._store: EventStore | None = None
        self._splits: dict[int, int] | None = None
        self._names: Mapping[str, str] | None = None
        self._labels: dict[str, Labels] = {}

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, sorted."""
        return tuple(sorted(self.files.tasks))

    @property
    def splits(self) -> Mapping[int, int]:
        """Patient id → 0 train, 1 tuning, 2 held_out, -1 none of these."""
        with self._lock:
            if self._splits is None:
                named = self.files.splits(self._skipped, self._warnings)
                self._splits = split_codes(named)
                odd = sum(code < 0 for code in self._splits.values())
                if odd:
                    self._warnings.append(
                        f"{odd:,} patients are in a split that is none of train, tuning and "
                        "held_out — they are in no split"
                    )
            return self._splits

    def ready(self) -> bool:
        """Whether the events are in the cache."""
        return self._store is not None or EventStore.there(self._folder())

    def patients(self) -> list[int]:
        """Patient ids, from the store where it is there, else from the splits."""
        return self.store().patients.tolist() if self.ready() else sorted(self.splits)

    def _folder(self) -> Path:
        try:
            return store_folder(settings.cache_folder(), self.files.source)
        except OSError as error:
            raise data_error(error, self.files.source.name) from None

    def store(self, progress: Progress | None = None, memory: str = "2GB") -> EventStore:
        """The event store, read in where it is not in the cache; raises DataError.

        ``progress`` is told (done, planned) in thousandths of the work.
        """
        with self._lock:
            if self._store is None:
                folder = self._folder()
                found = build_store(self.files.source, folder, progress, memory)
                if self._folder() != folder:
                    name = self.files.source.name
                    raise DataError(name, None, "changed while it was read", "read it once more")
                self._skipped.extend(Skip(*problem) for problem in found.meta["problems"])
                self._compare(found)
                self._store = found
            return self._store

    def _compare(self, store: EventStore) -> None:
        here, split = set(store.patients.tolist()), set(self.splits)
        if split and here - split:
            self._warnings.append(
                f"{len(here - split):,} patients with events are in no split — labels of theirs "
                "are used by none"
            )
        if split - here:
            self._warnings.append(f"{len(split - here):,} patients of the splits have no event")

    def small(self) -> bool:
        """Whether the events may be read in without being asked for."""
        return self.ready() or sum(f.stat().st_size for f in self.files.source.files) <= SMALL

    def labels(self, task: str) -> Labels:
        """A task's labels; ``anemia`` finds the release's ``lab_anemia`` as well.

        Raises UnknownName for a task that is not there, DataError where its files cannot be read.
        """
        with self._lock:
            if task not in self.files.tasks:
                if f"lab_{task}" not in self.files.tasks:
                    raise UnknownName("task", task, self.tasks)
                task = f"lab_{task}"
            if task not in self._labels:
                rows = self.files.tasks[task](self._skipped, self._warnings)
                found = match_labels(task, rows, self.store(), self.splits)
                for count, reason in (
                    (found.unknown, "labels are of patients without events — left out"),
                    (found.repeated, "labels repeat a patient and time — the first is kept"),
                ):
                    if count:
                        self._skipped.append(Skip(f"labels of {task}", None, f"{count:,} {reason}"))
                if found.unsplit:
                    self._warnings.append(
                        f"labels of {task}: {found.unsplit:,} are of patients in no split"
                    )
                if len(rows.value) and int(rows.value.max()) > 3:
                    self._warnings.append(
                        f"labels of {task}: values go to {int(rows.value.max()):,}; positive is "
                        "any value of at least 1"
                    )
                self._labels[task] = found.labels
            return self._labels[task]

    def name_of(self, code: str) -> str:
        """A code's description, or the code itself."""
        with self._lock:
            if self._names is None:
                self._names = self.files.names(self._warnings)
            return self._names.get(code) or code


class StoredRecords(Mapping[str, Record]):
    """Patient id → Record, made from the event store on access.

    Raises DataError where the events are too many to be read in without being asked for.
    """

    def __init__(self, data: LabelledData) -> None:
        self.data = data

    def __getitem__(self, name: str) -> Record:
        data = self.data
        if not data.small():
            raise DataError(
                str(data.files.source.name), None, "has not been read in yet",
                f"run `python -m core check {data.files.root}` once (minutes)",
            )  # fmt: skip
        store = data.store()
        found = store.rows_of(np.array([_number(name)]))[0] if _number(name) is not None else -1
        if found < 0:
            raise UnknownName("record", name, self)
        return _record(data, store, int(found), name)

    def __contains__(self, name: object) -> bool:
        number = _number(name) if isinstance(name, str) else None
        return number is not None and number in set(self.data.patients())

    def get(self, name: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The record, or ``default`` where no record has the name."""
        if name not in self:
            return default
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return map(str, self.data.patients())

    def __len__(self) -> int:
        return len(self.data.patients())


def _number(name: str) -> int | None:
    try:
        found = int(name)
    except ValueError:
        return None
    return found if str(found) == name else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def _record(data: LabelledData, store: EventStore, row: int, name: str) -> Record:
    part = slice(int(store.offsets[row]), int(store.offsets[row + 1]))
    codes, texts, units, kinds = (store.words(w) for w in ("code", "text", "unit", "kind"))
    raw: list[Raw] = []
    for time, code, value, text, unit, kind in zip(
        store.time[part].tolist(), store.code[part].tolist(), store.value[part],
        store.text[part].tolist(), store.unit[part].tolist(), store.kind[part].tolist(),
        strict=True,
    ):  # fmt: skip
        when = None if time == NO_TIME else _EPOCH + timedelta(microseconds=time)
        said = texts[text] or ("" if np.isnan(value) else str(value))
        raw.append(
            (when, kinds[kind] or "event", codes[code], data.name_of(codes[code]), said,
             units[unit], "", "", None)
        )  # fmt: skip
    return build_record(name, raw, {}, data.files.source.name, by_time=False)


class LabelCounts(Mapping[str, LabelCount]):
    """Task → how many labels; counting reads the labels, and the events where they are needed."""

    def __init__(self, data: LabelledData) -> None:
        self._data = data

    def __getitem__(self, task: str) -> LabelCount:
        labels = self._data.labels(task)
        return LabelCount(len(labels), int(labels.positive.sum()), labels.counts())

    def __iter__(self) -> Iterator[str]:
        return iter(self._data.tasks)

    def __len__(self) -> int:
        return len(self._data.tasks)


def labelled(cohort: Cohort) -> LabelledData:
    """The events, splits and labels of a cohort; raises DataError where it has none."""
    if not isinstance(cohort.records, StoredRecords):
        raise DataError(
            cohort.path, None, "holds no coded events with labels",
            "EHRSHOT's folder or a MEDS root is needed",
        )  # fmt: skip
    return cohort.records.data


def readable_tasks(data: LabelledData) -> Iterator[str]:
    """Tasks whose labels can be read; the others become skipped parts of the cohort."""
    for task in data.tasks:
        try:
            data.labels(task)
        except DataError as error:
            data._skipped.append(skip_of(error))  # pyright: ignore[reportPrivateUsage]
        else:
            yield task


# Label values as files write them, as SQL that gives whole numbers.


_WORDS = {"false": 0, "no": 0, "normal": 0, "true": 1, "yes": 1, "mild": 1, "moderate": 2,
          "severe": 3}  # fmt: skip


def text_value(column: str) -> str:
    """SQL for the grade that a text column holds; null where it holds none."""
    cases = " ".join(f"WHEN '{word}' THEN {value}" for word, value in _WORDS.items())
    text = f"lower(trim({column}::VARCHAR))"
    return f"CASE {text} {cases} ELSE {number_value(text)} END"


def number_value(column: str) -> str:
    """SQL for the grade that a number holds: its whole part."""
    return f"try_cast(floor(try_cast({column} AS DOUBLE)) AS INT)"


def read_labels(select: str, name: str, skipped: list[Skip], csv: Path | None = None) -> LabelRows:
    """Labels from SQL giving ``p`` BIGINT, ``t`` BIGINT µs and ``y`` INT, in file order.

    Rows without one of them go to ``skipped``, one line a reason. ``csv``: the one file that the
    SQL reads with ``store_rejects``; its lines that are no row are skipped and counted too, and
    the first of a reason is told by its line where every line of the file is a row. Raises
    DataError.
    """
    torn: tuple[int, int | None] = (0, None)
    base = connect()
    try:
        found = {n: np.ma.asarray(c) for n, c in base.execute(select).fetchnumpy().items()}
        if csv is not None:
            counted = "SELECT count(DISTINCT line), min(line) FROM reject_errors"
            torn = base.execute(counted).fetchone() or torn
    except duckdb.Error as error:
        raise DataError(name, None, said(error), "fix or replace it") from None
    finally:
        base.close()
    if torn[0]:
        reason = f"{torn[0]:,} lines are not a row of the table — left out; the first is named"
        skipped.append(Skip(name, torn[1], reason))
    numbered = csv is not None and _lines(csv, name) == len(found["p"]) + 1
    missing = {c: np.ma.getmaskarray(np.ma.asarray(found[c])) for c in ("p", "t", "y")}
    left = np.zeros(len(found["p"]), bool)
    for column, reason in (
        ("p", "no patient id that is a whole number"),
        ("t", "no readable prediction time"),
        ("y", "no readable value"),
    ):
        mine = missing[column] & ~left
        left |= mine
        if mine.any():
            reason = f"{int(mine.sum()):,} labels have {reason} — left out"
            first = int(np.flatnonzero(mine)[0]) + 2 if numbered else None
            skipped.append(Skip(name, first, reason))
    kept = ~left
    return LabelRows(
        np.asarray(found["p"], np.int64)[kept],
        np.asarray(found["t"], np.int64)[kept],
        np.asarray(found["y"], np.int32)[kept],
    )


def _lines(file: Path, name: str) -> int:
    """How many lines a file has, empty ones at its end aside."""
    return stably(file, name, file.read_bytes).rstrip(b"\r\n").count(b"\n") + 1


def pickles(root: Path, folder: Path, warnings: list[str]) -> None:
    """Warn of pickled files, which are never opened: opening one runs what it says."""
    found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".pkl", ".pickle"))
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        warnings.append(
            f"{found[0].relative_to(root).as_posix()}{more}: pickled files are refused, since "
            "opening one runs whatever it holds; counts are made from the events instead"
        )


# EHRSHOT's chest X-ray labels: fourteen findings in one number, read as fourteen tasks.


TASK = "chexpert"
FINDINGS = (
    "no_finding", "enlarged_cardiomediastinum", "cardiomegaly", "lung_lesion", "lung_opacity",
    "edema", "consolidation", "pneumonia", "atelectasis", "pneumothorax", "pleural_effusion",
    "pleural_other", "fracture", "support_devices",
)  # fmt: skip
Read = Callable[[list[Skip], list[str]], LabelRows]


class _Masks:
    """The labels as the file has them, read once for all findings."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._rows: LabelRows | None = None

    def rows(self, skipped: list[Skip], warnings: list[str]) -> LabelRows:
        """Labels whose value is a mask of fourteen bits; others are skipped and counted."""
        if self._rows is None:
            rows = self._read(skipped, warnings)
            good = (rows.value >= 0) & (rows.value < 1 << len(FINDINGS))
            if not good.all():
                reason = (
                    f"{int((~good).sum()):,} labels are no mask of {len(FINDINGS)} findings, "
                    f"0 to {(1 << len(FINDINGS)) - 1} — left out"
                )
                skipped.append(Skip(f"labels of {TASK}", None, reason))
            self._rows = LabelRows(rows.patient[good], rows.time[good], rows.value[good])
        return self._rows


def _finding(masks: _Masks, at: int, skipped: list[Skip], warnings: list[str]) -> LabelRows:
    rows = masks.rows(skipped, warnings)
    bit = (rows.value >> (len(FINDINGS) - 1 - at)) & 1
    return LabelRows(rows.patient, rows.time, bit.astype(np.int32))


def with_findings(tasks: Mapping[str, Read]) -> dict[str, Read]:
    """``tasks`` (name → reads its labels) with one task a finding in place of ``chexpert``."""
    found = dict(tasks)
    read = found.pop(TASK, None)
    if read is not None:
        masks = _Masks(read)
        found |= {f"{TASK}_{name}": partial(_finding, masks, i) for i, name in enumerate(FINDINGS)}
    return found
