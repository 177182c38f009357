"""Text as vectors: sentence encoders, and vectors that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from midchart.core import config as settings
from midchart.core.storage.vectors import Once
from midchart.core.weights import locate

T = TypeVar("T")


class LoadedOnce:
    """Outputs that ``once`` keeps on disk of a model, which ``load`` gives for the first that is
    not there."""

    def __init__(self, once: Once, load: Callable[[], Any]) -> None:
        self.once, self._load, self._lock, self._model = once, load, Lock(), None

    def loaded(self) -> Any:
        """The model."""
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model


def shared_by_place(build: Callable[[str], T]) -> Callable[[str], T]:
    """What ``build`` makes of a model's name, one a process for its weights and the cache folder.

    Arms and readers are built for every question; the model is not. Raises MissingModel.
    """

    @cache
    def build_cached(name: str, folder: Path, cache_folder: Path) -> T:
        return build(name)

    return lambda name: build_cached(name, locate(name).folder, settings.cache_folder())
