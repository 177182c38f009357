"""What reviewers said: a file a run and reviewer, only ever added to.

``data/reviews/<run>/<reviewer>.jsonl``, a line a verdict: ``time``, ``card``, ``outcome`` and
``seconds``; a later line about a card replaces an earlier one. No line holds a text: a card is the
hash that :mod:`core.run.review.cards` makes. The files lie outside the run's folder, so that a run
that was brought from elsewhere, which is only read, can be reviewed too.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from core import settings
from core.errors import InputError
from core.ledger import add_line, read_lines
from core.run.folder import find_run

OUTCOMES = ("correct", "incorrect", "cannot_tell")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


def reviewer_name(text: str) -> str:
    """A reviewer's name as it is kept: small letters, digits and hyphens; raises InputError.

    It stands in file names and addresses, so it is a code and not a person's full name.
    """
    name = text.strip().lower()
    if not _NAME.fullmatch(name):
        raise InputError(
            "a reviewer's code is 1 to 32 small letters, digits or hyphens, such as 'reviewer-2'"
        )
    return name


def _file(run: str, reviewer: str) -> Path:
    return _folder(run) / f"{reviewer_name(reviewer)}.jsonl"


def _folder(run: str) -> Path:
    return settings.data_folder() / "reviews" / find_run(run).id


def add_review(
    run: str, reviewer: str, card: str, outcome: str, seconds: float | None = None
) -> None:
    """Note a reviewer's verdict on a card; raises UnknownName, InputError, or WorkFailed where it
    cannot be written."""
    if outcome not in OUTCOMES:
        raise InputError(f"a review says {', '.join(OUTCOMES)}, not {outcome!r}")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = {"time": now, "card": card, "outcome": outcome, "seconds": seconds}
    add_line(_file(run, reviewer), line, lasting=True)


def reviewed(run: str, reviewer: str) -> dict[str, str]:
    """Card → a reviewer's last verdict on it."""
    return {line["card"]: line["outcome"] for line in read_lines(_file(run, reviewer))}


def reviewers(run: str) -> list[str]:
    """Who has reviewed answers of a run, by name."""
    folder = _folder(run)
    return sorted(path.stem for path in folder.glob("*.jsonl")) if folder.is_dir() else []
