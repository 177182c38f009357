"""Whether one text follows from another, by a model of natural language inference.

Which output is entailment is read from the model's own ``id2label``: the order differs between
models (PROTOCOL, Stage 1), and the wrong one would turn contradiction into support.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.errors import MissingModel
from core.pairs.model import Pair, labels_of, refuse_tokenizer
from core.pairs.scorer import DECIMALS, PairScorer, shared
from core.vectors import Progress
from core.weights import NLI, locate

ENTAILMENT, CONTRADICTION = "entailment", "contradiction"


def label_index(labels: Sequence[str], name: str, wanted: str = ENTAILMENT) -> int:
    """Which of a model's ``labels`` is ``wanted``; raises MissingModel unless exactly one is."""
    found = [i for i, label in enumerate(labels) if label.strip().lower() == wanted]
    if len(found) != 1:
        raise MissingModel(
            f"{name}: its id2label names no single {wanted!r} (it has: {', '.join(labels)}); "
            "a model of natural language inference is needed"
        )
    return found[0]


def require(*wanted: str) -> None:
    """Raise MissingModel where the NLI weights are not here or lack a label of ``wanted`` (none:
    entailment).

    Reads the config alone, so a run can be refused before anything is made or loaded.
    """
    folder = locate(NLI).folder
    for label in wanted or (ENTAILMENT,):
        label_index(labels_of(folder), NLI, label)
    refuse_tokenizer(folder)


class Entailment:
    """Probabilities of entailment by ``scorer``'s model (default: the project's NLI model).

    Raises MissingModel where the weights are not here or have no entailment label.
    """

    def __init__(self, scorer: PairScorer | None = None) -> None:
        self.scorer = scorer if scorer is not None else shared(NLI)
        self.index = label_index(self.scorer.labels, self.scorer.name)

    def probabilities(
        self, pairs: Sequence[Pair], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """Probability that each (premise, hypothesis) is an entailment, float64 [n], rounded to
        six decimals."""
        return self._shares(pairs, progress)[:, self.index]

    def classes(self, pairs: Sequence[Pair], *wanted: str) -> tuple[NDArray[np.float64], ...]:
        """The probability of each label of ``wanted`` for each (premise, hypothesis), float64 [n]
        each; raises MissingModel for a label that the model does not have."""
        places = [label_index(self.scorer.labels, self.scorer.name, name) for name in wanted]
        shares = self._shares(pairs)
        return tuple(shares[:, place] for place in places)

    def _shares(
        self, pairs: Sequence[Pair], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """Probabilities of all labels, float64 [n, labels], rounded to six decimals."""
        logits = self.scorer.outputs(pairs, progress).astype(np.float64)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.round(powers / powers.sum(axis=1, keepdims=True), DECIMALS)

    def either_way(
        self, pairs: Sequence[Pair], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """The larger probability of the two directions of each pair, float64 [n] (PROTOCOL,
        Stage 1: semantic hit)."""
        both = [*pairs, *((second, first) for first, second in pairs)]
        found = self.probabilities(both, progress)
        return np.maximum(found[: len(pairs)], found[len(pairs) :])
