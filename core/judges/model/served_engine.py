"""An on-site model as an engine of judges, behind any OpenAI-compatible server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

from core.client.calls import Caller, Patience, each, quiet_clients
from core.client.openai_format import Greedy, answer, client_options
from core.config import Secret
from core.egress import Gate
from core.errors import MidchartError
from core.judges.model.engine import Request, Said
from core.types import Usage


class ServedEngine:
    """A model at ``url``, asked through ``/v1/chat/completions`` at temperature 0.

    key: gives the key, when the connection is opened. watch: raises to end the wait.
    """

    def __init__(
        self,
        model: str,
        url: str,
        gate: Gate,
        key: Callable[[], Secret | None],
        *,
        max_tokens: int,
        concurrency: int = 8,
        timeout_s: float = 120.0,
        retries: int = 5,
        watch: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.model, self.url, self.gate, self.key = model, url, gate, key
        self.max_tokens, self.concurrency, self.timeout_s = max_tokens, concurrency, timeout_s
        self.group = max(4 * concurrency, 16)
        self.watch = watch
        self._caller = Caller(Patience(retries))
        self._lock = threading.Lock()
        self._connected: tuple[Greedy, Any] | None = None

    def _open(self) -> tuple[Greedy, Any]:
        with self._lock:
            if self._connected is None:
                permit = self.gate.permit(self.url)
                import httpx2
                import openai

                quiet_clients()
                http = httpx2.Client(timeout=self.timeout_s, **permit.client())
                options = client_options(permit, self.key(), self.timeout_s)
                greedy = Greedy(f"the server at {permit.address.host}")
                self._connected = greedy, openai.OpenAI(http_client=http, **options)
            return self._connected

    def ask_many(self, requests: Sequence[Request]) -> Generator[tuple[int, Said | MidchartError]]:
        """Each request's index and what was said, as they come in."""
        self._open()  # before any thread: a refusal is the whole group's
        stop = self._caller.begin()

        def work(request: Request) -> Said:
            return self._caller.call(lambda: self._ask(request))

        with closing(
            each(requests, work, self.concurrency, stop, lambda: self.watch(""))
        ) as finished:
            yield from finished

    def _ask(self, request: Request) -> Said:
        greedy, client = self._open()
        found = greedy.ask(
            client.chat.completions.create,
            model=self.model,
            messages=[{"role": "user", "content": request.prompt}],
            max_tokens=self.max_tokens,
        )
        told = answer(found, greedy.service)
        used = Usage(self.model, told.prompt_tokens, told.output_tokens, how="alone, temperature 0")
        return Said(told.text.strip(), used)
