"""The audit log: who sent what off the machine, when and where to, and who changed a tag, why.

``data/audit.jsonl``, append-only, one line per use. It holds names, folders, counts, hosts and
reasons that people gave; never text of a record. Its lines are chained, which shows accidents and
stops no owner of the file (:mod:`midchart.core.storage.chain`). A permission counts only by a line
after the last break.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import needs
from midchart.core.errors import InputError, MidchartError
from midchart.core.identity import person
from midchart.core.provenance import now
from midchart.core.storage import chain
from midchart.core.storage.files import FileState, file_state
from midchart.core.storage.jsonl import read_lines


def _line(event: str, **facts: Any) -> dict[str, Any]:
    return {"when": now(), "who": person().name, "event": event, **facts}


def note(event: str, **facts: Any) -> None:
    """Note what a person did or the program is about to do.

    ``facts`` of ``event`` "left", before text of records goes to ``host``: ``run``, ``cohort``,
    ``encrypted``, ``purpose`` (which reader or judge), ``records`` and ``items``, the number of
    calls (None: as many as the records need). Raises WorkFailed where it cannot be noted; then it
    may not be done.
    """
    chain.append(settings.audit_file(), _line(event, **facts))


def _reason(reason: str, what: str) -> str:
    reason = " ".join(reason.split())
    if len(reason) < 8:
        raise InputError(f"{what} needs a reason in words: who allowed it, and by which agreement")
    return reason


def tag_changed(
    *,
    cohort: str,
    folder: Path,
    field: str,
    before: Any,
    after: Any,
    reason: str,
    digest: str = "",
) -> None:
    """Note a change of a data-use tag; raises InputError without a reason.

    ``digest``: of the cohort's files, by which a permission is known; a line without one permits
    nothing.
    """
    reason = _reason(reason, f"changing {field!r} of the data-use tag")
    note(
        "tag",
        cohort=cohort,
        folder=str(folder.resolve()),
        field=field,
        before=before,
        after=after,
        reason=reason,
        digest=digest,
    )


@needs("owner")
def accept(reason: str) -> dict[str, Any]:
    """Accept the log as it is, once it was restored or repaired; gives :func:`verify`.

    The acceptance is a line of the log. Permissions given before it do not count after it.
    """
    reason = _reason(reason, "accepting the audit log")
    chain.accept(settings.audit_file(), _line(chain.ACCEPTED, reason=reason))
    return verify()


@dataclass(frozen=True, slots=True)
class TagLine:
    """The last line about a field of the data-use tag of the cohort in a folder."""

    value: bool
    digest: str


Tags = Mapping[tuple[str, str], TagLine]
"""Folder and field → its last line that counts."""


def state() -> FileState | None:
    """What changes whenever :func:`tags` may."""
    return file_state(settings.audit_file())


def tags() -> tuple[Tags, str]:
    """The lines about data-use tags that count, and why earlier ones do not ("": all count).

    None counts where the log cannot be read.
    """
    try:
        return _tags(settings.audit_file(), state())
    except MidchartError as error:
        return {}, str(error)


@lru_cache(maxsize=4)
def _tags(path: Path, _state: FileState | None) -> tuple[Tags, str]:
    log = chain.read_chain(path)
    known: dict[tuple[str, str], TagLine] = {}
    for line in log.intact:
        folder, name = str(line.get("folder")), str(line.get("field"))
        if line.get("event") == "tag":
            known[folder, name] = TagLine(line.get("after") is True, str(line.get("digest", "")))
        elif line.get("event") == "removed":
            known = {key: value for key, value in known.items() if key[0] != folder}
    broken = f"the audit log is broken at line {log.broken['line']}" if log.broken else ""
    return known, broken or ("the audit log was accepted since" if log.accepted else "")


@needs("owner")
def verify() -> dict[str, Any]:
    """Whether the log is as it was written: ``lines``, of which ``accepted`` are covered by an
    acceptance; ``last``, the SHA-256 of the last line; ``broken``, number (``line``) and ``reason``
    of the first line that is not as written, or null.

    Raises WorkFailed where it cannot be read.
    """
    log = chain.read_chain(settings.audit_file())
    return {name: getattr(log, name) for name in ("lines", "accepted", "last", "broken")}


@needs("owner", paths=("folder", "file"))
def lines() -> list[dict[str, Any]]:
    """All lines of the audit file, oldest first."""
    return list(read_lines(settings.audit_file()))
