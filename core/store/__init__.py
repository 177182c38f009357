"""Rows of a run on disk: appended line by line, read by any number of processes at once.

A table is ``<name>.jsonl`` while it grows and ``<name>.parquet`` once its run is finished. The
one rule that keeps reads whole: a Parquet file, where it is, holds the whole table, and the JSONL
beside it is then ignored. Writers hold :class:`Lock`; readers need none.
"""

from __future__ import annotations

from core.store.compact import compact, reopen
from core.store.journal import Journal, drop, repair
from core.store.lock import Lock, held
from core.store.query import Schema, query, source
from core.store.rows import RowStore
from core.store.snapshot import Ask, snapshot

__all__ = [
    "Ask",
    "Journal",
    "Lock",
    "RowStore",
    "Schema",
    "compact",
    "drop",
    "held",
    "query",
    "reopen",
    "repair",
    "snapshot",
    "source",
]
