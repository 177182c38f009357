"""Floats that a model makes of something, made once ever and read from disk after that.

What a row belongs to is named by the hash of the model's weights and of the content, so other
weights under the same name, or a changed text, never meet an old row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.vectors.store import KEY_BYTES, Vectors

Progress = Callable[[int, int], None]
"""Called with things done and things in all."""
Make = Callable[[Sequence[int], Progress], NDArray[np.float32]]
"""Makes the rows of the contents with these indices, float32 [n, dim], telling as it goes."""


class Once:
    """Rows of ``dim`` floats kept under ``folder`` for a model whose weights hash is ``digest``.

    ``chunk`` rows are made between two writes; so many are lost when a process is killed.
    ``made`` counts the rows that this object had made.
    """

    def __init__(self, folder: Path, digest: str, dim: int, chunk: int) -> None:
        self._vectors = Vectors(folder, dim)
        self._named = blake2b(digest.encode(), digest_size=KEY_BYTES)
        self._chunk = chunk
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
            first.setdefault(content, i)
        keys = [self._key(content) for content in first]
        here, rows = self._vectors.read(keys)
        index = list(first.values())
        missing = np.flatnonzero(~here).tolist()
        for start in range(0, len(missing), self._chunk):
            chunk = missing[start : start + self._chunk]

            def told(done: int, _: int, before: int = start) -> None:
                if progress is not None:
                    progress(before + done, len(missing))

            rows[chunk] = make([index[i] for i in chunk], told)
            self.made += len(chunk)
            self._vectors.add([keys[i] for i in chunk], rows[chunk])
        place = {content: i for i, content in enumerate(first)}
        return rows[[place[content] for content in contents]]

    def _key(self, content: bytes) -> bytes:
        named = self._named.copy()
        named.update(content)
        return named.digest()
