"""Claude: answers by the Messages API, one call a prompt, within a budget."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from midchart.core.client.claude import ClaudeEngine, ClaudeFields, Seconds
from midchart.core.client.requests import ModelService
from midchart.core.errors import InputError
from midchart.core.options import Count
from midchart.core.readers import READERS
from midchart.core.readers.service import ServiceReader

LEAST_THINKING = 1_024
"""Least tokens that the API takes for thinking."""


class ClaudeReaderOptions(ClaudeFields):
    """Options of the reader ``claude``."""

    timeout: Seconds = 300.0
    """Seconds a call may take."""
    window: Count = 200_000
    """Longest prompt and answer in tokens."""
    reasoning_tokens: Annotated[int, Field(ge=0, le=60_000)] = 0
    """Tokens for thinking, in addition to those of the answer; at least 1,024, or 0 for none."""

    def require(self, component: str) -> None:
        super().require(component)
        if 0 < self.reasoning_tokens < LEAST_THINKING:
            raise InputError(
                f"'reasoning_tokens' of the {component} is 0, or {LEAST_THINKING:,} and more"
            )


@READERS.register("claude")
class ClaudeReader(ServiceReader):
    """Claude; ``model`` is its id."""

    name, title = "claude", "Claude (Anthropic)"
    options_model = ClaudeReaderOptions

    def make_engine(self) -> ModelService:
        """The Claude API, within the budget noted in the run's folder."""
        return ClaudeEngine(
            self.options,
            self.protocol.answer_tokens,
            self.egress,
            self.log,
            self.watch,
            self.options.reasoning_tokens,
        )

    @property
    def endpoint(self) -> str:
        return "/v1/messages"
