"""Records that a gate is trained or examined on, without those that cannot be read.

A record that cannot be read is entered among the cohort's skipped; one broken file of many
thousands must not keep a gate from being trained.
"""

from __future__ import annotations

from core.errors import DataError
from core.types import Cohort, Record


def record_of(cohort: Cohort, id: str, unread: set[str]) -> Record | None:
    """A record; None for one that cannot be read, whose id is added to ``unread``."""
    if id in unread:
        return None
    try:
        return cohort.records[id]
    except DataError:
        unread.add(id)
        return None


def unread_note(unread: int) -> str:
    """What an error adds where records were left out; empty where none was."""
    if not unread:
        return ""
    what = "record" if unread == 1 else "records"
    return f" ({unread:,} {what} could not be read; python -m core check names them)"
