"""What comes back from a group of prompts or answers given away together: each item once.

A reader or judge that takes many at a time gives them back in any order, may fail on the way and
may forget some. Here every item gets exactly one outcome, so a run loses and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from core.errors import WorkFailed
from core.run.job import Stopped, reason_of

T = TypeVar("T")


def outcomes(
    begin: Callable[[], Iterator[tuple[int, T]]], n: int, failed: Callable[[str], T]
) -> Generator[tuple[int, T]]:
    """Each of 0 … n − 1 once, with what ``begin()`` gives for it as soon as that is there.

    An item without an outcome gets ``failed(reason)`` at the end: the reason of the error that
    broke the group off, or that it was forgotten. Closing this closes what ``begin()`` gave.
    Raises Stopped: what was asked to stop has not failed, and its items get no outcome.
    """
    missing = set(range(n))
    reason = "the group ended without an outcome for this item"
    given: Iterator[tuple[int, T]] | None = None
    try:
        given = begin()
        for index, outcome in given:
            if index not in missing:
                raise WorkFailed(f"item {index} of a group of {n} came twice or is none of it")
            missing.remove(index)
            yield index, outcome
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001 - becomes the reason of what is missing
        reason = reason_of(error)
    finally:
        close = getattr(given, "close", None)
        if close is not None:
            close()
    for index in sorted(missing):
        yield index, failed(reason)
