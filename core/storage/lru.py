"""A few most recently used values, kept in memory between questions on the same record.

Arms are built anew for every call, so what is derived from a record (its sentences, a BM25 index,
a matrix of embeddings) lives in module-level caches, keyed by the record's content. Pages ask from
several threads; each cache has a lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class LRU(Generic[V]):
    """At most ``size`` values by key; the least recently used one gives way."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._items: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value under ``key``, made on first use.

        ``make`` runs outside the lock: two threads may both make it, and either result serves.
        """
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
                return self._items[key]
        value = make()
        with self._lock:
            self._items[key] = value
            self._items.move_to_end(key)
            while len(self._items) > self.size:
                self._items.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget everything (tests and benchmarks)."""
        with self._lock:
            self._items.clear()

    def __len__(self) -> int:
        return len(self._items)
