"""Requests to a language model and its replies, whichever service runs it."""

from __future__ import annotations

import typing
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, count

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
    """A service that runs a model. ``group``: how many requests are worth collecting.

    ``streams``: whether it takes requests as they are made, and replies meanwhile.
    """

    group: int
    streams: bool

    def ask_many(self, requests: Iterable[Request]) -> Generator[IndexedReply]:
        """The outcome of each request, in order of completion."""
        ...


A = typing.TypeVar("A")
B = typing.TypeVar("B")


def ask_each(
    service: ModelService, items: Iterable[A], make: Callable[[A], Request | B]
) -> Generator[tuple[int, A, Reply | MidchartError | B]]:
    """Each item with its index and the service's reply, or what ``make`` gives instead of a
    request; in order of completion. Requests are made as the service takes them."""
    asked: dict[int, tuple[int, A]] = {}
    unasked: deque[tuple[int, A, B]] = deque()

    def requests() -> Generator[Request]:
        place = count()
        for index, item in enumerate(items):
            request = make(item)
            if isinstance(request, Request):
                asked[next(place)] = (index, item)
                yield request
            else:
                unasked.append((index, item, request))

    source = requests()
    first = next(source, None)  # the service is not opened where there is nothing to ask
    if first is not None:
        with closing(service.ask_many(chain([first], source))) as replies:
            for place, reply in replies:
                while unasked:
                    yield unasked.popleft()
                yield (*asked.pop(place), reply)
    yield from unasked
