"""The event store, opened as memory maps; its labels, and the last events before each of them.

A cohort's coded events are sorted columns on disk. A folder with one ``.npy`` a column, the words
of the ids as Parquet, and ``meta.json``. Rows are sorted by patient, then time, then the source's
own order; events without a time come first of their patient.

A label is positive where its value is at least 1 (DATA, EHRSHOT): laboratory tasks grade 0
normal, 1 mild, 2 moderate, 3 severe; the others are 0 or 1.

The last events before each prediction time are found for many labels at once. The end of every
window is found by one binary search over all labels together (their patients' rows are sorted by
time), then each window is a run of consecutive rows and is copied as one.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from midchart.core.errors import DataError
from midchart.core.regular_files import open_regular

FORMAT = 4
"""Changes whenever the columns do, or which rows are left out; part of a store's key."""
NO_TIME = -(2**62)
"""The time of an event that has none: before every other, so it sorts and searches as the first."""
SPLITS = ("train", "tuning", "held_out")
"""Names of the split codes 0, 1 and 2; -1 is none of them."""
COLUMNS = {
    "code": np.dtype("<i4"),
    "time": np.dtype("<i8"),
    "value": np.dtype("<f4"),
    "text": np.dtype("<i4"),
    "unit": np.dtype("<i4"),
    "kind": np.dtype("<i4"),
}
"""Column → type. Ids count from 1; 0 means none (a code always has one)."""


def _opened(file: Path) -> BinaryIO:
    """A file of a store; raises DataError where it is missing or may not be read."""
    try:
        return open_regular(file)
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise DataError(str(file), None, reason, "remove its folder: it is built again") from None


def _load(folder: Path, name: str) -> NDArray[Any]:
    """A column as a read-only memory map of the file that was opened."""
    from numpy.lib import format as npy

    with _opened(folder / f"{name}.npy") as file:
        npy.read_magic(file)  # NumPy writes version 1.0 for columns of numbers
        shape, by_columns, dtype = npy.read_array_header_1_0(file)
        return np.memmap(file, dtype, "r", file.tell(), shape, "F" if by_columns else "C")


@dataclass(frozen=True)
class EventStore:
    """A cohort's events.

    ``patients``: ids, int64 [p], ascending. ``offsets``: int64 [p + 1]; patient i has the rows
    ``offsets[i]:offsets[i + 1]``. ``code``: int32 [n], 1 is the most frequent. ``time``: int64
    [n], microseconds since 1970, :data:`NO_TIME` where none. ``value``: float32 [n], nan where
    none. ``text``, ``unit``, ``kind``: int32 [n], 0 where none.
    """

    folder: Path
    patients: NDArray[np.int64]
    offsets: NDArray[np.int64]
    code: NDArray[np.int32]
    time: NDArray[np.int64]
    value: NDArray[np.float32]
    text: NDArray[np.int32]
    unit: NDArray[np.int32]
    kind: NDArray[np.int32]

    @staticmethod
    def there(folder: Path) -> bool:
        """Whether there is a store in ``folder``; stores are written atomically."""
        return (folder / "meta.json").is_file()

    @classmethod
    def open(cls, folder: Path) -> EventStore:
        """The store in ``folder``; raises DataError where a column is missing."""
        return cls(
            folder,
            np.asarray(_load(folder, "patients")),
            np.asarray(_load(folder, "offsets")),
            **{name: _load(folder, name) for name in COLUMNS},
        )

    @property
    def events(self) -> int:
        """Number of events."""
        return len(self.code)

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Metadata of the build: ``problems`` is a list of (file, line, reason), ``rows`` the
        number of rows and lines of the source, ``left_out`` those left out by reason."""
        with _opened(self.folder / "meta.json") as file:
            return json.load(file)

    def words(self, of: Literal["code", "text", "unit", "kind"]) -> list[str]:
        """The words of a column by id; entry 0 is the empty string."""
        words = self._words.get(of)
        if words is None:
            from pyarrow import parquet

            with (
                _opened(self.folder / f"{of}.parquet") as file,
                parquet.ParquetFile(file) as opened,
            ):
                column = opened.read(["word"])["word"]
            words = self._words[of] = ["", *column.to_pylist()]
        return words

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        return {}

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The index of each patient id, int64; -1 where the store has no such patient."""
        if not len(self.patients):
            return np.full(len(ids), -1)
        at = np.minimum(np.searchsorted(self.patients, ids), len(self.patients) - 1)
        return np.where(self.patients[at] == ids, at, -1)


