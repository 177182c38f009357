"""Scores of a whole record as arrays: ranks, shades, columns of a heat strip.

A strip has at most :data:`MOST_COLUMNS` columns; a column shows the highest score in it, so that a
single high score is never averaged away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core import api

ORDER, TIME = "Event order", "Time"
"""Axes of the figures of a record."""
BY_ITS_SCORE = "yes, by score"
MOST_COLUMNS = 600
"""More could not be distinguished on a screen."""
TIME_COLUMNS = 240
"""Fewer by time, where most columns are empty and the others must be visible."""


def ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each score [n], 1 the best, ties to the earlier sentence; 0 where unranked."""
    result = np.zeros(len(values), np.int64)
    order = np.argsort(-values, kind="stable")  # NaN goes last
    order = order[: int(np.count_nonzero(~np.isnan(values)))]
    result[order] = np.arange(1, len(order) + 1)
    return result


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


def shades(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores as shades [n] in 0 to 1, NaN where unranked: 1 for the best, 0 for the last, by the
    logarithm of the rank, so that the top ranks differ most. Equal scores share the last rank among
    them."""
    result = np.full(len(values), np.nan)
    known = ~np.isnan(values)
    scored = values[known]
    if len(scored):
        last = len(scored) - np.searchsorted(np.sort(scored), scored)
        result[known] = 1 - np.log(last) / max(np.log(len(scored)), 1e-9)
    return result


def columns(table: api.ScoreTable, by: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The columns of a strip over all sentences of ``table``: their centres [m], in per cent of the
    record or as times, and the column of each sentence [n], -1 for an undated one by time."""
    n = len(table.sentences)
    if by == TIME:
        dated = ~np.isnat(table.times)
        seconds = table.times[dated].astype(np.int64)
        low, high = (int(seconds.min()), int(seconds.max())) if len(seconds) else (0, 0)
        of = np.full(n, -1, np.int64)
        width = max(high - low, 1) / TIME_COLUMNS
        of[dated] = np.minimum(((seconds - low) / width).astype(np.int64), TIME_COLUMNS - 1)
        centres = low + (np.arange(TIME_COLUMNS) + 0.5) * width
        return centres.astype(np.int64).astype("datetime64[s]"), of
    count = max(min(len(np.unique(table.events)), MOST_COLUMNS), 1)
    of = np.minimum((table.order * count).astype(np.int64), count - 1)
    return 100 * (np.arange(count) + 0.5) / count, of


def highest(values: NDArray[np.float64], of: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """The highest of ``values`` [n] in each of ``count`` columns, ``of`` [n] the column of each;
    NaN where a column holds none."""
    result = np.full(count, np.nan)
    on = of >= 0
    np.fmax.at(result, of[on], values[on])
    return result.astype(np.float32)


def nearly_kept(arm: api.ArmScores, most: int = 10) -> NDArray[np.intp]:
    """The best-ranked sentences that were not kept [at most ``most``], best first.

    Those of the lowest score (no word of the question in them) are left out.
    """
    if np.isnan(arm.values).all():
        return np.zeros(0, np.intp)
    order = np.argsort(-arm.values, kind="stable")
    return order[~arm.kept[order] & (arm.values[order] > np.nanmin(arm.values))][:most]
