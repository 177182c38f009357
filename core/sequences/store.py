"""The event store, opened as memory maps; its labels, and the last events before each of them.

A cohort's coded events are sorted columns on disk. A folder with one ``.npy`` a column, the words
of the ids as Parquet, and ``meta.json``. Rows are sorted by patient, then time, then the source's
own order; events without a time come first of their patient.

A label is positive where its value is at least 1 (DATA, EHRSHOT): laboratory tasks grade 0
normal, 1 mild, 2 moderate, 3 severe; the others are 0 or 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midchart.core.errors import DataError

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
        names = ("patients", "offsets", *COLUMNS)
        try:
            columns = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}
        except (OSError, ValueError) as error:
            reason = f"cannot be read ({getattr(error, 'strerror', None) or 'it is damaged'})"
            raise DataError(str(folder), None, reason, "remove it: it is built again") from None
        return cls(folder, **columns)

    @property
    def events(self) -> int:
        """Number of events."""
        return len(self.code)

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Metadata of the build: ``problems`` is a list of (file, line, reason), ``rows`` the
        number of rows and lines of the source, ``left_out`` those left out by reason."""
        return json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))

    def words(self, of: Literal["code", "text", "unit", "kind"]) -> list[str]:
        """The words of a column by id; entry 0 is the empty string."""
        if of not in self._words:
            from pyarrow import parquet

            table = parquet.read_table(self.folder / f"{of}.parquet", columns=["word"])
            self._words[of] = ["", *table["word"].to_pylist()]
        return self._words[of]

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
_DAY = 86_400_000_000
UNDATED = -1.0
"""The delta of an event that has no time."""


@dataclass(frozen=True)
class Sequences:
    """Input sequences of n labels, in the labels' order; L is the length.

    ``codes``: int32 [n, L], latest event last, 0 on the left where there are fewer. ``values``:
    float32 [n, L], nan where an event has none. ``deltas``: float32 [n, L], days from the event
    to the prediction, :data:`UNDATED` for an event without a time, 0 where padded.
    """

    codes: NDArray[np.int32]
    values: NDArray[np.float32]
    deltas: NDArray[np.float32]


def last_events(
    store: EventStore,
    labels: Labels,
    length: int = LENGTH,
    prediction_time: Literal["strict", "inclusive"] = "strict",
    rows: NDArray[np.int64] | None = None,
) -> Sequences:
    """The last ``length`` events before each label.

    Args:
        rows: indices of the labels wanted, in the order wanted; all where None.
    """
    chosen = np.arange(len(labels)) if rows is None else np.asarray(rows, np.int64)
    shape, patients, times = (len(chosen), length), labels.row[chosen], labels.time[chosen]
    codes = np.zeros(shape, np.int32)
    values = np.full(shape, np.nan, np.float32)
    deltas = np.zeros(shape, np.float32)
    side = "left" if prediction_time == "strict" else "right"
    for i, (patient, time) in enumerate(zip(patients.tolist(), times.tolist(), strict=True)):
        first, last = store.offsets[patient : patient + 2].tolist()
        stop = first + int(np.searchsorted(store.time[first:last], time, side))
        events = slice(max(first, stop - length), stop)
        into = slice(length - (stop - events.start), length)
        at = store.time[events]
        codes[i, into], values[i, into] = store.code[events], store.value[events]
        deltas[i, into] = np.where(at == NO_TIME, UNDATED, (time - at) / _DAY)
    return Sequences(codes, values, deltas)
