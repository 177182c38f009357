"""A thread-safe cache of the most recently used values.

Arms are built for every call, so what is derived from a record (its sentences, a BM25 index, a
matrix of embeddings) is in module-level caches, keyed by the record's content.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")
MOST_PARTS = 200_000
"""Events or sentences in all values of a cache together: a few records of a million tokens, or as
many records of the usual length as the cache takes."""


class LRU(Generic[V]):
    """At most ``size`` values by key; the least recently used one is dropped.

    ``parts``: of how many events or sentences a value is made. Of values that have more than
    :data:`MOST_PARTS` together the least recently used are dropped too, all but the newest.
    """

    def __init__(self, size: int, parts: Callable[[V], int] = lambda value: 0) -> None:
        self._size, self._parts = size, parts
        self._items: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of ``key``, made on first use.

        ``make`` runs outside the lock: two threads may both call it; either result is used.
        """
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
                return self._items[key]
        value = make()
        with self._lock:
            self._items[key] = value
            while len(self._items) > self._size or (
                len(self._items) > 1 and sum(map(self._parts, self._items.values())) > MOST_PARTS
            ):
                self._items.popitem(last=False)
        return value

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._items.clear()
