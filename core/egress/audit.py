"""The audit log: who sent what off the machine, when and where to, and who changed a tag, why.

``data/audit.jsonl``, append-only, one line per use. It holds names, folders, counts, hosts and
reasons that people gave; never text of a record. Its lines are chained
(:mod:`midchart.core.storage.jsonl`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.errors import InputError
from midchart.core.identity import person
from midchart.core.provenance import now
from midchart.core.storage.jsonl import add_line, read_lines, verify_chain


def _write(event: str, **facts: Any) -> None:
    add_line(
        settings.audit_file(),
        {"when": now(), "who": person().name, "event": event, **facts},
        durable=True,
        chained=True,
    )


def left(
    *,
    run: str,
    cohort: str,
    host: str,
    encrypted: bool,
    purpose: str,
    records: int,
    items: int | None,
) -> None:
    """Note that text of ``records`` records may now go to ``host``, for up to ``items`` calls
    (None: as many as the records need).

    ``purpose``: which reader or judge. Raises WorkFailed where it cannot be noted; then nothing
    may be sent.
    """
    _write(
        "left",
        run=run,
        cohort=cohort,
        host=host,
        encrypted=encrypted,
        purpose=purpose,
        records=records,
        items=items,
    )


def run_action(action: str, *, run: str, **facts: Any) -> None:
    """Note what a person did with a run: started, resumed, cancelled, exported, judged or
    run imported.

    Raises WorkFailed where it cannot be noted.
    """
    _write(action, run=run, **facts)


def downloaded(file: str) -> None:
    """Note that a page handed a file to a browser; raises WorkFailed where it cannot be noted."""
    _write("downloaded", file=file)


def tag_changed(
    *, cohort: str, folder: Path, field: str, before: Any, after: Any, reason: str
) -> None:
    """Note a change of a data-use tag; raises InputError without a reason."""
    reason = " ".join(reason.split())
    if len(reason) < 8:
        raise InputError(
            f"changing {field!r} of the data-use tag needs a reason in words: who allowed it, and "
            "by which agreement"
        )
    place = str(folder.resolve())
    change = {"field": field, "before": before, "after": after, "reason": reason}
    _write("tag", cohort=cohort, folder=place, **change)


def imported(
    *, cohort: str, folder: Path, format: str, files: int, size: int, tag: Mapping[str, bool]
) -> None:
    """Note that a cohort was brought in: its format, number of files and bytes, and its tag."""
    facts = {"format": format, "files": files, "size": size, **tag}
    _write("imported", cohort=cohort, folder=str(folder.resolve()), **facts)


def removed(*, cohort: str, folder: Path, files: int, runs: int) -> None:
    """Note that a cohort was removed, with how many files and runs."""
    _write("removed", cohort=cohort, folder=str(folder.resolve()), files=files, runs=runs)


def run_removed(*, run: str, cohort: str, imported: bool, files: int) -> None:
    """Note that a run was removed, with how many files."""
    _write("run removed", run=run, cohort=cohort, imported=imported, files=files)


@lru_cache(maxsize=4)
def _tag_lines(file: Path, state: tuple[int, int, int]) -> tuple[dict[str, Any], ...]:
    """The lines that bear on data-use tags, few among many; ``state`` changes with the file."""
    events = ("tag", "imported", "removed")
    return tuple(line for line in read_lines(file) if line.get("event") in events)


def audited_value(cohort: str, folder: Path, field: str) -> Any:
    """The last audited value of a field of the data-use tag; None where none was audited.

    A cohort is known by its folder, else (it was moved) by its name.
    """
    file = settings.audit_file()
    if not file.exists():
        return None
    now = file.stat()
    values: dict[str, Any] = {}
    for line in _tag_lines(file, (now.st_ino, now.st_size, now.st_mtime_ns)):
        event = line.get("event")
        if event == "tag" and line.get("field") == field:
            value = line.get("after")
        elif event != "tag":
            value = line.get(field)
        else:
            continue
        values |= {str(line.get(key)): value for key in ("folder", "cohort")}
    value = values.get(str(folder.resolve()))
    return values.get(cohort) if value is None else value


def verify() -> dict[str, Any]:
    """:func:`midchart.core.storage.jsonl.verify_chain` of the audit file."""
    return verify_chain(settings.audit_file())


def lines() -> list[dict[str, Any]]:
    """All lines of the audit file, oldest first."""
    return list(read_lines(settings.audit_file()))
