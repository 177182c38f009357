"""Patients as columns: an event store on disk, its labels, and the events before a prediction time.

Tens of millions of coded events do not go through :class:`core.types.Record`; they are read once
into sorted columns (:mod:`core.sequences.build`), opened as memory maps
(:mod:`core.sequences.store`), and cut into the last events before each label at once
(:mod:`core.sequences.gather`).
"""

from core.sequences.build import RawTable, build_store, store_folder
from core.sequences.gather import LENGTH, UNDATED, Sequences, last_events, windows
from core.sequences.labels import LabelRows, Labels, match_labels, split_codes
from core.sequences.store import NO_TIME, SPLITS, EventStore

__all__ = [
    "LENGTH",
    "NO_TIME",
    "SPLITS",
    "UNDATED",
    "EventStore",
    "LabelRows",
    "Labels",
    "RawTable",
    "Sequences",
    "build_store",
    "last_events",
    "match_labels",
    "split_codes",
    "store_folder",
    "windows",
]
