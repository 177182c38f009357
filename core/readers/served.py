"""Served: a model behind any OpenAI-compatible server, many prompts at a time.

The server is on this machine, or one that the cohort's data-use tag and the run's spec both allow
(:mod:`midchart.core.egress`). Prompts are messages, which the server renders by its model's own
template; ``path = "completions"`` sends a text that the named ``template`` renders here. Decoding
is greedy with ``protocol.answer_tokens`` new tokens plus ``reasoning_tokens``. The
model's window is the server's report or the option ``window``; where a server reports fewer tokens
than the prompt has words, it truncated the prompt and the answer fails.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from midchart.core.client.calls import Caller, CallFailed, RetryPolicy, map_concurrently
from midchart.core.client.openai_server import (
    ENDPOINTS,
    OpenAIServer,
    ServerReply,
    counter,
    tokenizer_folder,
)
from midchart.core.egress import CLOSED, EgressCheck, read_address
from midchart.core.errors import InputError, MidchartError
from midchart.core.options import Configurable, Count, Options, Whole
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS, ManyReader
from midchart.core.readers.qwen import Choose
from midchart.core.text import count_tokens, one_line
from midchart.core.text.chat_template import added_tokens, template_frame, with_control
from midchart.core.text.prompt import CHATML, LETTERS, MESSAGES, Frame, messages, option_text
from midchart.core.types import Answer, Prompt

KEY = "MIDCHART_SERVED_KEY"
PREFLIGHT_RETRIES, PREFLIGHT_S = 3, 10.0
"""Retries, and seconds per try, of the request for the window before a run starts."""
_LEAST_TOKENS_PER_WORD = 0.8
"""Fewer reported tokens per word mean a truncated prompt: tokenizers make at least one token of
almost every word."""
TEMPLATE_TOKENS = 128
"""Tokens kept free for what a server's template writes around the messages, where it is not known
here (Llama 3.1 writes about 40, gpt-oss about 100)."""


class ServedOptions(Options):
    """Options of the reader ``served``."""

    url: str = ""
    """The server, for example http://127.0.0.1:8000/v1."""
    model: str = ""
    """The model's name at the server."""
    concurrency: Count = 8
    """Concurrent calls."""
    timeout: Annotated[float, Field(gt=0, lt=86_400)] = 120.0
    """Seconds a call may take."""
    retries: Whole = 5
    """Tries after the first, with backoff."""
    window: Whole = 0
    """Longest prompt and answer in tokens; 0 asks the server."""
    path: Literal["auto", "completions", "chat"] = "auto"
    """The endpoint; auto is chat."""
    template: Literal["", "chatml", "tokenizer"] = ""
    """What renders the messages for the path completions: ChatML, or the chat template of
    ``tokenizer``."""
    reasoning_effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh"] = ""
    """The parameter ``reasoning_effort`` of chat calls; "" does not send it."""
    reasoning_tokens: Whole = 0
    """Tokens for reasoning, in addition to those of the answer."""
    choose: Choose = "text"
    """How a multiple-choice question is answered: "text" as any other; "letter": the most probable
    letter of an option by the server's log-probabilities; "likelihood": the option whose text has
    the largest log-likelihood per character after the prompt (needs the path completions)."""
    tokenizer: str = ""
    """Folder of a tokenizer in the models folder (:mod:`midchart.core.client.openai_server`)."""


