"""A JSON Lines log whose lines each hold the SHA-256 of the line before (field ``previous``).

The chain shows accidents: a line that was changed, removed, added or moved. It is no protection
against the account that owns the file, which can rewrite it, and does not show that the
newest lines are missing. A line may accept all lines before it as they are, by their SHA-256.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from midchart.core.errors import DataError, WorkFailed
from midchart.core.parsing import read_json
from midchart.core.regular_files import read_regular
from midchart.core.storage.jsonl import PREVIOUS, add_line, line_digest

ACCEPTED = "accepted"
"""``event`` of a line that accepts those before it; ``content`` is their SHA-256."""
_LINK = re.compile(rb'"%s":"([0-9a-f]{64}|)"\}\n\Z' % PREVIOUS.encode())
_FOREIGN = "is no line of the log: it was added or damaged"
_UNLINKED = (
    "does not hold the SHA-256 of the line before it: that line was changed, or lines were removed "
    "or added between them"
)


@dataclass(slots=True)
class Chain:
    """A log as it is. ``broken``: number and reason of the first line after ``accepted`` that is
    not as written. ``intact``: the lines after the last break or acceptance. ``content``: the
    SHA-256 of all lines."""

    lines: int
    accepted: int
    last: str
    content: str
    broken: dict[str, Any] | None
    intact: list[dict[str, Any]]


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line that survives a power cut, or nothing; raises WorkFailed."""
    add_line(path, line, durable=True, chained=True)


def accept(path: Path, line: Mapping[str, Any]) -> None:
    """Append ``line``, which accepts all lines before it as they are; raises WorkFailed."""
    now = read_chain(path)
    append(path, {**line, "event": ACCEPTED, "lines": now.lines, "content": now.content})


def read_chain(path: Path) -> Chain:
    """The log, empty where there is no file; an incomplete last line, of a writer at work or a
    killed one, is none of it. Raises WorkFailed where it cannot be read."""
    try:
        data = read_regular(path)
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise WorkFailed(f"{path}: cannot be read ({error.strerror})") from None
    lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
    chain, total, first = Chain(len(lines), 0, "", "", None, []), sha256(), 0
    for number, line in enumerate(lines, 1):
        link = _LINK.search(line)
        if link is None or link[1].decode() != chain.last:
            reason = _UNLINKED if link else _FOREIGN
            chain.broken = chain.broken or {"line": number, "reason": reason}
            first = number - 1 if link else number
        elif _accepts(line, total.hexdigest()):
            chain.broken, chain.accepted, first = None, number - 1, number
        chain.last = line_digest(line)
        total.update(line)
    chain.content = total.hexdigest()
    chain.intact = [record for line in lines[first:] if (record := _record(line))]
    return chain


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = read_json(line, "log", 1)
    except DataError:
        return {}
    return record if isinstance(record, dict) else {}


def _accepts(line: bytes, content: str) -> bool:
    record = _record(line) if ACCEPTED.encode() in line else {}
    return record.get("event") == ACCEPTED and record.get("content") == content
