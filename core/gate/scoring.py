"""Scores of all sentences of a record for a question, with plain arrays and no torch.

The first layer of the network is linear in question and sentence, so it splits: the sentences'
parts W_s·s are worked out once a record and kept, a question costs W_q·q once and then what
follows the first layer (docs/methods.md, The QCCS gate, Scoring algebra). Sentences of one text
share one row. All of it is worked out in double precision from the weights' single precision, and
scores are logits rounded to six decimals, so that a selection does not hang on the order in which a
machine adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midchart.core.gate.checkpoint import LAYERS, Gate
from midchart.core.gate.ngrams import Hashing, bags, gram_ids, lowered
from midchart.core.types import Explanation, Term

DECIMALS = 6
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """First-layer parts of a record's distinct texts, float64 [m, width], and the row of each
    sentence [n]."""

    rows: Floats
    row_of: NDArray[np.intp]


class Scorer:
    """A gate ready to score. ``hashing``: the one to read text with where it is not the gate's
    own (the published fault of a salt that is another in each process)."""

    def __init__(self, gate: Gate, hashing: Hashing | None = None) -> None:
        self.gate = gate
        self.hashing = hashing or gate.config.hashing
        weights = {name: array.astype(np.float64) for name, array in gate.weights.items()}
        self.embedding = weights["embedding.weight"]
        depth = len(LAYERS[gate.config.head]) + 1
        self.layers = [
            (weights[f"layers.{i}.weight"], weights[f"layers.{i}.bias"]) for i in range(depth)
        ]
        dim, first = gate.config.dim, self.layers[0][0]
        self.of_question = first[:, :dim] if gate.config.query else None
        self.of_sentence = first[:, dim:] if gate.config.query else first

    def parts(self, texts: Sequence[str]) -> Parts:
        """What of the sentences' scores no question changes."""
        place: dict[str, int] = {}
        row_of = np.array([place.setdefault(t, len(place)) for t in texts], dtype=np.intp)
        rows = bags(self.hashing, list(place)) @ self.embedding
        return Parts(rows @ self.of_sentence.T, row_of)

    def question(self, text: str) -> Floats:
        """The question's part of the first layer with its bias, float64 [width]."""
        bias = self.layers[0][1]
        if self.of_question is None:
            return bias
        pooled: Floats = (bags(self.hashing, [text]) @ self.embedding)[0]
        return pooled @ self.of_question.T + bias

    def scores(self, parts: Parts, question: str) -> NDArray[np.float64]:
        """Logit of each sentence, float64 [n]."""
        hidden = parts.rows + self.question(question)
        for weight, bias in self.layers[1:]:
            hidden = np.maximum(hidden, 0.0) @ weight.T + bias
        return np.round(hidden[:, 0], DECIMALS)[parts.row_of]


NOTE = (
    "Each character n-gram's part of the score with the network's switches held as they are for "
    "this sentence; the parts and the base add up to the score."
)


def _slope(scorer: Scorer, question: str, text: str) -> tuple[NDArray[np.float64], float]:
    """Slope along the first layer [width], and base: score = slope · (W_s s) + base."""
    part = scorer.parts([text]).rows[0]
    constant = scorer.question(question)
    hidden = part + constant
    through = np.eye(len(hidden))
    offset = np.zeros(len(hidden))
    for weight, bias in scorer.layers[1:]:
        active = hidden > 0
        step = weight * active
        through, offset = step @ through, step @ offset + bias
        hidden = step @ hidden + bias
    return through[0], float(through[0] @ constant + offset[0])


def explain(scorer: Scorer, question: str, text: str) -> Explanation:
    """The part of each distinct n-gram of ``text``, largest first, with its positions.

    The network is piecewise linear: with the ReLU states of this pair held fixed, the score is
    exactly the sum of a part for every n-gram of the sentence and a base from the question and the
    biases. The parts do not say what the score would be without an n-gram; a test compares both
    (leave one out).
    """
    along, base = _slope(scorer, question, text)
    ids = gram_ids(scorer.hashing, text)
    n = scorer.hashing.n
    table = scorer.embedding @ (scorer.of_sentence.T @ along)
    low = lowered(text)
    parts: dict[str, float] = {}
    places: dict[str, list[tuple[int, int]]] = {}
    for i, id in enumerate(ids):
        gram = low[i : i + n]
        parts[gram] = parts.get(gram, 0.0) + float(table[id]) / len(ids)
        places.setdefault(gram, []).append((i, i + n))
    terms = (Term(gram, part, tuple(places[gram])) for gram, part in parts.items())
    return Explanation(tuple(sorted(terms, key=lambda t: -abs(t.part))), base, NOTE)
