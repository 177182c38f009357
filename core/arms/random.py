"""Random: k sentences drawn at random, the control for the number of sentences alone.

The lot is drawn from the protocol's seed, the record's id and the instruction's id, so it is the
same in every process and machine; a larger k keeps what a smaller one kept.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from core.arms import ARMS
from core.arms.base import Candidates, ScoredArm, Scores
from core.types import Instruction


@ARMS.register("random")
class Random(ScoredArm):
    """k sentences drawn without replacement, each equally likely."""

    name, title = "random", "Random"
    control = True

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        # With the lengths of the parts, distinct triples have distinct names.
        parts = (str(self.protocol.seed), instruction.record_id, instruction.id)
        name = "".join(f"{len(part)}:{part}" for part in parts)
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
        return generator.random(len(pool.sentences))