@READERS.register("served")
class Served(Configurable, ManyReader):
    """A served model.

    Its key, where it needs one, is ``MIDCHART_SERVED_KEY`` in the environment or Streamlit's
    secrets. A run provides ``egress``, without which only loopback is called, and ``watch``, which
    raises to end the wait for answers. Raises InputError.
    """

    name, title, family = "served", "Served model (OpenAI-compatible)", "reader"
    options_model = ServedOptions

    def __init__(
        self,
        protocol: Protocol,
        egress: EgressCheck = CLOSED,
        watch: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        self.check(protocol, **options)
        chosen: ServedOptions = self.read_options(options)
        self.protocol, self.options, self.egress, self._watch = protocol, chosen, egress, watch
        self.group, self.streams = max(4 * chosen.concurrency, 16), True
        self.count_tokens = counter(chosen.tokenizer)
        self._window = chosen.window
        self._caller = Caller(RetryPolicy(chosen.retries))
        self._connected: OpenAIServer | None = None

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse invalid options, without a connection; raises InputError."""
        chosen: ServedOptions = cls.read_options(options)
        if not chosen.url:
            raise InputError(
                "the reader 'served' needs 'url', the server's address: { name = \"served\", "
                'url = "http://127.0.0.1:8000/v1", model = "Qwen2.5-7B-Instruct" }'
            )
        read_address(chosen.url)
        if not chosen.model:
            raise InputError("the reader 'served' needs 'model', the model's name on its server")
        counter(chosen.tokenizer)
        if chosen.path == "completions":
            if not chosen.template:
                raise InputError(
                    "the reader 'served' with path = \"completions\" needs 'template', which "
                    'renders the messages: "chatml" for Qwen, or "tokenizer" for the chat template '
                    "of 'tokenizer'; the path chat leaves that to the server"
                )
            if chosen.template == "tokenizer":
                if not chosen.tokenizer:
                    raise InputError("template = \"tokenizer\" needs 'tokenizer', a folder's name")
                template_frame(tokenizer_folder(chosen.tokenizer))
            if chosen.reasoning_effort:
                raise InputError("'reasoning_effort' belongs to the path chat")
            return
        if chosen.template:
            raise InputError("'template' belongs to path = \"completions\"; the server has its own")
        if chosen.choose == "likelihood":
            raise InputError(
                'choose = "likelihood" needs path = "completions" and a \'template\', or use '
                'choose = "letter"'
            )
        require_messages(protocol, "served", 'path = "completions" and template = "chatml"')

    @classmethod
    def addresses(cls, url: str = "", **options: Any) -> tuple[str, ...]:
        """Where prompts are sent."""
        return (url,)

    @classmethod
    def preflight(cls, protocol: Protocol, egress: EgressCheck, **options: Any) -> None:
        """Ask the server for the window before a run; raises InputError without an answer."""
        chosen: ServedOptions = cls.read_options(options)
        brief: dict[str, Any] = {
            "retries": min(chosen.retries, PREFLIGHT_RETRIES),
            "timeout": min(chosen.timeout, PREFLIGHT_S),
        }
        reader = cls(protocol, egress, **(options | brief))
        try:
            _ = reader.window
        except CallFailed as error:
            raise InputError(
                f"the reader 'served' needs the window of {chosen.model}, and {error}; start the "
                "server, or give the reader 'window', in tokens"
            ) from None

    @property
    def path(self) -> Literal["chat", "completions"]:
        """The endpoint of calls."""
        return "completions" if self.options.path == "completions" else "chat"

    @cached_property
    def frame(self) -> Frame:
        """What renders a prompt's messages: the named template, else the server."""
        frame = CHATML if self.options.template else MESSAGES
        if not self.options.tokenizer:
            return frame
        folder = tokenizer_folder(self.options.tokenizer)
        if self.options.template == "tokenizer":
            return template_frame(folder)
        return with_control(frame, added_tokens(folder))

    @property
    def window(self) -> int:
        """Longest prompt and answer, in the model's tokens, without those for reasoning and for
        the server's template."""
        if not self._window:
            self._window = self._caller.call(lambda: self._server().window())
        template = TEMPLATE_TOKENS if self.path == "chat" else 0
        return self._window - self.options.reasoning_tokens - template

    def _server(self) -> OpenAIServer:
        if self._connected is None:
            options = self.options
            permit = self.egress.permit(options.url)
            self._connected = OpenAIServer(
                permit, permit.key(KEY), options.model, options.timeout, options.reasoning_effort
            )
        return self._connected

    def read_many(self, prompts: Iterable[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's index and answer, in order of completion."""
        server = self._server()  # before any thread: a refusal concerns the whole group
        stop = threading.Event()

        def ask(prompt: Prompt) -> Answer:
            start = time.perf_counter()
            if prompt.options and self.options.choose != "text":
                reply = self._choice(server, prompt, stop)
            else:
                reply = self._caller.call(lambda: self._written(server, prompt), stop)
            return _answer(prompt, reply, time.perf_counter() - start)

        workers = self.options.concurrency
        for index, answer in map_concurrently(prompts, ask, workers, stop, self._watch):
            if isinstance(answer, MidchartError):
                answer = Answer("", "failed", str(answer))
            yield index, answer

    def _written(self, server: OpenAIServer, prompt: Prompt) -> ServerReply:
        tokens = self.protocol.answer_tokens + self.options.reasoning_tokens
        if self.path == "completions":
            return server.complete(self._text(prompt), tokens, self.frame.ends)
        return server.chat(messages(prompt), tokens)

    def _text(self, prompt: Prompt) -> str:
        """The finished prompt, without the token that the server writes before it."""
        return prompt.text.removeprefix(self.frame.start)

    def _choice(self, server: OpenAIServer, prompt: Prompt, stop: threading.Event) -> ServerReply:
        """The option that the server's log-probabilities choose."""
        options = prompt.options
        if self.options.choose == "letter":
            letters = LETTERS[: len(options)]
            asked = self._text(prompt) if self.path == "completions" else messages(prompt)
            reply = self._caller.call(lambda: server.letter(asked, letters), stop)
            return replace(reply, text=option_text(options, letters.index(reply.text)))
        each: list[float] = []
        reply = ServerReply("", 0, 0, "completions")
        for option in map(one_line, options):
            total, reply = self._caller.call(
                lambda option=option: server.log_likelihood(self._text(prompt), option), stop
            )
            each.append(total / len(option))
        return replace(reply, text=option_text(options, each.index(max(each))))


def _answer(prompt: Prompt, reply: ServerReply, seconds: float) -> Answer:
    words = len(prompt.text.split())
    if reply.prompt_tokens and reply.prompt_tokens < _LEAST_TOKENS_PER_WORD * words:
        raise CallFailed(
            f"the server read {reply.prompt_tokens:,} tokens of a prompt of {words:,} words: "
            "it cuts prompts to its window; set 'window' to what it takes"
        )
    return Answer(
        reply.text,
        prompt_tokens=reply.prompt_tokens or prompt.tokens,
        output_tokens=reply.output_tokens,
        seconds=seconds,
        how=", ".join(filter(None, (reply.path, reply.differs))),
        ended=reply.ended,
        reasoning=reply.reasoning,
        reasoning_tokens=reply.reasoning_tokens or count_tokens(reply.reasoning),
        endpoint=ENDPOINTS[reply.path],
        model=reply.model,
    )


def require_messages(protocol: Protocol, reader: str, instead: str) -> None:
    """Refuse a protocol that cuts finished prompts for a reader whose service renders messages.

    ``instead``: what to do. Raises InputError.
    """
    if protocol.truncation == "right":
        raise InputError(
            f'the protocol\'s truncation "right" cuts a finished prompt, and the reader {reader!r} '
            f"sends messages; use {instead}"
        )
