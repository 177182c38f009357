"""Scores of a whole record made ready to be looked at: ranks, shades and columns of a strip.

Plain arrays in, plain arrays out; nothing here draws. A strip never has more than
:data:`MOST_COLUMNS` columns: where there are more sentences, a column shows the highest of those
that fall into it, so that a single high score is never averaged away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core import api

BY_RANK, BY_SCORE = "Rank", "Score"
SENTENCE, ORDER, TIME = "Sentence", "Event", "Date"
MOST_COLUMNS = 600
"""More could not be told apart on a screen, and thin ones would fade into their neighbours."""
TIME_COLUMNS = 240
"""Fewer along time, where most columns are empty and the others must be seen."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a strip: centres ``x`` [m], the column of each sentence [n], -1 for none.

    ``each`` says in words what a column holds; ``off`` counts sentences that are on no column.
    """

    x: NDArray[Any]
    of: NDArray[np.int64]
    each: str
    off: int = 0


def ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each score [n], 1 the best, ties to the earlier sentence; 0 where unranked."""
    found = np.zeros(len(values), np.int64)
    order = np.argsort(-values, kind="stable")  # NaN goes last
    order = order[: int(np.count_nonzero(~np.isnan(values)))]
    found[order] = np.arange(1, len(order) + 1)
    return found


def flat(values: NDArray[np.float64]) -> bool:
    """Whether no two sentences differ in score, so that there is nothing to see."""
    known = values[~np.isnan(values)]
    return len(known) == 0 or bool((known == known[0]).all())


def shades(values: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Scores as shades [n] in 0 to 1, NaN where unranked.

    BY_RANK: 1 for the best, 0 for the last, by the logarithm of the rank, so that the few at the
    top differ most; sentences of equal score share the last rank among them. BY_SCORE: from the
    lowest score to the highest.
    """
    shown = np.full(len(values), np.nan)
    known = ~np.isnan(values)
    some = values[known]
    if len(some) == 0:
        return shown
    if how == BY_RANK:
        last = len(some) - np.searchsorted(np.sort(some), some)
        shown[known] = 1 - np.log(last) / max(np.log(len(some)), 1e-9)
    else:
        span = some.max() - some.min()
        shown[known] = (some - some.min()) / span if span > 0 else 0.0
    return shown


def columns(table: api.ScoreTable, by: str) -> Columns:
    """The columns of a strip over all sentences of ``table``, by sentence, event order or time."""
    n = len(table.sentences)
    if by == TIME:
        dated = ~np.isnat(table.times)
        seconds = table.times[dated].astype(np.int64)
        low, high = (int(seconds.min()), int(seconds.max())) if len(seconds) else (0, 0)
        of = np.full(n, -1, np.int64)
        width = max(high - low, 1) / TIME_COLUMNS
        of[dated] = np.minimum(((seconds - low) / width).astype(np.int64), TIME_COLUMNS - 1)
        centres = low + (np.arange(TIME_COLUMNS) + 0.5) * width
        x = centres.astype(np.int64).astype("datetime64[s]")
        each = f"each column: the highest score within {_span(width)}"
        return Columns(x, of, each, n - int(dated.sum()))
    if by == ORDER:
        places = len(np.unique(table.events))
        count = max(min(places, MOST_COLUMNS), 1)
        of = np.minimum((table.order * count).astype(np.int64), count - 1)
        x = 100 * (np.arange(count) + 0.5) / count
        return Columns(x, of, "each column: the highest score of its event or events")
    per = -(-n // MOST_COLUMNS) or 1
    count = -(-n // per)
    x = (np.arange(count) + 0.5) * per - 0.5
    each = "each column: one sentence" if per == 1 else f"each column: the highest of {per}"
    return Columns(x, np.arange(n) // per, each)


def _span(seconds: float) -> str:
    for size, word in ((86_400, "day"), (3_600, "hour")):
        if seconds >= size:
            count = round(seconds / size, 1)
            return f"{count:g} {word}{'' if count == 1 else 's'}"
    return f"{max(round(seconds / 60), 1)} minutes"


def highest(values: NDArray[np.float64], where: Columns) -> NDArray[np.float32]:
    """The highest of ``values`` [n] in each column [m]; NaN where a column holds none."""
    found = np.full(len(where.x), np.nan)
    on = where.of >= 0
    np.fmax.at(found, where.of[on], values[on])
    return found.astype(np.float32)


def missed(arm: api.ArmScores, most: int = 10) -> NDArray[np.intp]:
    """The best-ranked sentences that were not kept [at most ``most``], best first.

    Those of the very lowest score (no word of the question in them) missed by far, not just.
    """
    rank = ranks(arm.values)
    if not rank.any():
        return np.zeros(0, dtype=np.intp)
    left = np.flatnonzero((rank > 0) & ~arm.kept & (arm.values > np.nanmin(arm.values)))
    return left[np.argsort(rank[left], kind="stable")][:most]


WALK_RANK, WALK_KEPT, WALK_EVIDENCE, WALK_RECORD = "Rank", "Kept", "Evidence", "Record"


def walk(
    arm: api.ArmScores, gold: Sequence[int], how: str, at: int, forward: bool
) -> tuple[int | None, int, int]:
    """The next (or previous) sentence of a walk from sentence ``at``.

    Gives that sentence (None at the end of the walk), where ``at`` stands in it (0: nowhere) and
    its length. A walk from outside begins with the neighbour in the record, or with rank 1.
    """
    if how == WALK_RANK:
        path = np.argsort(-arm.values, kind="stable")[: int((~np.isnan(arm.values)).sum())]
    elif how == WALK_KEPT:
        path = np.flatnonzero(arm.kept)
    elif how == WALK_EVIDENCE:
        path = np.array(sorted(gold), dtype=np.intp)
    else:
        path = np.arange(len(arm.values))
    here = np.flatnonzero(path == at)
    if len(here):
        to = int(here[0]) + (1 if forward else -1)
        place = int(here[0]) + 1
    else:
        place = 0
        if how == WALK_RANK:
            to = 0 if forward else -1
        else:
            to = int(np.searchsorted(path, at)) - (0 if forward else 1)
    return (int(path[to]) if 0 <= to < len(path) else None), place, len(path)
