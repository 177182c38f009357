"""Full: the whole record, cut only where a budget, a window or the reader's own makes it.

``k`` is ignored. The protocol's ``full_side`` says which side is kept, and is reported: the
published run kept the earliest tokens, so the end of long records was never read (docs/methods.md,
Arms). Under a token budget one contiguous part from that side is kept; there is no recency
buffer. With ``window`` one run compares full contexts of several lengths, as in
``{ name = "full", window = 32768 }``.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Positions, ScoredArm, Scores, Trace
from midchart.core.errors import InputError
from midchart.core.protocol import Protocol
from midchart.core.types import Budget, Instruction, Record, Selection


@ARMS.register("full")
class Full(ScoredArm):
    """Every sentence, each with score 1.

    ``window``: most tokens of the prompt and its answer, as the reader counts them; 0 is all that
    the reader's own window holds. Raises InputError for a negative one.
    """

    name, title = "full", "Full record"
    buffered = False
    contiguous = True
    filled = False

    def __init__(self, protocol: Protocol, window: int = 0) -> None:
        super().__init__(protocol)
        if type(window) is not int or window < 0:
            raise InputError(
                f"the arm 'full' has a window of {window!r}; it takes a whole number of tokens, "
                "such as 16384, or 0 for the reader's own"
            )
        self.window = window

    def select(self, record: Record, instruction: Instruction, budget: Budget) -> Selection:
        """All sentences within cutoff and ``budget.tokens``; packing cuts them to the window."""
        selection = super().select(record, instruction, budget)
        return dataclasses.replace(selection, window=self.window)

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return np.ones(len(pool.sentences))

    def rank(self, pool: Candidates, instruction: Instruction, k: int) -> tuple[Positions, Scores]:
        order = np.arange(len(pool.sentences))
        kept_first = order[::-1] if self.protocol.full_side == "latest" else order
        return kept_first, self.score(pool, instruction)

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        window = (("window", f"{self.window} tokens"),) if self.window else ()
        return (("side kept", self.protocol.full_side), *window)
