"""How relevant a text is to a question, by a cross-encoder trained on MS MARCO (PROTOCOL, Arms)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.errors import MissingModel
from core.pairs.scorer import DECIMALS, PairScorer
from core.vectors import Progress


def relevance(
    scorer: PairScorer, question: str, texts: Sequence[str], progress: Progress | None = None
) -> NDArray[np.float64]:
    """The model's logit for each of ``texts`` with ``question``, float64 [n], higher is better.

    Rounded to six decimals. Raises MissingModel where the model has more outputs than one.
    """
    if len(scorer.labels) != 1:
        raise MissingModel(
            f"{scorer.name}: relevance is a model's single output; this one has "
            f"{len(scorer.labels)} ({', '.join(scorer.labels)})"
        )
    outputs = scorer.outputs([(question, text) for text in texts], progress)
    return np.round(outputs[:, 0].astype(np.float64), DECIMALS)
