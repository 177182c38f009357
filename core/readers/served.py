"""Served: a model behind any OpenAI-compatible server, many prompts at a time.

The server is this machine's, or one that the cohort's data-use tag and the run's spec both allow
(:mod:`core.egress`). Greedy: temperature 0, ``protocol.answer_tokens`` new tokens. The model's
window is the server's own word or the option ``window``; nothing here lets a server shorten a
prompt in silence: where it reports fewer tokens than the prompt has words, the answer fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from core import config as settings
from core.client.calls import Caller, CallFailed, Patience, each
from core.egress import CLOSED, Gate, read_address
from core.errors import InputError, MidchartError
from core.protocol import Protocol
from core.readers import READERS
from core.readers.remote.openai_server import OpenAIServer, Reply
from core.readers.remote.token_estimate import counter
from core.types import Answer, Prompt

KEY = "MIDCHART_SERVED_KEY"
PATHS = ("auto", "completions", "chat")
PREFLIGHT_RETRIES, PREFLIGHT_S = 3, 10.0
"""How patiently the server is asked before a run starts: seconds for each try."""
_WORDS_LEFT = 0.8
"""Share of a prompt's words below which its reported tokens mean that the server cut it: a
tokenizer makes at least a token of almost every word."""


@READERS.register("served")
class Served:
    """A served model.

    url: the server, ``http://127.0.0.1:8000/v1``. model: its name there. concurrency: calls at a
    time. timeout: seconds a call may take. retries: tries after the first, with backoff. window:
    longest prompt and answer in tokens (0: the server tells). path: "completions" or "chat" alone,
    or "auto", completions where the server has it. tokenizer: see
    :mod:`core.readers.remote.token_estimate`.

    The key, where the server wants one, is ``MIDCHART_SERVED_KEY`` of the environment or of
    Streamlit's secrets. ``egress`` and ``watch`` are the run's: without the first only loopback is
    called; ``watch`` is asked, while answers are waited for, whether to go on.
    """

    name = "served"
    title = "Served model (OpenAI-compatible)"

    def __init__(
        self,
        protocol: Protocol,
        url: str = "",
        model: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        retries: int = 5,
        window: int = 0,
        path: str = "auto",
        tokenizer: str = "",
        egress: Gate = CLOSED,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self.check(protocol, url, model, concurrency, timeout, retries, window, path)
        self.protocol, self.egress, self.url = protocol, egress, url
        self.model, self.path, self.timeout = model, path, timeout
        self.group = max(4 * concurrency, 16)
        self.count_tokens = counter(tokenizer)
        self._concurrency, self._window = concurrency, window
        self._caller, self._watch = Caller(Patience(retries)), watch
        self._connected: OpenAIServer | None = None

    @classmethod
    def check(
        cls,
        protocol: Protocol,
        url: str = "",
        model: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        retries: int = 5,
        window: int = 0,
        path: str = "auto",
        tokenizer: str = "",
    ) -> None:
        """Refuse options that cannot be, without a connection; raises InputError."""
        if not url:
            raise InputError(
                "the reader 'served' needs 'url', the server's address: { name = \"served\", "
                'url = "http://127.0.0.1:8000/v1", model = "Qwen2.5-7B-Instruct" }'
            )
        read_address(url)
        if not model:
            raise InputError("the reader 'served' needs 'model', the model's name on its server")
        for name, value, least in (
            ("concurrency", concurrency, 1),
            ("retries", retries, 0),
            ("window", window, 0),
        ):
            if type(value) is not int or value < least:
                raise InputError(f"{name!r} of the reader 'served' is a whole number from {least}")
        if not 0 < timeout < 86_400:
            raise InputError("'timeout' of the reader 'served' is a number of seconds above 0")
        if path not in PATHS:
            raise InputError(f"'path' of the reader 'served' is one of {', '.join(PATHS)}")
        if tokenizer:
            counter(tokenizer)

    @classmethod
    def addresses(cls, url: str = "", **options: Any) -> tuple[str, ...]:
        """Where prompts would go."""
        return (url,)

    @classmethod
    def preflight(cls, protocol: Protocol, egress: Gate, **options: Any) -> None:
        """Refuse a window that neither the option nor the server tells; raises InputError.

        The server is asked only where the option is left out, with fewer retries than in the run.
        """
        if options.get("window"):
            return
        brief = {
            "retries": min(options.get("retries", 5), PREFLIGHT_RETRIES),
            "timeout": min(options.get("timeout", 120.0), PREFLIGHT_S),
        }
        reader = cls(protocol, **{**options, **brief}, egress=egress)
        try:
            _ = reader.window
        except CallFailed as error:
            raise InputError(
                f"the reader 'served' needs the window of {reader.model}, and {error}; start the "
                "server, or give the reader 'window', in tokens"
            ) from None

    @property
    def identity(self) -> str:
        """All that an answer is known to depend on besides its prompt."""
        return repr((self.url, self.model, self.path))

    @property
    def window(self) -> int:
        """Longest prompt and answer, in the model's tokens."""
        if not self._window:
            self._window = self._caller.call(lambda: self._server().window())
        return self._window

    def _server(self) -> OpenAIServer:
        if self._connected is None:
            permit = self.egress.permit(self.url)
            self._connected = OpenAIServer(
                permit, settings.secret(KEY), self.model, self.path, self.timeout
            )
        return self._connected

    def read(self, prompt: Prompt) -> Answer:
        """The model's answer; what went wrong is a failed answer's reason."""
        return next(iter(self.read_many([prompt])))[1]

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's index and answer, as they come in."""
        server = self._server()  # before any thread: a refusal is the whole group's
        stop = self._caller.begin()

        def ask(prompt: Prompt) -> Answer:
            begun = time.perf_counter()
            reply = self._caller.call(
                lambda: server.complete(prompt.text, self.protocol.answer_tokens)
            )
            return self._answer(prompt, reply, time.perf_counter() - begun)

        for index, answer in each(prompts, ask, self._concurrency, stop, self._watch):
            if isinstance(answer, MidchartError):
                answer = Answer("", "failed", str(answer))
            yield index, answer

    def _answer(self, prompt: Prompt, reply: Reply, seconds: float) -> Answer:
        words = len(prompt.text.split())
        if reply.prompt_tokens and reply.prompt_tokens < _WORDS_LEFT * words:
            raise CallFailed(
                f"the server read {reply.prompt_tokens:,} tokens of a prompt of {words:,} words: "
                "it cuts prompts to its window; set 'window' to what it takes"
            )
        return Answer(
            reply.text,
            prompt_tokens=reply.prompt_tokens or prompt.tokens,
            output_tokens=reply.output_tokens,
            seconds=seconds,
            how=reply.path,
        )
