"""Append-only JSON lines: one row, one line, one write.

A line counts once its newline is there. What a killed writer left behind without one is ignored
by readers and cut off by the next writer, under the run's lock.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from core.errors import WorkFailed

SYNC_EVERY_S = 1.0
"""At most so much work is lost to a power cut; a killed process loses none."""
CHUNK = 1 << 20


def encode(row: Mapping[str, Any]) -> bytes:
    """A row as one line. Raises ValueError for a number that JSON does not have.

    Lone surrogates, which a wrongly decoded file can hold, become ``?``: no reader of UTF-8
    would take them.
    """
    line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return line.encode("utf-8", "replace") + b"\n"


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` (a new file, a rename) outlast a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def repair(path: Path) -> int:
    """Cut off a half-written last line; returns the bytes cut. Only under the run's lock."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - CHUNK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)
            os.fsync(file.fileno())
        return size - end


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole rows of a file, in order; nothing where there is no file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def drop(path: Path, unwanted: Callable[[Mapping[str, Any]], bool]) -> int:
    """Rewrite a file without its unwanted rows, by atomic rename; returns how many went.

    Only under the run's lock and with no journal open on the file.
    """
    if not any(unwanted(row) for row in lines(path)):
        return 0
    gone = 0
    fresh = path.with_name(path.name + ".tmp")
    with fresh.open("wb") as file:
        for row in lines(path):
            if unwanted(row):
                gone += 1
            else:
                file.write(encode(row))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)
    return gone


class Journal:
    """An open file of JSON lines; opening it cuts off a half-written last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        repair(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._synced = time.monotonic()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row, newline and all, in one call; raises WorkFailed when the disk is full."""
        line = encode(row)
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise WorkFailed(f"{self.path}: cannot be written ({error.strerror})") from None
        if written < len(line):
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise WorkFailed(f"{self.path}: the disk took only part of a row (is it full?)")
        if time.monotonic() - self._synced > SYNC_EVERY_S:
            self.sync()

    def sync(self) -> None:
        """Make what was written outlast a power cut."""
        os.fsync(self._fd)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close; closing twice is once."""
        if self._fd >= 0:
            self.sync()
            os.close(self._fd)
            self._fd = -1
