"""Served: an on-site model as judge, with the same prompt as Claude."""

from __future__ import annotations

from midchart.core.judges import JUDGES
from midchart.core.judges.language_model import LanguageJudge, ServedEngine
from midchart.core.judges.model_options import ServedJudgeOptions


@JUDGES.register("served")
class ServedJudge(LanguageJudge):
    """A model behind any OpenAI-compatible server, with the sighted prompt."""

    name, title = "served", "Served model (sighted)"
    options_model = ServedJudgeOptions

    def make_engine(self) -> ServedEngine:
        """The server at ``url``."""
        return ServedEngine(self.options, self.egress, self.watch)
