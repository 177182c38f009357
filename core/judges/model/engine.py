"""What a language model as a judge is asked and says, whichever service runs it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from core.errors import MidchartError
from core.types import Usage


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt in two parts: ``start``, which prompts on one question share, and the rest."""

    start: str
    rest: str

    @property
    def prompt(self) -> str:
        """The whole prompt."""
        return self.start + self.rest

    @property
    def digest(self) -> str:
        """A hash of the prompt (32 hex digits)."""
        return blake2b(self.prompt.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Said:
    """What a model said, what it used, and whether its service declined to let it speak."""

    text: str
    usage: Usage
    declined: bool = False


class Engine(Protocol):
    """A service that runs a model. ``group``: how many requests are worth collecting."""

    group: int

    def ask_many(self, requests: Sequence[Request]) -> Generator[tuple[int, Said | MidchartError]]:
        """Each request's index and what was said, or why nothing was, as they come in."""
        ...
