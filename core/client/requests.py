"""Requests to a language model and its replies, whichever service runs it."""

from __future__ import annotations

import typing
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
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
    """A model's text, its usage, how it ended, the reasoning before it with its tokens, and the
    seconds that the request took, waits and tries included."""

    text: str
    usage: Usage
    ended: Ended = "stop"
    reasoning: str = ""
    reasoning_tokens: int = 0
    seconds: float = 0.0


IndexedReply = tuple[int, Reply | MidchartError]
"""A request's index and its reply or failure."""


class ModelService(typing.Protocol):
    """A service that runs a model. ``group``: how many requests are worth collecting."""

    group: int

    def ask_many(self, requests: Sequence[Request]) -> Generator[IndexedReply]:
        """The outcome of each request, in order of completion."""
        ...


A = typing.TypeVar("A")
B = typing.TypeVar("B")


def ask_each(
    service: ModelService, items: Sequence[A], make: Callable[[A], Request | B]
) -> Generator[tuple[int, A, Reply | MidchartError | B]]:
    """Each item with its index and the service's reply, or what ``make`` gives instead of a
    request; in order of completion."""
    asked: list[tuple[int, A, Request]] = []
    for index, item in enumerate(items):
        request = make(item)
        if isinstance(request, Request):
            asked.append((index, item, request))
        else:
            yield index, item, request
    if asked:  # the service is not opened where there is nothing to ask
        with closing(service.ask_many([request for *_, request in asked])) as replies:
            for place, reply in replies:
                index, item, _ = asked[place]
                yield index, item, reply
