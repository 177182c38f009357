"""Random: k sentences drawn at random, the control for the number of sentences alone.

The lot is drawn from the protocol's seed, the record's id and the instruction's id, so it is the
same in every process and machine; a larger k keeps what a smaller one kept.
"""

from __future__ import annotations

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, ScoredArm, Scores, generator
from midchart.core.types import Instruction


@ARMS.register("random")
class Random(ScoredArm):
    """k sentences drawn without replacement, each equally likely."""

    name, title = "random", "Random"
    control = True

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        drawn = generator(str(self.protocol.seed), instruction.record_id, instruction.id)
        return drawn.random(len(pool.sentences))
