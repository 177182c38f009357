"""Scores of all sentences of a record for a question, with plain arrays and no torch.

The first layer of the network is linear in question and sentence, so it splits: the sentences'
parts W_s·s are worked out once a record and kept, a question costs W_q·q once and then what
follows the first layer (PROTOCOL, The QCCS gate, Scoring algebra). Sentences of one text share
one row. Scores are logits, rounded to six decimals, so that a selection does not hang on the last
bit of a machine's arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from core.gate.checkpoint import Gate
from core.gate.ngrams import Bags, Hashing, bags
from core.gate.shape import LAYERS

DECIMALS = 6
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """First-layer parts of a record's distinct texts, float32 [m, width], and the row of each
    sentence [n]."""

    rows: Floats
    row_of: NDArray[np.intp]


def pooled(bag: Bags, table: Floats) -> Floats:
    """Mean row of ``table`` [buckets, width] over each bag, [m, width]; zeros for an empty one."""
    matrix = csr_matrix((bag.shares(), bag.ids, bag.offsets), shape=(len(bag), len(table)))
    return np.asarray(matrix @ table, dtype=np.float32)


class Scorer:
    """A gate ready to score. ``hashing``: the one to read text with where it is not the gate's
    own (the published fault of a salt that is another in each process)."""

    def __init__(self, gate: Gate, hashing: Hashing | None = None) -> None:
        self.gate = gate
        self.hashing = hashing or gate.config.hashing
        self.embedding = gate.weights["embedding.weight"]
        depth = len(LAYERS[gate.config.head]) + 1
        self.layers = [
            (gate.weights[f"layers.{i}.weight"], gate.weights[f"layers.{i}.bias"])
            for i in range(depth)
        ]
        dim, first = gate.config.dim, self.layers[0][0]
        self.of_question = first[:, :dim] if gate.config.query else None
        self.of_sentence = first[:, dim:] if gate.config.query else first

    def parts(self, texts: Sequence[str]) -> Parts:
        """What of the sentences' scores no question changes."""
        place: dict[str, int] = {}
        row_of = np.array([place.setdefault(t, len(place)) for t in texts], dtype=np.intp)
        rows = pooled(bags(self.hashing, list(place)), self.embedding) @ self.of_sentence.T
        return Parts(rows, row_of)

    def question(self, text: str) -> Floats:
        """The question's part of the first layer with its bias, float32 [width]."""
        bias = self.layers[0][1]
        if self.of_question is None:
            return bias
        return pooled(bags(self.hashing, [text]), self.embedding)[0] @ self.of_question.T + bias

    def scores(self, parts: Parts, question: str) -> NDArray[np.float64]:
        """Logit of each sentence, float64 [n]."""
        hidden = parts.rows + self.question(question)
        for weight, bias in self.layers[1:]:
            np.maximum(hidden, 0.0, out=hidden)
            hidden = hidden @ weight.T
            hidden += bias
        return np.round(hidden[:, 0].astype(np.float64), DECIMALS)[parts.row_of]
