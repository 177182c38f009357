"""Requests to a language model as a judge, its replies, and an on-site model that gives them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from core.client.calls import Caller, RetryPolicy, map_concurrently
from core.client.openai_server import OpenAIServer
from core.egress import Gate
from core.errors import MidchartError
from core.judges.model.options import SERVED_KEY, BlindOptions, ServedOptions
from core.types import Usage


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt in two parts: ``start``, which prompts on one question share, and the rest."""

    start: str
    rest: str

    @property
    def prompt(self) -> str:
        """The complete prompt."""
        return self.start + self.rest

    @property
    def digest(self) -> str:
        """A hash of the prompt (32 hex digits)."""
        return blake2b(self.prompt.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text, its usage, and whether its service declined to answer."""

    text: str
    usage: Usage
    declined: bool = False


Outcome = tuple[int, Reply | MidchartError]
"""A request's index and its reply or failure."""


class Engine(Protocol):
    """A service that runs a model. ``group``: how many requests are worth collecting."""

    group: int

    def ask_many(self, requests: Sequence[Request]) -> Generator[Outcome]:
        """The outcome of each request, in order of completion."""
        ...


# An on-site model, behind any OpenAI-compatible server.


class ServedEngine:
    """A model asked through ``/v1/chat/completions`` at temperature 0.

    Its key, where it needs one, is ``MIDCHART_SERVED_KEY``. ``watch`` raises to end the wait.
    """

    def __init__(
        self, options: ServedOptions | BlindOptions, egress: Gate, watch: Callable[[str], None]
    ) -> None:
        self.options, self.egress, self.watch = options, egress, watch
        self.group = max(4 * options.concurrency, 16)
        self._caller = Caller(RetryPolicy(options.retries))
        self._server: OpenAIServer | None = None

    def ask_many(self, requests: Sequence[Request]) -> Generator[Outcome]:
        """The outcome of each request, in order of completion."""
        options = self.options
        if self._server is None:  # before any thread: a refusal concerns the whole group
            permit = self.egress.permit(options.url)
            key = permit.key(SERVED_KEY)
            self._server = OpenAIServer(permit, key, options.model, options.timeout)
        server, stop = self._server, self._caller.begin()

        def ask(request: Request) -> Reply:
            messages = [{"role": "user", "content": request.prompt}]
            reply = self._caller.call(lambda: server.chat(messages, options.max_tokens))
            tokens = (reply.prompt_tokens, reply.output_tokens)
            usage = Usage(options.model, *tokens, how="alone, temperature 0")
            return Reply(reply.text.strip(), usage)

        with closing(
            map_concurrently(requests, ask, options.concurrency, stop, lambda: self.watch(""))
        ) as finished:
            yield from finished