_SPLIT_NAMES = {
    "train": 0, "training": 0, "tuning": 1, "tune": 1, "val": 1, "valid": 1, "validation": 1,
    "dev": 1, "held_out": 2, "held-out": 2, "heldout": 2, "test": 2,
}  # fmt: skip


def split_codes(names: Mapping[int, str]) -> dict[int, int]:
    """Patient id → 0 train, 1 tuning, 2 held_out, -1 for a name that is none of these."""
    return {id: _SPLIT_NAMES.get(name.strip().lower(), -1) for id, name in names.items()}


@dataclass(frozen=True)
class LabelRows:
    """Labels as a file gives them: patient id int64, time int64 µs, value int32, all [n]."""

    patient: NDArray[np.int64]
    time: NDArray[np.int64]
    value: NDArray[np.int32]


@dataclass(frozen=True)
class Labels:
    """A task's labels, sorted by patient and time; all arrays [n].

    ``patient``: id, int64. ``row``: the patient's index in the event store, int64. ``time``:
    prediction time, int64 µs. ``value``: int32 as the file has it. ``positive``: uint8.
    ``split``: int8, an index into :data:`midchart.core.sequences.store.SPLITS`, -1 for none.
    """

    task: str
    patient: NDArray[np.int64]
    row: NDArray[np.int64]
    time: NDArray[np.int64]
    value: NDArray[np.int32]
    positive: NDArray[np.uint8]
    split: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.patient)

    def part(self, split: str) -> NDArray[np.int64]:
        """Indices of the labels of a split, ascending; raises ValueError for an unknown name."""
        return np.flatnonzero(self.split == SPLITS.index(split))

    def counts(self) -> tuple[tuple[str, int, int], ...]:
        """(split, labels, positives) of each split."""
        return tuple(
            (name, int(in_split.sum()), int(self.positive[in_split].sum()))
            for i, name in enumerate(SPLITS)
            for in_split in (self.split == i,)
        )


@dataclass(frozen=True)
class Matched:
    """Usable labels, and counts of others: ``unknown`` patients, ``repeated`` rows (patient and
    time as before), and ``unsplit`` labels (used, but in no split)."""

    labels: Labels
    unknown: int
    repeated: int
    unsplit: int


def match_labels(
    task: str, rows: LabelRows, store: EventStore, splits: Mapping[int, int]
) -> Matched:
    """A task's labels of the store's patients; the first of several at one time is kept."""
    at = store.rows_of(rows.patient)
    known = at >= 0
    chosen = np.flatnonzero(known)
    chosen = chosen[np.lexsort((chosen, rows.time[chosen], at[chosen]))]
    repeated = np.zeros(len(chosen), bool)
    repeated[1:] = (np.diff(at[chosen]) == 0) & (np.diff(rows.time[chosen]) == 0)
    chosen = chosen[~repeated]
    by_row = np.fromiter(
        (splits.get(int(id), -1) for id in store.patients), np.int8, len(store.patients)
    )
    split = by_row[at[chosen]] if len(chosen) else np.empty(0, np.int8)
    value = rows.value[chosen]
    labels = Labels(
        task,
        rows.patient[chosen],
        at[chosen],
        rows.time[chosen],
        value,
        (value >= 1).astype(np.uint8),
        split,
    )
    return Matched(labels, int((~known).sum()), int(repeated.sum()), int((split < 0).sum()))


LENGTH = 256
"""Events in a sequence (the paper's)."""
BLOCK = 512
"""Labels gathered at a time, so that temporary arrays stay in the processor's cache."""
_DAY = 86_400_000_000
UNDATED = -1.0
"""The delta of an event that has no time."""
_GATHERED = {"codes": np.int32, "values": np.float32, "deltas": np.float32, "mask": np.bool_}


@dataclass(frozen=True)
class Sequences:
    """Input sequences of n labels, in the labels' order; L is the length.

    ``codes``: int32 [n, L], latest event last, 0 on the left where there are fewer. ``values``:
    float32 [n, L], nan where an event has none. ``deltas``: float32 [n, L], days from the event
    to the prediction, :data:`UNDATED` for an event without a time, 0 where padded. ``mask``: bool
    [n, L], true at events. ``label``: uint8 [n]. ``value``: int32 [n], the label's own grade.
    ``patient``: int64 [n]. ``split``: int8 [n]. The first four are memory maps where they were
    written to a folder.
    """

    task: str
    codes: NDArray[np.int32]
    values: NDArray[np.float32]
    deltas: NDArray[np.float32]
    mask: NDArray[np.bool_]
    label: NDArray[np.uint8]
    value: NDArray[np.int32]
    patient: NDArray[np.int64]
    split: NDArray[np.int8]


