"""Full: the whole record, cut only where a budget or the reader's window makes it.

``k`` is ignored. Which side gives way is the protocol's ``full_side`` and is reported: the
published run kept the earliest tokens, so the end of long records was never read (PROTOCOL,
Arms). Under a token budget one unbroken stretch from that side is kept; the recency buffer has
no privilege here, as packing gives it none.
"""

from __future__ import annotations

import numpy as np

from core.arms import ARMS
from core.arms.base import ScoredArm, Scores, Trace
from core.arms.candidates import Candidates, Positions
from core.types import Instruction


@ARMS.register("full")
class Full(ScoredArm):
    """Every sentence, each with score 1."""

    name, title = "full", "Full record"
    recency_first = False
    contiguous = True

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return np.ones(len(pool.sentences))

    def rank(self, pool: Candidates, instruction: Instruction, k: int) -> tuple[Positions, Scores]:
        order = np.arange(len(pool.sentences))
        kept_first = order[::-1] if self.protocol.full_side == "latest" else order
        return kept_first, self.score(pool, instruction)

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        return (("side kept", self.protocol.full_side),)
