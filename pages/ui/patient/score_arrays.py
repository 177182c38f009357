"""Scores of a whole record as arrays: ranks, shades, columns of a heat strip, walks.

A strip has at most :data:`MOST_COLUMNS` columns; a column shows the highest score in it, so that a
single high score is never averaged away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core import api

BY_RANK, BY_SCORE = "Rank", "Score"
SENTENCE, ORDER, TIME = "Sentence", "Event", "Date"
WALK_RANK, WALK_KEPT, WALK_EVIDENCE, WALK_RECORD = "Rank", "Kept", "Evidence", "Record"
BY_ITS_SCORE = "yes, by score"
MOST_COLUMNS = 600
"""More could not be distinguished on a screen."""
MOST_TERMS = 18
"""Columns of a matrix of contributions."""
TIME_COLUMNS = 240
"""Fewer by time, where most columns are empty and the others must be visible."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a strip: centres ``x`` [m], the column of each sentence [n], -1 for none.

    ``each`` says in words what a column holds.
    """

    x: NDArray[Any]
    of: NDArray[np.int64]
    each: str

    @property
    def off(self) -> int:
        """Number of sentences that are in no column."""
        return int((self.of < 0).sum())


def ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each score [n], 1 the best, ties to the earlier sentence; 0 where unranked."""
    result = np.zeros(len(values), np.int64)
    order = ranking(values)
    result[order] = np.arange(1, len(order) + 1)
    return result


def ranking(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Indices of the scored sentences, best first, ties to the earlier one."""
    order = np.argsort(-values, kind="stable")  # NaN goes last
    return order[: int(np.count_nonzero(~np.isnan(values)))]


def why_kept(arm: api.ArmScores, at: int) -> str:
    """Whether an arm kept a sentence and why."""
    if arm.kept[at]:
        return BY_ITS_SCORE if arm.picked[at] else "only as recent"
    if arm.picked[at]:
        return "no, the token budget was full"
    if np.isnan(arm.values[at]):
        return "no, not ranked"
    if arm.threshold is None:
        return "no"
    ahead = int(ranks(arm.values)[at]) - int(arm.picked.sum())
    return f"no, {ahead:,} place{'' if ahead == 1 else 's'} too low"


def constant(values: NDArray[np.float64]) -> bool:
    """Whether no two scores differ."""
    return len(np.unique(values[~np.isnan(values)])) < 2


def shades(values: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Scores as shades [n] in 0 to 1, NaN where unranked.

    BY_RANK: 1 for the best, 0 for the last, by the logarithm of the rank, so that the top ranks
    differ most; sentences of equal score share the last rank among them. BY_SCORE: from the lowest
    score to the highest.
    """
    result = np.full(len(values), np.nan)
    known = ~np.isnan(values)
    scored = values[known]
    if len(scored) == 0:
        return result
    if how == BY_RANK:
        last = len(scored) - np.searchsorted(np.sort(scored), scored)
        result[known] = 1 - np.log(last) / max(np.log(len(scored)), 1e-9)
    else:
        result[known] = (scored - scored.min()) / (np.ptp(scored) or 1.0)
    return result


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
        return Columns(x, of, f"each column: the highest score within {_duration(width)}")
    if by == ORDER:
        count = max(min(len(np.unique(table.events)), MOST_COLUMNS), 1)
        of = np.minimum((table.order * count).astype(np.int64), count - 1)
        x = 100 * (np.arange(count) + 0.5) / count
        return Columns(x, of, "each column: the highest score of its event or events")
    per = -(-n // MOST_COLUMNS) or 1
    x = (np.arange(-(-n // per)) + 0.5) * per - 0.5
    each = "each column: one sentence" if per == 1 else f"each column: the highest of {per}"
    return Columns(x, np.arange(n) // per, each)


def _duration(seconds: float) -> str:
    for size, word in ((86_400, "day"), (3_600, "hour")):
        if seconds >= size:
            count = round(seconds / size, 1)
            return f"{count:g} {word}{'' if count == 1 else 's'}"
    return f"{max(round(seconds / 60), 1)} minutes"


def highest(values: NDArray[np.float64], where: Columns) -> NDArray[np.float32]:
    """The highest of ``values`` [n] in each column [m]; NaN where a column holds none."""
    result = np.full(len(where.x), np.nan)
    on = where.of >= 0
    np.fmax.at(result, where.of[on], values[on])
    return result.astype(np.float32)


def missed(arm: api.ArmScores, most: int = 10) -> NDArray[np.intp]:
    """The best-ranked sentences that were not kept [at most ``most``], best first.

    Those of the lowest score (no word of the question in them) are left out.
    """
    order = ranking(arm.values)
    if not len(order):
        return order
    return order[~arm.kept[order] & (arm.values[order] > np.nanmin(arm.values))][:most]


def walk(
    arm: api.ArmScores, gold: Sequence[int], how: str, at: int, forward: bool
) -> tuple[int | None, int, int]:
    """The next (or previous) sentence of a walk from sentence ``at``.

    Returns that sentence (None at the end of the walk), the place of ``at`` in it (0: none) and
    its length. A walk from outside begins with the neighbour in the record, or with rank 1.
    """
    if how == WALK_RANK:
        path = ranking(arm.values)
    elif how == WALK_KEPT:
        path = np.flatnonzero(arm.kept)
    elif how == WALK_EVIDENCE:
        path = np.array(sorted(gold), dtype=np.intp)
    else:
        path = np.arange(len(arm.values))
    matches = np.flatnonzero(path == at)
    if len(matches):
        place = int(matches[0]) + 1
        to = place if forward else place - 2
    else:
        place = 0
        to = (0 if how == WALK_RANK else int(np.searchsorted(path, at))) - (not forward)
    return (int(path[to]) if 0 <= to < len(path) else None), place, len(path)


@dataclass(frozen=True, eq=False)
class Matrix:
    """Parts [m, t] of the scores of m sentences by their t strongest terms; ``others`` [m], the sum
    of all other terms, and ``base`` [m] complete each row to its score."""

    terms: tuple[str, ...]
    parts: NDArray[np.float64]
    others: NDArray[np.float64]
    base: NDArray[np.float64]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores that the rows add up to [m]."""
        return self.parts.sum(axis=1) + self.others + self.base


def matrix_of(explanations: Sequence[api.Explanation], most: int = MOST_TERMS) -> Matrix:
    """The explanations as a matrix; the terms whose parts are largest, all sentences together, come
    first."""
    sums: list[dict[str, float]] = []
    size: dict[str, float] = {}
    for why in explanations:
        parts: dict[str, float] = {}
        for term in why.terms:
            parts[term.text] = parts.get(term.text, 0.0) + term.part
        sums.append(parts)
        for text, part in parts.items():
            size[text] = size.get(text, 0.0) + abs(part)
    terms = tuple(sorted(size, key=lambda text: (-size[text], text))[:most])
    values = np.array([[parts.get(term, 0.0) for term in terms] for parts in sums])
    others = [sum(part for text, part in parts.items() if text not in terms) for parts in sums]
    base = [why.base for why in explanations]
    return Matrix(terms, values.reshape(len(sums), len(terms)), np.array(others), np.array(base))
