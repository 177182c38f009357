"""A reader over an engine of :mod:`midchart.core.client`: messages in, answers and their price out.

Text leaves this machine for most of them, so the cohort's data-use tag and the run's spec must both
allow it (:mod:`midchart.core.egress`). The context of a prompt comes before its question, so that
prompts on one record share a start, which Claude's cache reads at a tenth of the price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from midchart.core.client.claude import call_log
from midchart.core.client.openai_server import cautious
from midchart.core.client.prices import Price
from midchart.core.client.requests import ModelService, Reply, Request, ask_each
from midchart.core.egress import CLOSED, EgressCheck
from midchart.core.errors import MidchartError
from midchart.core.interfaces import Watch, ignore
from midchart.core.options import Configurable
from midchart.core.protocol import Protocol
from midchart.core.readers import ManyReader
from midchart.core.readers.served import TEMPLATE_TOKENS, require_messages
from midchart.core.text import count_tokens
from midchart.core.text.prompt import MESSAGES, MIDDLE, Frame, messages
from midchart.core.types import Answer, Prompt


class ServiceReader(Configurable, ManyReader):
    """A reader that asks a service. Subclasses set ``options_model`` and write ``make_engine``.

    A run provides ``egress``, ``folder`` and ``label`` (calls have a price, and the run's folder
    holds the log of what was spent) and ``watch``, which takes the state of a wait in words and
    raises to end it. Raises InputError, MissingKey.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    family: ClassVar[str] = "reader"
    frame: ClassVar[Frame] = MESSAGES

    def __init__(
        self,
        protocol: Protocol,
        egress: EgressCheck = CLOSED,
        folder: Path | None = None,
        label: str = "",
        watch: Watch = ignore,
        **options: Any,
    ) -> None:
        self.check(protocol, **options)
        self.protocol, self.options = protocol, self.read_options(options)
        self.egress, self.watch = egress, watch
        self.log = call_log(folder, label or self.name, "reading")
        self.window: int = self.options.window - self.options.reasoning_tokens - TEMPLATE_TOKENS
        self.engine = self.make_engine()
        self.group, self.streams = self.engine.group, self.engine.streams

    def make_engine(self) -> ModelService:
        """The service that runs the model; it opens no connection before the first request."""
        raise NotImplementedError

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse invalid options and a missing key, without a connection."""
        cls.read_options(options).require(f"reader {cls.name!r}")
        require_messages(protocol, cls.name, "a local reader, or 'served' with path completions")

    @classmethod
    def addresses(cls, **options: Any) -> tuple[str, ...]:
        """Where prompts are sent."""
        address = cls.read_options(options).address
        return (address,) if address else ()

    @classmethod
    def price(cls, **options: Any) -> Price | None:
        """What the model costs; None where that is not known."""
        return cls.read_options(options).price

    def count_tokens(self, text: str) -> int:
        """An upper estimate of the model's tokens (:func:`core.client.openai_server.cautious`)."""
        return cautious(text)

    def read_many(self, prompts: Iterable[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's index and answer, in order of completion."""
        with closing(ask_each(self.engine, prompts, _request)) as replies:
            for index, prompt, reply in replies:
                yield index, self._answer(prompt, reply)

    def _answer(self, prompt: Prompt, reply: Reply | MidchartError) -> Answer:
        if not isinstance(reply, Reply):
            return Answer("", "failed", str(reply))
        usage = reply.usage
        return Answer(
            reply.text,
            prompt_tokens=usage.input_tokens or prompt.tokens,
            output_tokens=usage.output_tokens,
            seconds=reply.seconds,
            reused_tokens=usage.cached_tokens,
            how=usage.how,
            ended=reply.ended,
            reasoning=reply.reasoning,
            reasoning_tokens=reply.reasoning_tokens or count_tokens(reply.reasoning),
            endpoint=self.endpoint,
            model=usage.model,
            cost_usd=usage.cost_usd,
        )

    @property
    def endpoint(self) -> str:
        """The path of the service that calls go to."""
        raise NotImplementedError


def _request(prompt: Prompt) -> Request | MidchartError:
    """The messages of a prompt, the user's in two parts: up to the question, and the rest; or why
    it has none."""
    try:
        system, user = messages(prompt)
    except MidchartError as error:
        return error
    start, middle, question = user["content"].rpartition(MIDDLE)
    return Request(start, middle + question, system["content"])
