"""Values of a cohort that are computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")


class LazyValues(Mapping[str, T]):
    """Values by id, computed on access; the last ``cached`` are kept (None: all)."""

    def __init__(
        self, ids: Iterable[str], compute: Callable[[str], T], cached: int | None = 4
    ) -> None:
        self._ids = dict.fromkeys(ids)
        self._compute = lru_cache(maxsize=cached)(compute)

    def __getitem__(self, id: str) -> T:
        if id not in self._ids:
            raise KeyError(id)
        return self._compute(id)

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
