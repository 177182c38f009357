"""Inspect: a judge asked through any model provider of Inspect AI, with the same prompt as Claude.

Inspect AI is optional (:mod:`midchart.extras.providers.inspect_engine`).
"""

from __future__ import annotations

from midchart.core.client.requests import ModelService
from midchart.core.judges.claude import Claude
from midchart.core.judges.model_options import JudgeOptions
from midchart.extras.providers.inspect_engine import InspectEngine, InspectFields


class InspectJudgeOptions(InspectFields, JudgeOptions):
    """Options of the judge ``inspect``."""


class InspectJudge(Claude):
    """A model asked through Inspect AI, with the sighted prompt."""

    name, title = "inspect", "Any provider of Inspect AI (sighted)"
    options_model = InspectJudgeOptions

    @classmethod
    def addresses(cls, **options: object) -> tuple[str, ...]:
        """Where questions, answers and evidence are sent; none for the mock provider."""
        return tuple(filter(None, super().addresses(**options)))

    def make_engine(self) -> ModelService:
        """The model, within the budget noted in the run's folder."""
        return InspectEngine(
            self.options, self.options.max_tokens, self.egress, self.log, self.watch
        )
