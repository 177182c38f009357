"""Blind: whether an answer is specific, without the evidence (docs/methods.md, Stage 2).

It asks Claude, or with ``url`` an on-site model, about the same answers as the sighted judges, so
that the two can be compared. The paper's prompt demands no form of answer; a model that answers in
prose is unparsed.
"""

from __future__ import annotations

from midchart.core.judges import JUDGES
from midchart.core.judges.claude import Claude
from midchart.core.judges.language_model import ModelService, ServedEngine
from midchart.core.judges.model_options import BlindOptions


@JUDGES.register("blind")
class Blind(Claude):
    """A language model with the blind prompt."""

    name, title = "blind", "Blind judge (sees no evidence)"
    sighted = False
    options_model = BlindOptions

    def make_engine(self) -> ModelService:
        """The server at ``url``, else the Claude API."""
        if self.options.url:
            return ServedEngine(self.options, self.egress, self.watch)
        return super().make_engine()
