"""Recency: the latest events alone, the control of every table.

The recency buffer alone reaches 31.3 % of the paper's recall (docs/methods.md, Arms), so an arm
is worth only what it adds to this one. ``k`` is ignored.
"""

from __future__ import annotations

import numpy as np

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, ScoredArm, Scores
from midchart.core.types import Instruction


@ARMS.register("recency")
class Recency(ScoredArm):
    """The recency buffer alone."""

    name, title = "recency", "Recency only"
    control = True
    filled = False

    def pool(self, everything: Candidates) -> Candidates:
        return everything.only([False] * len(everything.sentences), "none")

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return np.zeros(len(pool.sentences))
