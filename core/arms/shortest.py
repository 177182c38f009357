"""Shortest: the k sentences of fewest tokens, the control for a preference for short text.

Short contexts keep the question in the prompt under the published truncation (docs/methods.md,
Stage 2: reading), so shortness alone must be ruled out as an arm's merit.
"""

from __future__ import annotations

import numpy as np

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, ScoredArm, Scores
from midchart.core.types import Instruction


@ARMS.register("shortest")
class Shortest(ScoredArm):
    """The score is minus the length in tokens."""

    name, title = "shortest", "Shortest"
    control = True

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return np.array([-float(sentence.tokens) for sentence in pool.sentences])
