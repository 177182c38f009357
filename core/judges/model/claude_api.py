"""The Claude API through Anthropic's client: one message, its reply and its price.

Temperature is 0 for the models that take one; the API's version 2026-10-21 refuses the field, so
such calls name the version before it. Every verdict's usage says which temperature was used. The
start of a prompt is cached where that pays: where it has the model's minimum length and more than
one prompt starts with it.
"""

from __future__ import annotations

import threading
from typing import Any

from core.client.calls import (
    CallFailed,
    broken_response,
    call_failure,
    error_body,
    quiet_clients,
    token_count,
)
from core.config import Secret
from core.egress import Permit
from core.judges.model.engine import Reply, Request
from core.judges.model.options import ClaudeOptions
from core.types import Usage

BEFORE = "2023-06-01"
"""The API version that takes a temperature."""
BYTES_AROUND = 64
"""Most tokens of a request besides its text."""


def tokens_at_most(request: Request) -> int:
    """An upper bound of a request's tokens, as a token holds at least one byte."""
    return len(request.prompt.encode("utf-8", "replace")) + BYTES_AROUND


class ClaudeAPI:
    """A connection to the Claude API or a compatible gateway, safe between threads."""

    def __init__(self, permit: Permit, key: Secret | None, options: ClaudeOptions) -> None:
        self.permit, self.options, self.price = permit, options, options.price
        self.service = permit.address.host
        self.temperature = self.price is not None and self.price.temperature
        self._key = key
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def client(self) -> Any:
        """The client, created on first use."""
        with self._lock:
            if self._client is None:
                import anthropic

                from core.client.limits import LimitedClient

                quiet_clients()
                timeout = self.options.timeout
                self._client = anthropic.Anthropic(
                    api_key=self._key.reveal() if self._key else "none",
                    base_url=self.permit.address.url,
                    max_retries=0,  # core.client.calls retries, in step with the other calls
                    timeout=timeout,
                    http_client=LimitedClient(self.service, timeout, **self.permit.client()),
                    open_telemetry=False,
                )
            return self._client

    def extra(self) -> dict[str, Any]:
        """Keyword arguments of a request besides its parameters."""
        return {"extra_headers": {"anthropic-version": BEFORE}} if self.temperature else {}

    def parameters(self, request: Request, cached: bool) -> dict[str, Any]:
        """A message's parameters; ``cached``: its start is stored in the prompt cache."""
        content: Any = request.prompt
        if cached:
            start = {"type": "text", "text": request.start, "cache_control": {"type": "ephemeral"}}
            content = [start, {"type": "text", "text": request.rest}]
        return {
            "model": self.options.model,
            "max_tokens": self.options.max_tokens,
            "messages": [{"role": "user", "content": content}],
        }

    def ask(self, request: Request, cached: bool = False) -> Reply:
        """The model's reply; raises CallFailed."""
        tempered = self.temperature
        try:
            message = self._message(request, cached, tempered)
        except _NoTemperature:
            self.temperature = tempered = False
            message = self._message(request, cached, tempered)
        return self.read_message(message, "alone", tempered)

    def _message(self, request: Request, cached: bool, tempered: bool) -> Any:
        parameters = self.parameters(request, cached)
        if tempered:
            parameters |= {"extra_body": {"temperature": 0}, **self.extra()}
        client = self.client
        try:
            if not self.options.stream:
                return client.messages.create(**parameters)
            with client.messages.stream(**parameters) as stream:
                return stream.get_final_message()
        except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
            if tempered and _about("temperature", error):
                raise _NoTemperature from None
            raise self.failure(error) from None

    def failure(self, error: Exception) -> CallFailed:
        """An error of the client as a CallFailed."""
        if _about("credit balance", error):
            return CallFailed(f"{self.service} says that the account's credit is used up")
        return call_failure(error, self.service)

    def read_message(self, message: Any, how: str, tempered: bool) -> Reply:
        """The reply in a message; raises CallFailed for any other form than the API's."""
        content, usage = getattr(message, "content", None), getattr(message, "usage", None)
        read, written = getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)
        stopped = getattr(message, "stop_reason", None)
        if (
            not isinstance(content, list)
            or type(read) is not int
            or type(written) is not int
            or not isinstance(stopped, str)
        ):
            raise broken_response(self.service)
        texts = [getattr(part, "text", None) for part in content]  # thinking has no text
        text = "".join(part for part in texts if isinstance(part, str)).strip()
        cached = token_count(usage, "cache_read_input_tokens")
        stored = token_count(usage, "cache_creation_input_tokens")
        batch = how == "batch"
        cost = self.price.of(read, written, cached, stored, batch) if self.price else None
        temperature = "temperature 0" if tempered else "the model's own temperature"
        model = getattr(message, "model", None)
        usage = Usage(
            model if isinstance(model, str) else self.options.model,
            read + cached + stored,
            written,
            cached,
            cost,
            f"{how}, {temperature}",
        )
        if not text and stopped == "max_tokens":
            raise NoText(self.options.max_tokens, usage)
        return Reply(text, usage, stopped == "refusal")

    def max_cost(self, request: Request, cached: bool = False, batch: bool = False) -> float:
        """An upper bound of a request's cost in US dollars (0 where no price is known)."""
        if self.price is None:
            return 0.0
        tokens, written = tokens_at_most(request), self.options.max_tokens
        stored = tokens if cached else 0
        return self.price.of(tokens - stored, written, stored=stored, batch=batch)


class NoText(CallFailed):
    """The model used all its tokens before it wrote any text; its usage is billed."""

    def __init__(self, tokens: int, usage: Usage) -> None:
        super().__init__(
            f"the model used all {tokens} tokens before it said a word; give the judge a larger "
            "'max_tokens' (a model that thinks first needs a few thousand)"
        )
        self.usage = usage


class _NoTemperature(Exception):
    """The model refuses a temperature."""


def _about(subject: str, error: Exception) -> bool:
    """Whether the API refused a request and its reason names ``subject``."""
    return getattr(error, "status_code", 0) == 400 and subject in error_body(error)
