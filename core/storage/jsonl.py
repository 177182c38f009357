"""Append-only JSON Lines log; each record is one ``write``.

For files that several processes write (the audit log) and for state that must survive a killed
process (a budget, pending batches). A line is valid once it has its newline; a partial line is
skipped by readers and terminated by the next writer.

A chained file (the audit log) shows later changes: each line holds the SHA-256 of the line before
it, and the file of the same name ending in ``.head`` the hashes of the last two lines.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import lock_descriptor

from midchart.core.errors import DataError, WorkFailed
from midchart.core.parsing import check_document, read_json
from midchart.core.storage.files import sync_folder

if TYPE_CHECKING:
    from pydantic import TypeAdapter

PREVIOUS = "previous"
"""Field of a chained line: the SHA-256 of the line before it, without its newline."""
HEAD_BYTES = 1 << 10
TAIL_BYTES = 1 << 16


def add_line(
    path: Path, line: Mapping[str, Any], durable: bool = False, chained: bool = False
) -> None:
    """Append one line; ``durable``: return only once it survives a power cut; ``chained``: with
    the SHA-256 of the line before it.

    Raises WorkFailed where it cannot be written completely.
    """
    data = encode(line)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WorkFailed(f"{path}: cannot be written ({error.strerror})") from None
    try:
        lock_descriptor(handle, poll_interval=0.001)
        size = os.fstat(handle).st_size
        if chained:
            data = _link(handle, path, line)
        if size and os.pread(handle, 1, size - 1) != b"\n":
            data = b"\n" + data  # terminates a killed writer's partial line
        if os.write(handle, data) < len(data):
            os.ftruncate(handle, size)
            raise WorkFailed(f"{path}: the disk took only part of a line (is it full?)")
        if durable:
            os.fsync(handle)
            if not size:
                sync_folder(path.parent)
    except OSError as error:
        raise WorkFailed(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        os.close(handle)


def encode(line: Mapping[str, Any]) -> bytes:
    """A record as one line. Raises ValueError for a number that JSON does not have.

    Lone surrogates, which a wrongly decoded file can hold, become ``?``: no reader of UTF-8
    would take them.
    """
    text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _sha256(line: bytes) -> str:
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def _numbered(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Number from 1, SHA-256 and content of each complete line that is a JSON object."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = read_json(line, path.name, number)
            except DataError:
                continue  # a killed writer's partial line
            if isinstance(record, dict):
                yield number, _sha256(line), record


def _head(path: Path) -> list[str]:
    """Hashes of a chained file's last two lines; empty where there is no head.

    It is written before the line: after a kill in between, the file ends with the first of the two.
    """
    try:
        with path.with_suffix(".head").open("rb") as file:
            return file.read(HEAD_BYTES).decode("ascii", "replace").split("\n")[:2]
    except FileNotFoundError:
        return []


def _last_line(handle: int, name: str) -> tuple[str, bool]:
    """SHA-256 of the last complete line that is a JSON object, and whether that line is chained.

    Read from the end of the file, so that appending takes no longer as the file grows.
    """
    size, length = os.fstat(handle).st_size, 0
    while length < size:
        length = min(size, 4 * length or TAIL_BYTES)
        lines = os.pread(handle, length, size - length).split(b"\n")[:-1]
        for line in reversed(lines[length < size :]):
            try:
                record = read_json(line, name, 1)
            except DataError:
                continue  # a killed writer's partial line
            if isinstance(record, dict):
                return _sha256(line), PREVIOUS in record
    return "", False


def _link(file: int, path: Path, line: Mapping[str, Any]) -> bytes:
    """The line with the hash of the one before it, which enters the head; under the file's lock.

    Where the file does not end as its head says, the line holds the hash that the head expects, so
    that the break stays visible.
    """
    last, chained = _last_line(file, path.name)
    head = _head(path)
    if (head and last not in head) or (chained and not head):
        last = head[-1] if head else ""
    data = encode({**line, PREVIOUS: last})
    handle = os.open(path.with_suffix(".head"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        text = f"{last}\n{_sha256(data)}\n".encode()
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))
        os.fsync(handle)
    finally:
        os.close(handle)
    return data


def verify_chain(path: Path) -> dict[str, Any]:
    """Whether a chained file is as it was written: ``lines``, of which ``unchained`` precede the
    chain; ``last``, the SHA-256 of the last line; ``broken``, number (``line``) and ``reason`` of
    the first line that is not as written, or null. Raises WorkFailed where it cannot be read.
    """
    try:
        if not path.exists():
            return _verified(path)
        with path.open("rb") as file:
            lock_descriptor(file.fileno(), poll_interval=0.001)
            return _verified(path)
    except OSError as error:
        raise WorkFailed(f"{path}: cannot be read ({error.strerror})") from None


def _verified(path: Path) -> dict[str, Any]:
    lines = unchained = number = before = 0
    last, broken = "", None
    for number, digest, record in _numbered(path):
        lines += 1
        if PREVIOUS not in record and unchained == lines - 1:
            unchained += 1
        elif broken is None and record.get(PREVIOUS) != last:
            place = f"line {before}" if before else "an empty file"
            broken = {
                "line": number,
                "reason": f"does not hold the SHA-256 of the line before it ({place}): that line "
                "was changed, or lines were removed or added between them",
            }
        last, before = digest, number
    head, file = _head(path), path.with_suffix(".head").name
    if broken is None and (head or unchained < lines) and last not in head:
        state = (
            f"is not the last line that {file} knows"
            if head
            else f"has no file {file} in its folder"
        )
        reason = f"{state}: it was changed, or lines after it were removed or added"
        broken = {"line": number, "reason": reason}
    return {"lines": lines, "unchained": unchained, "last": last, "broken": broken}


def read_lines(path: Path, model: TypeAdapter[Any] | None = None) -> Iterator[dict[str, Any]]:
    """The complete lines of a file, in order; none where there is no file.

    Raises DataError for a line that ``model`` does not accept.
    """
    for number, _, record in _numbered(path):
        if model is not None:
            name = f"{path.parent.name}/{path.name}"
            check_document(record, name, model, "restore the file or remove the line", number)
        yield record