def windows(
    store: EventStore,
    row: NDArray[np.int64],
    time: NDArray[np.int64],
    prediction_time: Literal["strict", "inclusive"] = "strict",
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First row of each label's patient and the row after the last event it may use, int64 [n].

    Args:
        row: index of each label's patient; time: its prediction time, µs.
        prediction_time: "strict" uses events before it, "inclusive" those at it as well.
    """
    first = store.offsets[row]
    low, high = first.copy(), store.offsets[row + 1].copy()
    # Bisection of all labels in step. Neighbouring labels touch neighbouring rows of the map.
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return first, low
        middle = (low[open_] + high[open_]) >> 1
        at = store.time[middle]
        before = at < time[open_] if prediction_time == "strict" else at <= time[open_]
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]


def _runs(column: NDArray[Any], stop: NDArray[np.int64], length: int) -> NDArray[Any]:
    """The ``length`` entries before each ``stop``; those before the column are
    undefined."""
    if len(column) < length:
        column = np.concatenate([np.zeros(length, column.dtype), column])
        return sliding_window_view(column, length)[stop]
    windows = sliding_window_view(column, length)[np.maximum(stop - length, 0)]
    for i in np.flatnonzero(stop < length):  # the store's very first rows
        windows[i, length - stop[i] :] = column[: stop[i]]
    return windows


@contextmanager
def _arrays(n: int, length: int, out: Path | None) -> Generator[dict[str, NDArray[Any]]]:
    """Arrays to fill: in memory, or in a folder that takes the place of ``out`` when all is done.

    An exception leaves nothing behind.
    """
    if out is None:
        yield {name: np.empty((n, length), dtype) for name, dtype in _GATHERED.items()}
        return
    fresh = out.with_name(f".{out.name}.writing")
    rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        maps = {
            name: np.lib.format.open_memmap(fresh / f"{name}.npy", "w+", dtype, (n, length))
            for name, dtype in _GATHERED.items()
        }
        yield dict(maps)
        for written in maps.values():
            written.flush()
        rmtree(out, ignore_errors=True)
        fresh.rename(out)
    finally:
        rmtree(fresh, ignore_errors=True)


def last_events(
    store: EventStore,
    labels: Labels,
    length: int = LENGTH,
    prediction_time: Literal["strict", "inclusive"] = "strict",
    rows: NDArray[np.int64] | None = None,
    out: Path | None = None,
) -> Sequences:
    """The last ``length`` events before each label.

    Args:
        rows: indices of the labels wanted, in the order wanted; all where None.
        out: a folder to write the arrays to as memory maps, for more labels than memory holds
            (256 events of 200,000 labels are 666 MB). It is written atomically.
    """
    chosen = np.arange(len(labels)) if rows is None else np.asarray(rows, np.int64)
    row, time = labels.row[chosen], labels.time[chosen]
    first, stop = windows(store, row, time, prediction_time)
    if not len(chosen):
        out = None  # nothing to map
    with _arrays(len(chosen), length, out) as arrays:
        for begin in range(0, len(chosen), BLOCK):
            block = slice(begin, begin + BLOCK)
            _fill(store, {k: a[block] for k, a in arrays.items()}, first[block], stop[block],
                  time[block])  # fmt: skip
    if out is not None:
        arrays = {name: _load(out, name) for name in _GATHERED}
    return Sequences(
        labels.task,
        **arrays,
        label=labels.positive[chosen],
        value=labels.value[chosen],
        patient=labels.patient[chosen],
        split=labels.split[chosen],
    )


def _fill(
    store: EventStore,
    into: dict[str, NDArray[Any]],
    first: NDArray[np.int64],
    stop: NDArray[np.int64],
    time: NDArray[np.int64],
) -> None:
    length = into["codes"].shape[1]
    held = np.minimum(stop - first, length)
    at = _runs(store.time, stop, length)
    into["codes"][:] = _runs(store.code, stop, length)
    into["values"][:] = _runs(store.value, stop, length)
    np.multiply(time[:, None] - at, 1 / _DAY, out=into["deltas"], casting="same_kind")
    into["mask"][:] = True
    # Most windows are full and dated; only the others need a second pass.
    rows = np.arange(len(held))
    undated = rows[(held > 0) & (at[rows, np.minimum(length - held, length - 1)] == NO_TIME)]
    into["deltas"][undated] = np.where(at[undated] == NO_TIME, UNDATED, into["deltas"][undated])
    short = rows[held < length]
    padded = np.arange(length) < (length - held[short])[:, None]
    for name, empty in (("codes", 0), ("values", np.nan), ("deltas", 0), ("mask", False)):
        part = into[name][short]
        part[padded] = empty
        into[name][short] = part
