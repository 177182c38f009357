"""Inspect: answers by any model provider of Inspect AI, which is optional (``inspect-ai``).

Gemini, Bedrock, Azure and some thirty others need no code here; calls are held to the address that
the spec names (:mod:`midchart.extras.providers.inspect_engine`).
"""

from __future__ import annotations

from midchart.core.client.requests import ModelService
from midchart.core.errors import InputError
from midchart.core.options import Whole
from midchart.core.readers.service import ServiceReader
from midchart.extras.providers.inspect_engine import InspectEngine, InspectFields


class InspectReaderOptions(InspectFields):
    """Options of the reader ``inspect``."""

    window: Whole = 0
    """Longest prompt and answer in tokens, which Inspect AI does not report."""
    reasoning_tokens: Whole = 0
    """Tokens for reasoning, in addition to those of the answer."""

    def require(self, component: str) -> None:
        super().require(component)
        if not self.window:
            raise InputError(f"the {component} needs 'window', the model's longest text in tokens")


class InspectReader(ServiceReader):
    """A model asked through Inspect AI; ``model`` is "provider/name"."""

    name, title = "inspect", "Any provider of Inspect AI"
    options_model = InspectReaderOptions

    def make_engine(self) -> ModelService:
        """The model, within the budget noted in the run's folder."""
        return InspectEngine(
            self.options,
            self.protocol.answer_tokens,
            self.egress,
            self.log,
            self.watch,
            self.options.reasoning_tokens,
        )

    @property
    def endpoint(self) -> str:
        return f"inspect_ai {self.options.model.partition('/')[0]}"
