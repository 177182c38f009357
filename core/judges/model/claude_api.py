"""The Claude API through Anthropic's own client: one message asked, its answer and price read.

Temperature is 0 for the models that take one; the API's version 2026-10-21 refuses the field, so
such calls name the version before it. Newer models choose their own, and every verdict says which
it was. The start of a prompt is cached where that pays: it is as long as the model's minimum and
more than one prompt begins with it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

from core.client.calls import CallFailed, broken, failure, quiet_clients
from core.config import Secret
from core.egress import Permit
from core.errors import InputError
from core.judges.model.engine import Request, Said
from core.types import Usage

# What a million tokens of a Claude model cost, and from which length on a prompt is cached.


DATE = "2026-11-21"
BATCH = 0.5
CACHE_WRITE, CACHE_READ = 1.25, 0.1


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens read and written.

    ``cached_from``: tokens from which on a prompt's start can be cached (0: not known, never
    cached). ``temperature``: whether the model takes one.
    """

    read: float
    written: float
    cached_from: int = 0
    temperature: bool = False

    def of(
        self, read: int, written: int, cached: int = 0, stored: int = 0, batch: bool = False
    ) -> float:
        """Dollars for a call: tokens read anew, written, read from the cache, stored in it."""
        whole = (
            (read + CACHE_READ * cached + CACHE_WRITE * stored) * self.read + written * self.written
        ) / 1e6
        return whole * BATCH if batch else whole


PRICES: dict[str, Price] = {
    "claude-haiku-4-5": Price(1.0, 5.0, 4096, True),
    "claude-sonnet-4-5": Price(3.0, 15.0, 1024, True),
    # The documentation says 1,024 for this one; caches were seen from 2,048 on.
    "claude-sonnet-4-6": Price(3.0, 15.0, 2048, True),
    "claude-opus-4-5": Price(5.0, 25.0, 4096, True),
    "claude-opus-4-6": Price(5.0, 25.0, 4096, True),
    "claude-opus-5": Price(5.0, 25.0, 512),
    "claude-sonnet-5-5": Price(2.0, 10.0, 1024),
    "claude-opus-5-5": Price(4.0, 20.0, 512),
}
"""By model id without its date. Haiku 5.5 is not here: its price depends on the prompt's length,
so it takes the options."""


def price_of(model: str, price_in: float = 0.0, price_out: float = 0.0) -> Price | None:
    """The price of a model; the options go before the table; None where neither tells.

    Raises InputError for half a price or one below nought.
    """
    known = next((p for name, p in PRICES.items() if _is(model, name)), None)
    if not price_in and not price_out:
        return known
    if not (0 < price_in < 1e6 and 0 < price_out < 1e6):
        raise InputError(
            "'price_in' and 'price_out' are US dollars per million tokens, both above 0"
        )
    return replace(known or Price(0.0, 0.0), read=float(price_in), written=float(price_out))


def _is(model: str, name: str) -> bool:
    """Whether ``model`` is ``name`` or ``name`` with a date."""
    rest = model.removeprefix(name)
    return rest != model and (
        not rest or (rest[0] == "-" and len(rest) == 9 and rest[1:].isdigit())
    )


BEFORE = "2023-06-01"
"""The API version that takes a temperature."""
BYTES_AROUND = 64
"""Tokens of a request besides its text, at most."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How a model is asked: its name, most tokens written, seconds a call may take, price (None:
    not known), and whether its words come as a stream."""

    model: str
    max_tokens: int
    timeout_s: float
    price: Price | None
    stream: bool = False


def tokens_at_most(request: Request) -> int:
    """Tokens of a request: never fewer than the model counts, as a token holds a byte or more."""
    return len(request.prompt.encode("utf-8", "replace")) + BYTES_AROUND


