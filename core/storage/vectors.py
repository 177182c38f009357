"""Rows of floats that a model makes of something: made once ever, and read from disk after that."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG = logging.getLogger("midchart.vectors")
_PATIENCE_S = 60.0
"""Seconds for which one process waits until another has written."""
_AT_ONCE = 1_000
"""Rows of a question to the file."""
Progress = Callable[[int, int], None]
"""Called with things done and things in all."""
Make = Callable[[Sequence[int], Progress], NDArray[np.float32]]
"""Makes the rows of the contents with these indices, float32 [n, dim], reporting progress."""


class Once:
    """Rows of ``dim`` floats kept in a SQLite file of ``folder`` for a model whose weights hash is
    ``digest``; any number of processes read and write it.

    ``chunk`` rows are made between two writes; so many are lost when a process is killed.
    ``made`` counts the rows that this object had made. A file that cannot be read or written is
    logged: it saves time, and without it the results are the same.
    """

    def __init__(self, folder: Path, digest: str, dim: int, chunk: int) -> None:
        self._file, self._dim, self._chunk = folder / "rows.sqlite", dim, chunk
        self._named = blake2b(digest.encode(), digest_size=16)
        self.made = 0

    def rows(
        self, contents: Sequence[bytes], make: Make, progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """The rows of ``contents``, float32 [n, dim]; equal contents have equal rows.

        ``make`` is asked for those that are not on disk, each content once, in the order given.
        ``progress`` hears how many of these are done.
        """
        first: dict[bytes, int] = {}
        for i, content in enumerate(contents):
            first.setdefault(self._key(content), i)
        known = self._read(first)
        missing = [key for key in first if key not in known]
        for start in range(0, len(missing), self._chunk):
            chunk = missing[start : start + self._chunk]

            def report(done: int, _: int, before: int = start) -> None:
                if progress is not None:
                    progress(before + done, len(missing))

            new = dict(zip(chunk, make([first[key] for key in chunk], report), strict=True))
            self.made += len(chunk)
            self._add(new)
            known |= new
        rows = [known[self._key(content)] for content in contents]
        return np.stack(rows) if rows else np.zeros((0, self._dim), np.float32)

    def _key(self, content: bytes) -> bytes:
        named = self._named.copy()
        named.update(content)
        return named.digest()

    @contextmanager
    def _logged(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            LOG.warning("%s: cannot be used (%s); it is safe to delete", self._file, error)

    def _opened(self) -> sqlite3.Connection:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        return sqlite3.connect(self._file, timeout=_PATIENCE_S)

    def _read(self, keys: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The rows of those keys that are stored."""
        known: dict[bytes, NDArray[np.float32]] = {}
        if not self._file.exists():
            return known
        with self._logged(), closing(self._opened()) as base:
            wanted = list(keys)
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                places = ", ".join("?" * len(some))
                stored = f"SELECT key, floats FROM floats WHERE key IN ({places})"
                for key, floats in base.execute(stored, some):
                    if len(floats) == 4 * self._dim:
                        known[key] = np.frombuffer(floats, "<f4")
        return known

    def _add(self, rows: dict[bytes, NDArray[np.float32]]) -> None:
        with self._logged(), closing(self._opened()) as base, base:
            columns = "(key BLOB PRIMARY KEY, floats BLOB NOT NULL)"
            base.execute(f"CREATE TABLE IF NOT EXISTS floats {columns}")
            stored = [(key, row.astype("<f4").tobytes()) for key, row in rows.items()]
            base.executemany("INSERT OR REPLACE INTO floats VALUES (?, ?)", stored)


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
