"""The audit log: who sent what off the machine, when and where to, and who changed a tag, why.

``data/audit.jsonl``, append-only, one line per use. It holds names, folders, counts, hosts and
reasons that people gave; never text of a record. Each line holds the SHA-256 of the line before,
which shows accidents (a line that was changed, removed, added or moved) and neither stops the
owner of the file nor shows that the newest lines are missing. A permission counts only by a line
after the last break.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import needs
from midchart.core.errors import DataError, InputError, WorkFailed
from midchart.core.identity import person
from midchart.core.parsing import read_json
from midchart.core.provenance import now
from midchart.core.storage.files import FileState, file_state
from midchart.core.storage.jsonl import PREVIOUS, add_line, line_digest, read_lines

_LINK = re.compile(rb'"%s":"([0-9a-f]{64}|)"\}\n\Z' % PREVIOUS.encode())
_FOREIGN = "is no line of the log: it was added or damaged"
_UNLINKED = (
    "does not hold the SHA-256 of the line before it: that line was changed, or lines were removed "
    "or added between them"
)


def note(event: str, **facts: Any) -> None:
    """Note what a person did or the program is about to do, in a line that survives a power cut.

    ``facts`` of ``event`` "left", before text of records goes to ``host``: ``run``, ``cohort``,
    ``encrypted``, ``purpose`` (which reader or judge), ``records`` and ``items``, the number of
    calls (None: as many as the records need). Raises WorkFailed where it cannot be noted; then it
    may not be done.
    """
    line = {"when": now(), "who": person().name, "event": event, **facts}
    add_line(settings.audit_file(), line, durable=True, chained=True)


def tag_changed(
    *, cohort: str, folder: Path, field: str, before: bool, after: bool, reason: str, digest: str
) -> None:
    """Note a change of a data-use tag; raises InputError without a reason.

    ``digest``: of the cohort's files, by which a permission is known; a line without one permits
    nothing.
    """
    reason = " ".join(reason.split())
    if len(reason) < 8:
        raise InputError(
            f"changing {field!r} of the data-use tag needs a reason in words: who allowed it, and "
            "by which agreement"
        )
    facts = {"cohort": cohort, "folder": str(folder.resolve()), "field": field, "before": before}
    note("tag", **facts, after=after, reason=reason, digest=digest)


@dataclass(slots=True)
class _Log:
    """The log as it is. ``broken``: number and reason of the first line that is not as written.
    ``intact``: the lines after the last break. ``last``: the SHA-256 of the last line."""

    lines: int
    last: str
    broken: dict[str, Any] | None
    intact: list[dict[str, Any]]


def _read() -> _Log:
    """The log, empty where there is no file; an incomplete last line, of a writer at work or a
    killed one, is none of it. Raises WorkFailed where it cannot be read."""
    file = settings.audit_file()
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise WorkFailed(f"{file}: cannot be read ({error.strerror})") from None
    lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
    log = _Log(len(lines), "", None, [])
    for number, line in enumerate(lines, 1):
        link = _LINK.search(line)
        if link is None or link[1].decode() != log.last:
            log.broken = log.broken or {"line": number, "reason": _UNLINKED if link else _FOREIGN}
            log.intact = []
        if link is not None:
            log.intact.append(_record(line))
        log.last = line_digest(line)
    return log


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = read_json(line, "log", 1)
    except DataError:
        return {}
    return record if isinstance(record, dict) else {}


Tags = Mapping[tuple[str, str], str | None]
"""Folder and field of the data-use tag → the digest of the files in its last line that counts; None
where that line says no."""


def tags() -> tuple[Tags, str]:
    """The lines about data-use tags that count, and why earlier ones do not ("": all count).

    None counts where the log cannot be read.
    """
    try:
        return _tags(file_state(settings.audit_file()))
    except WorkFailed as error:
        return {}, str(error)


@lru_cache(maxsize=4)
def _tags(_state: FileState | None) -> tuple[Tags, str]:
    log, known = _read(), dict[tuple[str, str], str | None]()
    for line in log.intact:
        folder, name = str(line.get("folder")), str(line.get("field"))
        if line.get("event") == "tag":
            allows = line.get("after") is True
            known[folder, name] = str(line.get("digest", "")) if allows else None
        elif line.get("event") == "removed":
            known = {key: value for key, value in known.items() if key[0] != folder}
    return known, f"the audit log is broken at line {log.broken['line']}" if log.broken else ""


@needs("owner")
def verify() -> dict[str, Any]:
    """Whether the log is as it was written: the number of ``lines``; ``last``, the SHA-256 of the
    last one; ``broken``, number (``line``) and ``reason`` of the first that is not as written, or
    null.

    Raises WorkFailed where it cannot be read.
    """
    log = _read()
    return {name: getattr(log, name) for name in ("lines", "last", "broken")}


@needs("owner", paths=("folder", "file"))
def lines() -> list[dict[str, Any]]:
    """All lines of the audit file, oldest first."""
    return list(read_lines(settings.audit_file()))
