"""What reviewers said: a file a run and reviewer, only ever added to.

``data/reviews/<run>/<reviewer>.jsonl``, a line a verdict: ``time``, ``card``, ``outcome``,
``reason``, ``comment`` and ``seconds``; the last line about a card counts, earlier ones are its
history. The only text is the reviewer's own comment: a card is the hash that
:mod:`core.run.review.cards` makes. ``_shared.jsonl`` holds how many cards all reviewers get. The
files lie outside the run's folder, so that a run that was brought from elsewhere, which is only
read, can be reviewed too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core import settings
from core.errors import InputError, UnknownName
from core.ledger import add_line, read_lines
from core.run.folder import RunFolder, find_run
from core.run.review.cards import distinct_answers

OUTCOMES = ("correct", "incorrect", "cannot_judge")
REASONS = {
    "reference": "the reference answer is missing, wrong or unclear",
    "evidence": "the evidence shown does not settle it",
    "question": "the question can be read in several ways",
    "answer": "the answer cannot be understood",
    "expertise": "it is outside what I can judge",
    "other": "another reason, in the comment",
}
"""Why a card cannot be judged, with its words."""
MOST_CHARACTERS = 2_000
"""Characters of a comment."""
SHARED = 50
"""Cards that every reviewer of a run is given, unless the run's own number says otherwise."""
SHARED_FILE = "_shared"
_CARD = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
CONSENSUS = "consensus"


def reviewer_name(text: str) -> str:
    """A reviewer's name as it is kept: small letters, digits and hyphens; raises InputError.

    It is part of file names and addresses, so it is a code and not a person's full name.
    """
    name = text.strip().lower()
    if not _NAME.fullmatch(name):
        raise InputError(
            "a reviewer's code is 1 to 32 small letters, digits or hyphens, such as 'reviewer-2'"
        )
    if name == CONSENSUS:
        raise InputError(
            f"{CONSENSUS!r} is the name of the reviewers' majority; a reviewer's code is another"
        )
    return name


def _file(run: str, reviewer: str) -> Path:
    return _folder(run) / f"{reviewer_name(reviewer)}.jsonl"


def _folder(run: str) -> Path:
    return settings.data_folder() / "reviews" / run


def add_review(
    run: str,
    reviewer: str,
    card: str,
    outcome: str,
    seconds: float | None = None,
    reason: str = "",
    comment: str = "",
) -> None:
    """Note a reviewer's verdict on a card.

    ``outcome`` is one of :data:`OUTCOMES`; ``reason``, of :data:`REASONS`, is given with
    "cannot_judge" and with nothing else. Raises UnknownName for a run or card that is not there,
    InputError, or WorkFailed where it cannot be written.
    """
    comment = comment.strip()
    if outcome not in OUTCOMES:
        raise InputError(f"a review says {', '.join(OUTCOMES)}, not {outcome!r}")
    if outcome == "cannot_judge" and reason not in REASONS:
        raise InputError(f"'cannot_judge' needs a reason: {', '.join(REASONS)}; not {reason!r}")
    if outcome != "cannot_judge" and reason:
        raise InputError(f"a reason belongs to 'cannot_judge', not to {outcome!r}")
    if reason == "other" and not comment:
        raise InputError("the reason 'other' needs a comment that says which")
    if len(comment) > MOST_CHARACTERS:
        raise InputError(f"a comment has at most {MOST_CHARACTERS:,} characters")
    file, folder = _file(run, reviewer), find_run(run)
    known = distinct_answers(folder)
    if card not in known:
        raise UnknownName("card of the run", card, known)
    line: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "card": card,
        "outcome": outcome,
        "reason": reason,
        "comment": comment,
        "seconds": seconds,
    }
    add_line(file, line, lasting=True)


def history(run: str, reviewer: str) -> list[dict[str, Any]]:
    """Every verdict of a reviewer on a run, in the order in which they were given."""
    return list(read_lines(_file(run, reviewer)))


def reviewed(run: str, reviewer: str) -> dict[str, dict[str, Any]]:
    """Card → a reviewer's last verdict on it, as it was noted."""
    return {line["card"]: line for line in read_lines(_file(run, reviewer))}


def review_files(folder: RunFolder) -> list[Path]:
    """The files of a run's reviewers, and the one with the number of shared cards."""
    there = _folder(folder.id)
    names = [*reviewers_of(folder), SHARED_FILE]
    return [path for name in names if (path := there / f"{name}.jsonl").exists()]


def brought(name: str, text: bytes) -> list[dict[str, Any]]:
    """The lines of a reviewer's file that came from elsewhere; raises InputError.

    ``name``: the file's, without its ending. Every field is held to what this program writes.
    """
    fields: dict[str, Callable[[Any], bool]] = {"time": _is_time}
    if name == SHARED_FILE:
        fields["cards"] = lambda value: type(value) is int and value >= 0
    else:
        reviewer_name(name)
        fields |= {
            "card": lambda value: isinstance(value, str) and bool(_CARD.fullmatch(value)),
            "outcome": lambda value: value in OUTCOMES,
            "reason": lambda value: value in ("", *REASONS),
            "comment": lambda value: isinstance(value, str) and len(value) <= MOST_CHARACTERS,
            "seconds": lambda value: (
                value is None or (type(value) in (int, float) and 0 <= value < 1e9)
            ),
        }
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found = json.loads(line)
            fits = found.keys() == fields.keys() and all(
                right(found[field]) for field, right in fields.items()
            )
        except (ValueError, TypeError, AttributeError, RecursionError):
            found, fits = {}, False
        if not fits:
            raise InputError(f"reviews/{name}.jsonl:{number}: is no verdict that is read here")
        lines.append(found)
    return lines


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None


def take(run: str, name: str, lines: Sequence[Mapping[str, Any]]) -> bool:
    """Write the lines of a file that came with a run; False, and nothing, where there is one."""
    file = _folder(run) / f"{name}.jsonl"
    if file.exists():
        return False
    for line in lines:
        add_line(file, line)
    return True


def reviewers(run: str) -> list[str]:
    """Who has reviewed answers of a run, by name; raises UnknownName."""
    return reviewers_of(find_run(run))


def reviewers_of(folder: RunFolder) -> list[str]:
    """:func:`reviewers` of a run whose folder is known."""
    there = _folder(folder.id)
    if not there.is_dir():
        return []
    stems = (path.stem for path in there.glob("*.jsonl"))
    return sorted(stem for stem in stems if _NAME.fullmatch(stem) and stem != CONSENSUS)


def shared_cards(run: str) -> int:
    """How many cards every reviewer of a run is given."""
    found = SHARED
    for line in read_lines(_folder(run) / f"{SHARED_FILE}.jsonl"):
        found = int(line["cards"])
    return found


def share_cards(run: str, cards: int) -> None:
    """Set how many cards every reviewer of a run is given; another number keeps the smaller set.

    Raises UnknownName, InputError for a number below 0, or WorkFailed.
    """
    folder = find_run(run)
    if type(cards) is not int or cards < 0:
        raise InputError(f"the number of shared cards is a whole number from 0, not {cards!r}")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    add_line(
        _folder(folder.id) / f"{SHARED_FILE}.jsonl", {"time": now, "cards": cards}, lasting=True
    )


def review_mark(run: str) -> tuple[tuple[str, int], ...]:
    """Changes whenever a verdict is added: the reviewers' files with their sizes, in bytes."""
    there = _folder(find_run(run).id)
    return tuple((path.name, path.stat().st_size) for path in sorted(there.glob("*.jsonl")))
