"""Vectors on disk by key: written once, read in bulk, by any number of processes.

Two append-only files in a folder: ``keys.bin`` (16-byte key and checksum a row) and
``vectors.bin`` (float32 rows). Writers hold ``flock`` on a third file and write vectors before
keys, so a reader never meets a key without its vector; a row half-written when a process died is
cut off by the next writer. A row whose checksum is wrong counts as absent, is logged, and
is written again. Plain reads, no memory map: a file cut short under a reader must not kill it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from midchart.core.regular_files import open_regular
from midchart.core.storage.files import open_private
from midchart.core.storage.lock import exclusive

LOG = logging.getLogger("midchart.vectors")

_KEY = np.dtype([("high", "<u8"), ("low", "<u8"), ("check", "<u8")])
KEY_BYTES = 16


def checksums(keys: NDArray[np.uint64], vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """A checksum of each key [n, 2] with its vector [n, dim], uint64 [n].

    A sum of all words, each times its own odd number, modulo 2^64: any one changed word changes
    it, a row of zeros has not 0, and thousands of rows take a millisecond. It guards against
    disk faults, not against people.
    """
    rows = np.ascontiguousarray(vectors, "<f4")
    if rows.shape[1] % 2:  # words are eight bytes; an odd row ends in a zero
        rows = np.hstack([rows, np.zeros((len(rows), 1), "<f4")])
    words = np.concatenate([keys, rows.view("<u8")], axis=1)
    odd = np.arange(1, words.shape[1] + 1, dtype="<u8") * np.uint64(2 * 0x9E3779B97F4A7C15 % 2**64)
    return words @ (odd + np.uint64(1)) + np.uint64(0xD1B54A32D192ED03)


class Vectors:
    """The vectors of one model: rows of ``dim`` float32 by 16-byte keys, in ``folder``."""

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder, self.dim = folder, dim
        self._row_bytes = 4 * dim
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._inode = -1
        self._table = np.zeros(0, dtype=_KEY)
        self._rows: dict[bytes, int] = {}
        """Key → its last row: a corrupt row is repaired by writing it again."""

    def _complete_rows(self) -> int:
        """Rows whose key and vector are both wholly there."""
        try:
            keys = (self.folder / "keys.bin").stat()
            vectors = (self.folder / "vectors.bin").stat()
        except FileNotFoundError:
            self._forget()
            return 0
        if keys.st_ino != self._inode:
            self._forget()
            self._inode = keys.st_ino
        return min(keys.st_size // _KEY.itemsize, vectors.st_size // self._row_bytes)

    def _refresh(self) -> None:
        """Take in rows that were added, here or by another process."""
        rows, known = self._complete_rows(), len(self._table)
        if rows == known:
            return
        if rows < known:  # cut short by somebody: the rest is read again
            self._forget()
            known, rows = 0, self._complete_rows()
        with open_regular(self.folder / "keys.bin") as file:
            added = np.fromfile(file, _KEY, count=rows - known, offset=known * _KEY.itemsize)
        self._table = np.concatenate([self._table, added])
        words = np.column_stack((added["high"], added["low"])).tobytes()
        for i in range(len(added)):
            self._rows[words[i * KEY_BYTES : (i + 1) * KEY_BYTES]] = known + i

    def read(self, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which of ``keys`` [n] are stored, bool [n], and their vectors [n, dim] (zeros if not).

        Files that cannot be read are logged and count as empty.
        """
        try:
            with self._lock:
                return self._read(keys)
        except OSError as error:
            LOG.warning("%s: vectors could not be read (%s)", self.folder, error.strerror)
            return np.zeros(len(keys), dtype=bool), np.zeros((len(keys), self.dim), np.float32)

    def _read(self, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        stored = np.zeros(len(keys), dtype=bool)
        out = np.zeros((len(keys), self.dim), dtype=np.float32)
        self._refresh()
        if not self._rows or not keys:
            return stored, out
        wanted = np.frombuffer(b"".join(keys), dtype="<u8").reshape(-1, 2)
        rows = np.array([self._rows.get(key, -1) for key in keys], dtype=np.intp)
        index = np.flatnonzero(rows >= 0)
        index = index[np.argsort(rows[index], kind="stable")]
        for run, vectors in self._runs(rows, index):
            run = run[: len(vectors)]
            good = checksums(wanted[run], vectors) == self._table["check"][rows[run]]
            out[run[good]] = vectors[good]
            stored[run[good]] = True
        corrupt = len(index) - int(stored.sum())
        if corrupt:
            LOG.warning(
                "%s: %d of %d cached vectors are corrupt; they are computed again",
                self.folder, corrupt, len(index),
            )  # fmt: skip
        return stored, out

    def _runs(
        self, rows: NDArray[np.intp], index: NDArray[np.intp]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
        """Stretches of neighbouring rows, each read at once: indices of keys, their vectors."""
        if not len(index):
            return
        breaks = np.flatnonzero(np.diff(rows[index]) != 1) + 1
        with open_regular(self.folder / "vectors.bin") as file:
            for run in np.split(index, breaks):
                start = int(rows[run[0]]) * self._row_bytes
                data = os.pread(file.fileno(), len(run) * self._row_bytes, start)
                complete = len(data) // self._row_bytes * self._row_bytes
                yield run, np.frombuffer(data[:complete], dtype="<f4").reshape(-1, self.dim)

    def add(self, keys: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Write the ``vectors`` [n, dim] of ``keys`` [n] that are not stored yet.

        A folder that cannot be written (full, read-only) is logged: the cache saves
        time, and without it the results are the same.
        """
        try:
            with self._lock, exclusive(self.folder / "lock"):
                stored, _ = self._read(keys)
                fresh = np.flatnonzero(~stored)
                self._append([keys[i] for i in fresh.tolist()], vectors[fresh])
        except OSError as error:
            LOG.warning("%s: vectors could not be stored (%s)", self.folder, error.strerror)

    def _append(self, keys: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        if not keys:
            return
        rows = np.zeros(len(keys), dtype=_KEY)
        words = np.frombuffer(b"".join(keys), dtype="<u8").reshape(-1, 2)
        rows["high"], rows["low"] = words[:, 0], words[:, 1]
        data = np.ascontiguousarray(vectors, dtype="<f4")
        rows["check"] = checksums(words, data)
        complete = self._complete_rows()
        for name, size, content in (
            ("vectors.bin", self._row_bytes, data.tobytes()),
            ("keys.bin", _KEY.itemsize, rows.tobytes()),
        ):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with os.fdopen(open_private(self.folder / name, flags), "ab") as file:
                file.truncate(complete * size)
                file.write(content)


# Floats that a model makes of something, made once ever and read from disk after that.


Progress = Callable[[int, int], None]
"""Called with things done and things in all."""
Make = Callable[[Sequence[int], Progress], NDArray[np.float32]]
"""Makes the rows of the contents with these indices, float32 [n, dim], reporting progress."""


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
        stored, rows = self._vectors.read(keys)
        index = list(first.values())
        missing = np.flatnonzero(~stored).tolist()
        for start in range(0, len(missing), self._chunk):
            chunk = missing[start : start + self._chunk]

            def report(done: int, _: int, before: int = start) -> None:
                if progress is not None:
                    progress(before + done, len(missing))

            rows[chunk] = make([index[i] for i in chunk], report)
            self.made += len(chunk)
            self._vectors.add([keys[i] for i in chunk], rows[chunk])
        place = {content: i for i, content in enumerate(first)}
        return rows[[place[content] for content in contents]]

    def _key(self, content: bytes) -> bytes:
        named = self._named.copy()
        named.update(content)
        return named.digest()
