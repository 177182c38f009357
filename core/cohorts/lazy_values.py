"""Values of a cohort that are computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")


class LazyValues(Mapping[str, T]):
    """Values by id, computed on access; the last four are cached."""

    def __init__(self, ids: Sequence[str], compute: Callable[[str], T]) -> None:
        self._ids = dict.fromkeys(ids)
        self._compute = lru_cache(maxsize=4)(compute)

    def __getitem__(self, id: str) -> T:
        if id not in self._ids:
            raise KeyError(id)
        return self._compute(id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
