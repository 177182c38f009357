"""Which permissions of a data-use tag count: those that a person confirmed for these very files.

The audit log holds the digest of a cohort's files with each permission; the tag in the cohort's
folder only states it. No line, another folder, other files or a log that does not lead to its known
end: no. Cohorts that the program generated are known by their digest alone, wherever they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from midchart.core import config as settings
from midchart.core.egress import audit
from midchart.core.errors import MidchartError
from midchart.core.provenance import files_hash, now
from midchart.core.storage.files import FileState, file_state
from midchart.core.storage.jsonl import add_line, read_lines
from midchart.core.storage.sources import Source, files_at, reading_file

_FILES_OF_PEOPLE = ("midchart.toml", "midchart.questions", "midchart.question_sets")
"""Files in a cohort's folder that people change by this program, and their temporary copies."""
_NAMES = "|".join(map(re.escape, _FILES_OF_PEOPLE))
_OF_PEOPLE = re.compile(rf"(?:{_NAMES})|\.(?:{_NAMES})\.[a-z0-9_]{{8}}")
"""A copy is named as :func:`core.storage.files.replacing` does; no loader reads such an ending."""
_FOLDER_VIEWS = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})


def evidence_state() -> tuple[FileState | None, ...]:
    """What changes whenever :func:`refused` may for unchanged files; raises InputError."""
    return file_state(settings.audit_file()), file_state(_generated_file())


def refused(folder: Path, fields: Iterable[str]) -> dict[str, str]:
    """Those of ``fields``, which the tag of the cohort in ``folder`` states, that do not count, and
    why; raises DataError where its files cannot be read."""
    place = str(folder.resolve())
    tags, doubt = audit.tags()
    lines = {name: tags.get((place, name), "") for name in fields}
    known = generated()
    digest = files_digest(folder) if known or any(lines.values()) else ""
    why: dict[str, str] = {}
    for name, confirmed in lines.items():
        if confirmed is None:
            why[name] = "its last audited value is false"
        elif digest and (digest in known or confirmed == digest):
            continue
        elif (place, name) in tags:
            why[name] = "the cohort's files changed since a person confirmed it"
        else:
            why[name] = doubt or "no person has confirmed it for these files in this folder"
    return why


def files_digest(folder: Path) -> str:
    """A hash of every file in a cohort's folder, names and bytes; the data-use tag, people's own
    questions and views of file managers left out.

    A process reads files whose size, inode and times are unchanged once. Raises DataError.
    """
    root = folder.resolve()
    with reading_file(folder.name):
        return _digest(root, tuple(_state(root)))


@lru_cache(maxsize=64)
def _digest(root: Path, state: tuple[FileState, ...]) -> str:
    folder = Source(root, root)
    return files_hash((name, folder.within(name).digest) for name, *_ in state)


def _state(root: Path) -> list[FileState]:
    """The files by their names in the folder."""
    prefix = len(f"{root}/")
    files = ((one[0][prefix:], *one[1:]) for one in files_at(str(root)))
    return [
        file
        for file in files
        if file[0].rpartition("/")[2] not in _FOLDER_VIEWS and not _OF_PEOPLE.fullmatch(file[0])
    ]


# Cohorts that the program generated: no real person is in them.


def _generated_file() -> Path:
    return settings.state_folder() / "generated.jsonl"


def generated() -> frozenset[str]:
    """Digests of the cohorts that the program generated for this account."""
    try:
        lines = list(read_lines(_generated_file()))
    except MidchartError:
        return frozenset()
    return frozenset(str(line["digest"]) for line in lines if "digest" in line)


def note_generated(folder: Path, names: Iterable[str]) -> None:
    """Remember that the program generated the cohort in ``folder``, which holds the files ``names``
    (by /) and the tag alone; with any other file it is like a cohort that was placed by hand, as it
    is where the state folder cannot be written."""
    root = folder.resolve()
    if {name for name, *_ in _state(root)} != set(names):
        return
    with suppress(MidchartError):
        digest = files_digest(root)
        if digest not in generated():
            add_line(_generated_file(), {"when": now(), "digest": digest}, durable=True)
