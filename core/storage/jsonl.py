"""Append-only JSON Lines log; each record is one ``write``.

For files that several processes write (the audit log) and for state that must survive a killed
process (a budget, pending batches). A line is valid once it has its newline; a partial line is
skipped by readers and cut off by the next writer.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import lock_descriptor

from midchart.core.errors import DataError, WorkFailed
from midchart.core.parsing import check_document, read_json
from midchart.core.storage.files import sync_folder
from midchart.core.storage.sources import Source

if TYPE_CHECKING:
    from pydantic import TypeAdapter


PREVIOUS = "previous"
"""Field of a chained line: the SHA-256 of the line before it; "" for the first."""
_AT_ONCE = 1 << 16


def add_line(
    path: Path, line: Mapping[str, Any], durable: bool = False, chained: bool = False
) -> None:
    """Append one line, in place of a killed writer's partial one.

    ``durable``: return only once it survives a power cut. ``chained``: with the SHA-256 of the line
    before. Raises WorkFailed where it cannot be written completely; then nothing is.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            lock_descriptor(handle, poll_interval=0.001)
            end, last = last_line(handle)
            os.ftruncate(handle, end)
            data = encode({**line, PREVIOUS: line_digest(last)} if chained else line)
            try:
                if os.write(handle, data) < len(data):
                    raise OSError(errno.ENOSPC, "the disk took only part of a line: is it full?")
                if durable:
                    os.fsync(handle)
            except OSError:
                os.ftruncate(handle, end)
                raise
            if durable and not end:
                sync_folder(path.parent)
        finally:
            os.close(handle)
    except OSError as error:
        raise WorkFailed(f"{path}: cannot be written ({error.strerror})") from None


def last_line(handle: int) -> tuple[int, bytes]:
    """Where the complete lines of a file end, and the last of them."""
    end, tail = os.fstat(handle).st_size, b""
    start = end
    while start and tail.count(b"\n") < 2:
        length = min(start, max(_AT_ONCE, len(tail)))
        start -= length
        tail = os.pread(handle, length, start) + tail
    complete = tail[: tail.rfind(b"\n") + 1]
    return end - len(tail) + len(complete), complete[complete.rfind(b"\n", 0, -1) + 1 :]


def line_digest(line: bytes) -> str:
    """The SHA-256 of a line without its newline; "" of none."""
    return sha256(line.rstrip(b"\n")).hexdigest() if line else ""


def encode(line: Mapping[str, Any]) -> bytes:
    """A record as one line. Raises ValueError for a number that JSON does not have.

    Lone surrogates, which a wrongly decoded file can hold, become ``?``: no reader of UTF-8
    would take them.
    """
    text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def read_lines(path: Path, model: TypeAdapter[Any] | None = None) -> Iterator[dict[str, Any]]:
    """The complete lines of a file that are JSON objects, in order; none where there is no file.

    Raises DataError where it cannot be read and for a line that ``model`` does not accept.
    """
    if not lexists(path):
        return
    with Source.at(path).open() as file:
        for number, line in enumerate(file, 1):
            record = None
            with suppress(DataError):  # a killed writer's partial line
                record = read_json(line, path.name, number) if line.endswith(b"\n") else None
            if isinstance(record, dict):
                if model is not None:
                    name = f"{path.parent.name}/{path.name}"
                    remedy = "restore the file or remove the line"
                    check_document(record, name, model, remedy, number)
                yield record
