"""Multilingual: hybrid with multilingual-e5-small (Wang et al. 2024), as MiniLM knows English."""

from __future__ import annotations

from midchart.core.arms import ARMS
from midchart.core.arms.hybrid import Hybrid
from midchart.core.weights import E5


@ARMS.register("multilingual")
class Multilingual(Hybrid):
    """The k sentences of highest fused score."""

    name, title = "multilingual", "Multilingual (BM25 and E5)"
    needs = E5
