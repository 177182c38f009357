"""Requests to a language model and its replies, whichever service runs it."""

from __future__ import annotations

import typing
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from midchart.core.errors import MidchartError
from midchart.core.types import Ended, Usage


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt in two parts: ``start``, which prompts on one question or record share, and the
    rest; ``system`` is the system message before them ("": none)."""

    start: str
    rest: str
    system: str = ""

    @property
    def prompt(self) -> str:
        """The complete prompt."""
        return self.start + self.rest

    @property
    def digest(self) -> str:
        """A hash of the prompt (32 hex digits)."""
        text = f"{self.system}\n\n{self.prompt}" if self.system else self.prompt
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text, its usage, how it ended, and the reasoning before it with its tokens."""

    text: str
    usage: Usage
    ended: Ended = "stop"
    reasoning: str = ""
    reasoning_tokens: int = 0


IndexedReply = tuple[int, Reply | MidchartError]
"""A request's index and its reply or failure."""


class ModelService(typing.Protocol):
    """A service that runs a model. ``group``: how many requests are worth collecting."""

    group: int

    def ask_many(self, requests: Sequence[Request]) -> Generator[IndexedReply]:
        """The outcome of each request, in order of completion."""
        ...