def about(characters: int) -> int:
    """Tokens that so many characters of English are likely to be, rather too many."""
    return -(-characters * 2 // 7)


class ClaudeAPI:
    """A connection to the Claude API or a gateway in its form, safe between threads."""

    def __init__(self, permit: Permit, key: Secret | None, asking: Asking) -> None:
        self.permit, self.asking = permit, asking
        self.service = permit.address.host
        self.temperature = asking.price is not None and asking.price.temperature
        self._key = key
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def client(self) -> Any:
        """The client, made on first use."""
        with self._lock:
            if self._client is None:
                import anthropic
                import httpx2

                quiet_clients()
                timeout = self.asking.timeout_s
                self._client = anthropic.Anthropic(
                    api_key=self._key.reveal() if self._key else "none",
                    base_url=self.permit.address.url,
                    max_retries=0,  # core.client.calls tries again, in step with the other calls
                    timeout=timeout,
                    http_client=httpx2.Client(timeout=timeout, **self.permit.client()),
                    open_telemetry=False,
                )
            return self._client

    def extra(self) -> dict[str, Any]:
        """What a request carries besides the client's own parameters."""
        return {"extra_headers": {"anthropic-version": BEFORE}} if self.temperature else {}

    def parameters(self, request: Request, cached: bool) -> dict[str, Any]:
        """A message's parameters; ``cached``: its start is kept in the prompt cache."""
        content: Any = request.prompt
        if cached:
            start = {"type": "text", "text": request.start, "cache_control": {"type": "ephemeral"}}
            content = [start, {"type": "text", "text": request.rest}]
        return {
            "model": self.asking.model,
            "max_tokens": self.asking.max_tokens,
            "messages": [{"role": "user", "content": content}],
        }

    def ask(self, request: Request, cached: bool = False) -> Said:
        """What the model says; raises CallFailed."""
        tempered = self.temperature
        try:
            return self.said(self._message(request, cached, tempered), "alone", tempered)
        except _NoTemperature:
            self.temperature = False
            return self.said(self._message(request, cached, False), "alone", False)

    def _message(self, request: Request, cached: bool, tempered: bool) -> Any:
        asked = self.parameters(request, cached)
        if tempered:
            asked |= {
                "extra_body": {"temperature": 0},
                "extra_headers": {"anthropic-version": BEFORE},
            }
        client = self.client
        try:
            if not self.asking.stream:
                return client.messages.create(**asked)
            with client.messages.stream(**asked) as stream:
                return stream.get_final_message()
        except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
            if tempered and _about_temperature(error):
                raise _NoTemperature from None
            raise self.worded(error) from None

    def worded(self, error: Exception) -> CallFailed:
        """An error of the client in Midchart's own words."""
        if getattr(error, "status_code", 0) == 400 and "credit balance" in _body(error):
            return CallFailed(f"{self.service} says that the account's credit is used up")
        return failure(error, self.service)

    def said(self, message: Any, how: str, tempered: bool) -> Said:
        """A message in the API's form, read; raises CallFailed for any other form."""
        content, usage = getattr(message, "content", None), getattr(message, "usage", None)
        read, written = getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)
        stopped = getattr(message, "stop_reason", None)
        if (
            not isinstance(content, list)
            or type(read) is not int
            or type(written) is not int
            or not isinstance(stopped, str)
        ):
            raise broken(self.service)
        texts = [getattr(part, "text", None) for part in content]  # thinking has no text
        text = "".join(part for part in texts if isinstance(part, str)).strip()
        cached = _count(usage, "cache_read_input_tokens")
        stored = _count(usage, "cache_creation_input_tokens")
        price = self.asking.price
        batch = how == "batch"
        cost = price.of(read, written, cached, stored, batch) if price is not None else None
        heat = "temperature 0" if tempered else "the model's own temperature"
        model = getattr(message, "model", None)
        used = Usage(
            model if isinstance(model, str) else self.asking.model,
            read + cached + stored,
            written,
            cached,
            cost,
            f"{how}, {heat}",
        )
        if not text and stopped == "max_tokens":
            raise Wordless(self.asking.max_tokens, used)
        return Said(text, used, stopped == "refusal")

    def most(self, request: Request, cached: bool = False, batch: bool = False) -> float:
        """The most that asking can cost in US dollars (0 where no price is known)."""
        price = self.asking.price
        if price is None:
            return 0.0
        tokens, written = tokens_at_most(request), self.asking.max_tokens
        stored = tokens if cached else 0
        return price.of(tokens - stored, written, stored=stored, batch=batch)


class Wordless(CallFailed):
    """The model used all its tokens before it said a word; what it used is to be paid."""

    def __init__(self, tokens: int, usage: Usage) -> None:
        super().__init__(
            f"the model used all {tokens} tokens before it said a word; give the judge a larger "
            "'max_tokens' (a model that thinks first needs a few thousand)"
        )
        self.usage = usage


class _NoTemperature(Exception):
    """The model refuses a temperature."""


def _body(error: Exception) -> str:
    """What the API wrote of an error: looked at, never passed on."""
    return str(getattr(error, "body", "")).lower()


def _about_temperature(error: Exception) -> bool:
    return getattr(error, "status_code", 0) == 400 and "temperature" in _body(error)


def _count(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return value if type(value) is int and value > 0 else 0
