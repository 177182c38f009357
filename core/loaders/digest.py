"""The hash of a cohort's files, by which a run knows that it still has the cohort it began with."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from core.errors import DataError
from core.loaders.kept_questions import SETS_FILE
from core.provenance import add_file

NOT_CONTENT = frozenset({"midchart.toml", SETS_FILE})
"""The data-use tag is written on first import, and is a part of the plan by itself; so are the
questions of a set."""


def content_digest(data: str | Path) -> str:
    """A hash of every file of a cohort (names and bytes), dot files and the data-use tag left out.

    Raises DataError where a file cannot be read.
    """
    root = Path(data)
    total = blake2b(digest_size=20)
    files = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
    for path in files:
        name = path.name if root.is_file() else path.relative_to(root).as_posix()
        if path.name in NOT_CONTENT or any(part.startswith(".") for part in name.split("/")):
            continue
        try:
            add_file(total, name, path)
        except OSError as error:
            raise DataError(str(path), None, f"cannot be read ({error.strerror})") from None
    return total.hexdigest()
