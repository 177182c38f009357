"""The time left of a run, a training, an import or a check, from the steps done so far."""

from __future__ import annotations

from bisect import bisect_right

KNOWN = 0.1
"""Share of all steps that is done before a time left is stated."""
ROUNDS = 3
"""Rounds that are done before it, start-up included."""
POINTS = 500
"""Largest number of moments that are kept."""
LATE = 3
"""Rounds' time after which a round that is not complete counts."""


class TimeLeft:
    """Estimates remaining seconds from the pace of the steps done so far.

    ``each``: steps of a round, such as all items of a patient; the steps of a round differ in cost,
    rounds are alike. The first round is start-up (models are loaded) and counts nowhere. The pace
    is that of the latest stretch of rounds, as long as what is left would take at the mean pace,
    and at least half of the time so far: far-off steps are like the mean, near ones like the
    latest.
    """

    def __init__(self, each: float = 1.0) -> None:
        self._each = each
        self._now = 0.0
        self._done = 0
        self._ends: list[tuple[float, int]] = []  # seconds and steps at the ends of rounds

    def after(self, steps: int, seconds: float, remaining: int) -> float | None:
        """Seconds that ``remaining`` steps may take, now that ``steps`` more took ``seconds``.

        None before three rounds and a tenth of the steps are done.
        """
        # The ends of rounds: those of the steps that were done, none within a round.
        self._now += seconds
        self._done += steps
        total = self._done + remaining
        least = max(self._each, total / POINTS)
        if self._done - (self._ends[-1][1] if self._ends else 0) >= least or not remaining:
            self._ends.append((self._now, self._done))
        if not remaining:
            return 0.0
        if len(self._ends) < ROUNDS or self._done < KNOWN * total:
            return None
        # The mean pace, then that of the latest stretch.
        (start, before), (end, done) = self._ends[0], self._ends[-1]
        if done <= before:
            return None
        pace = (end - start) / (done - before)
        if self._now - end > LATE * least * pace:  # it got slower, or waits
            end, done = self._now, self._done
            pace = (end - start) / (done - before)
        stretch = max(remaining * pace, (end - start) / 2)
        first = bisect_right(self._ends, (end - stretch, self._done)) - 1
        start, before = self._ends[max(first, 0)]
        return remaining * (end - start) / (done - before)
