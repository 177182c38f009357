"""Claude: single calls within a budget.

Every prompt is one call, ``concurrency`` at a time; prompts that share a start worth caching are
sent one after another. Temperature is 0 for the models that take one, in the API's version that
does. Before each call its highest possible cost is reserved, afterwards its cost is recorded; both
are lines of a log in the run's folder, so the calls of a killed worker count, at their highest,
when the run is resumed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from midchart.core import config as settings
from midchart.core.client.calls import (
    Caller,
    CallFailed,
    RetryPolicy,
    broken_response,
    call_failure,
    error_body,
    map_concurrently,
    quiet_clients,
    reported_count,
)
from midchart.core.client.prices import Price, estimated_tokens, price_of, require_current
from midchart.core.client.requests import IndexedReply, Reply, Request
from midchart.core.config import Secret
from midchart.core.egress import Address, EgressCheck, Permit, key_at, read_address
from midchart.core.errors import EgressRefused, InputError, MidchartError, MissingKey
from midchart.core.options import Options
from midchart.core.storage.jsonl import add_line, read_lines
from midchart.core.types import Ended, Usage

CLAUDE_URL = "https://api.anthropic.com"
HAIKU = "claude-haiku-4-5-20251001"
Seconds = Annotated[float, Field(gt=0, lt=86_400)]
Dollars = Annotated[float, Field(ge=0, lt=1e6)]


class ServiceOptions(Options):
    """Options of every component that asks a language model of a service."""

    model: str = ""
    """The model's name at its service."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """Concurrent calls."""
    timeout: Seconds = 60.0
    """Seconds a call may take."""
    retries: Annotated[int, Field(ge=0, le=100)] = 5
    """Tries after the first, with backoff."""
    reasoning_effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"] = ""
    """How much the model reasons, of those values that it takes; "" leaves it to the model."""


class ClaudeFields(ServiceOptions):
    """Options of Claude, whatever asks it."""

    model: str = HAIKU
    """The model's id."""
    base_url: str = CLAUDE_URL
    """The API, or a gateway with the same interface."""
    budget_usd: Annotated[float, Field(ge=0, lt=1e9)] = 0.0
    """US dollars that may be spent in a run; 0 is no limit."""
    price_in: Dollars = 0.0
    """US dollars per million tokens read, where the built-in table does not apply."""
    price_out: Dollars = 0.0
    """US dollars per million tokens written, where the built-in table does not apply."""

    @property
    def address(self) -> str:
        """The server that is called."""
        return self.base_url

    @property
    def price(self) -> Price | None:
        """By the options, else by the built-in table."""
        return price_of(self.model, self.price_in, self.price_out)

    def require(self, component: str) -> None:
        """Raise InputError or MissingKey where the model cannot be asked; opens no connection.
        ``component``: what asks it, in words."""
        if not self.model:
            raise InputError(f"'model' of the {component} is empty; the default is {HAIKU}")
        address = read_address(self.base_url, "base_url")
        if self.base_url.rstrip("/") == CLAUDE_URL:
            require_current(self.model, date.today())
        require_price(component, self.model, self.price, self.budget_usd)
        claude_key(address)


def require_price(component: str, model: str, price: Price | None, budget_usd: float) -> None:
    """Raise InputError for a budget without a price to keep it by."""
    if price is None and budget_usd:
        raise InputError(
            f"no price of {model} is known, so a budget cannot be kept: give the {component} "
            "'price_in' and 'price_out', US dollars per million tokens"
        )


def claude_key(address: Address) -> Secret | None:
    """The key of the Claude API where it belongs to an address; a gateway may need none. Raises
    MissingKey."""
    key = key_at(address, settings.CLAUDE_KEY)
    if key is None and address.host == settings.CLAUDE_HOST:
        raise MissingKey(
            f"{settings.CLAUDE_KEY} is not set; put it in the environment or in "
            ".streamlit/secrets.toml"
        )
    return key


Work = Literal["judging", "reading"]


def call_log(folder: Path | None, label: str, work: Work = "judging") -> Path | None:
    """The log of a judge's or reader's budget in a run's folder; None outside a run."""
    if folder is None:
        return None
    return folder / work / f"{blake2b(label.encode(), digest_size=8).hexdigest()}.jsonl"


class BudgetSpent(CallFailed):
    """The next call could exceed the budget."""


class CallBudget:
    """The budget of one judge or reader in one run, resumes included, safe between threads.

    ``file``: its log (None: in memory only). ``budget_usd``: US dollars; 0 is no limit, and nothing
    is reserved then.
    """

    def __init__(self, file: Path | None, budget_usd: float = 0.0) -> None:
        self.file, self.limit = file, budget_usd
        self.spent = 0.0
        self._reserved: dict[str, float] = {}
        self._changed = threading.Condition()
        for line in read_lines(file) if file is not None else ():
            if line.get("event") == "reserved":
                self._reserved[line["id"]] = line["usd"]
            elif line.get("event") == "spent":
                self._reserved.pop(line["id"], None)
                self.spent += line["usd"]
            elif line.get("event") == "budget" and self.limit:
                self.limit = line["usd"]  # raised when the run was resumed

    @property
    def reserved(self) -> float:
        """US dollars reserved for calls whose cost is not known."""
        with self._changed:
            return sum(self._reserved.values())

    def charge_lost(self) -> None:
        """Count a killed worker's reservations as spent."""
        for claim in list(self._reserved):
            self.charge(claim)

    def reserve(self, most: float) -> str:
        """Reserve a call's highest cost, waiting while calls under way may release something;
        returns the reservation's id. Raises BudgetSpent."""
        claim = secrets.token_hex(8)
        with self._changed:
            while self.limit and most > (left := self.limit - self.spent) - sum(
                self._reserved.values()
            ):
                if most > left or not self._reserved:
                    raise BudgetSpent(
                        f"the budget of ${self.limit:.4f} is used up: ${self.spent:.4f} spent, and "
                        f"this call could cost ${most:.4f}; resume the run with a larger --budget "
                        "to go on"
                    )
                self._changed.wait()
            self._reserved[claim] = most
        if self.limit:
            self._note("reserved", id=claim, usd=most)
        return claim

    def charge(self, claim: str, cost: float | None = None) -> None:
        """Record the cost of a reservation's call; None leaves it at the amount reserved."""
        usd = self._reserved[claim] if cost is None else cost
        self._note("spent", id=claim, usd=usd)
        with self._changed:
            del self._reserved[claim]
            self.spent += usd
            self._changed.notify_all()

    def pay(self, most: float, ask: Callable[[], Reply]) -> Reply:
        """The reply of a call of at most such a cost, which is recorded: of a failed call nothing,
        or the most where the service may charge for it. Raises as ``ask``, and BudgetSpent."""
        claim = self.reserve(most)
        cost: float | None = None
        try:
            reply = ask()
            cost = reply.usage.cost_usd
            return reply
        except (CallFailed, EgressRefused) as failed:
            cost = None if getattr(failed, "billed", False) else 0.0
            raise
        finally:
            self.charge(claim, cost)

    def _note(self, event: str, **facts: Any) -> None:
        if self.file is not None:
            add_line(self.file, {"event": event, **facts})


_BEFORE = "2023-06-01"
"""The API version that takes a temperature."""
_BYTES_AROUND = 64
"""Upper bound of the tokens that a request has in addition to its text."""


def tokens_at_most(request: Request) -> int:
    """An upper bound of a request's tokens, as a token holds at least one byte."""
    return len((request.system + request.prompt).encode("utf-8", "replace")) + _BYTES_AROUND


_ENDS: Mapping[str, Ended] = {
    **dict.fromkeys(("end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
    "tool_use": "tool",
    "refusal": "refusal",
}
"""What the API calls the end of an answer."""


class _NoTemperature(Exception):
    """The model refuses a temperature."""


def _about(subject: str, error: Exception) -> bool:
    """Whether the API refused a request and its reason names ``subject``."""
    return getattr(error, "status_code", 0) == 400 and subject in error_body(error)


class ClaudeEngine:
    """The Claude API, or a compatible gateway, behind a judge or a reader; safe between threads.

    max_tokens: most tokens of a text, after at most thinking_tokens of thinking. watch: is called
    while calls are waited for, and raises to end the wait.
    """

    def __init__(
        self,
        options: ClaudeFields,
        max_tokens: int,
        egress: EgressCheck,
        log: Path | None,
        watch: Callable[[str], None],
        thinking_tokens: int = 0,
    ) -> None:
        self.options, self.egress, self.log, self.watch = options, egress, log, watch
        self.max_tokens, self.thinking_tokens = max_tokens + thinking_tokens, thinking_tokens
        self.price = options.price
        # A model that thinks takes no temperature.
        self.temperature = bool(self.price and self.price.temperature and not thinking_tokens)
        self.group, self.streams = max(4 * options.concurrency, 16), True
        self._caller = Caller(RetryPolicy(options.retries))
        self._connected: tuple[Permit, Any, CallBudget] | None = None

    def _open(self) -> tuple[Permit, Any, CallBudget]:
        """What the address may be sent, the client, and the budget; made at the first request."""
        if self._connected is None:
            import anthropic

            from midchart.core.client.limits import LimitedClient

            permit = self.egress.permit(self.options.base_url, "base_url")
            key, timeout = claude_key(permit.address), self.options.timeout
            quiet_clients()
            client = anthropic.Anthropic(
                api_key=key.reveal() if key else "none",
                base_url=permit.address.url,
                max_retries=0,  # core.client.calls retries, in step with the other calls
                timeout=timeout,
                http_client=LimitedClient(permit.address.host, timeout, **permit.client()),
                open_telemetry=False,
            )
            self._connected = permit, client, CallBudget(self.log, self.options.budget_usd)
        return self._connected

    def _parameters(self, request: Request, cached: bool, tempered: bool) -> dict[str, Any]:
        """A message's parameters; ``cached``: its start is stored in the prompt cache."""
        content: Any = request.prompt
        if cached:
            start = {"type": "text", "text": request.start, "cache_control": {"type": "ephemeral"}}
            content = [start, {"type": "text", "text": request.rest}]
        parameters: dict[str, Any] = {
            "model": self.options.model,
            "max_tokens": self.max_tokens,
            "messages": [{"role": "user", "content": content}],
        }
        if request.system:
            parameters["system"] = request.system
        if self.thinking_tokens:
            thinking = {"type": "enabled", "budget_tokens": self.thinking_tokens}
            parameters["thinking"] = thinking
        if self.options.reasoning_effort:
            parameters["output_config"] = {"effort": self.options.reasoning_effort}
        if tempered:
            parameters["extra_body"] = {"temperature": 0}
            parameters["extra_headers"] = {"anthropic-version": _BEFORE}
        return parameters

    def ask(self, request: Request, cached: bool = False) -> Reply:
        """The model's reply; raises CallFailed."""
        tempered = self.temperature
        try:
            message = self._message(request, cached, tempered)
        except _NoTemperature:
            self.temperature = tempered = False
            message = self._message(request, cached, tempered)
        return self._read(message, tempered)

    def _message(self, request: Request, cached: bool, tempered: bool) -> Any:
        permit, client, _ = self._open()
        try:
            return client.messages.create(**self._parameters(request, cached, tempered))
        except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
            if tempered and _about("temperature", error):
                raise _NoTemperature from None
            service = permit.address.host
            if _about("credit balance", error):
                used_up = f"{service} says that the account's credit is used up"
                raise CallFailed(used_up) from None
            raise call_failure(error, service) from None

    def _read(self, message: Any, tempered: bool) -> Reply:
        """The reply in a message; raises CallFailed for any other form than the API's."""
        permit = self._open()[0]
        content, usage = getattr(message, "content", None), getattr(message, "usage", None)
        counts = [
            *(reported_count(usage, f"{name}_tokens") for name in ("input", "output")),
            *(
                reported_count(usage, f"cache_{name}_input_tokens", missing=0)
                for name in ("read", "creation")
            ),
        ]
        stopped = getattr(message, "stop_reason", None)
        if not isinstance(content, list) or not isinstance(stopped, str) or None in counts:
            raise broken_response(permit.address.host)
        read, written, cached, stored = (count or 0 for count in counts)
        ended = _ENDS.get(stopped)
        if ended is None:
            raise CallFailed(
                f"{permit.address.host} ended an answer for a reason that Midchart does not know",
                billed=True,
            )
        text, reasoning = (
            "".join(t for part in content if isinstance(t := getattr(part, name, ""), str)).strip()
            for name in ("text", "thinking")
        )
        cost = self.price.of(read, written, cached, stored) if self.price else None
        temperature = "temperature 0" if tempered else "the model's own temperature"
        used, tokens = str(getattr(message, "model", "")), read + cached + stored
        usage = Usage(used, tokens, written, cached, cost, f"alone, {temperature}")
        if not text and ended == "stop":
            ended = "empty"
        return permit.without_key(Reply(text, usage, ended, reasoning))

    def max_cost(self, request: Request, cached: bool = False) -> float:
        """An upper bound of a request's cost in US dollars (0 where no price is known)."""
        if self.price is None:
            return 0.0
        tokens, written = tokens_at_most(request), self.max_tokens
        stored = tokens if cached else 0
        return self.price.of(tokens - stored, written, stored=stored)

    def ask_many(self, requests: Iterable[Request]) -> Generator[IndexedReply]:
        """Each request's index and its reply or failure, in order of completion."""
        budget, stop = self._open()[2], threading.Event()
        budget.charge_lost()

        def chains() -> Generator[list[tuple[int, Request]]]:
            numbered = enumerate(requests)
            while group := list(islice(numbered, self.group)):
                for chain in cache_chains([request for _, request in group], self.price):
                    yield [group[place] for place in chain]

        def ask(request: Request, cached: bool) -> Reply:
            most, start = self.max_cost(request, cached), time.perf_counter()
            paid = partial(budget.pay, most, partial(self.ask, request, cached))
            return replace(self._caller.call(paid, stop), seconds=time.perf_counter() - start)

        def ask_chain(chain: Sequence[tuple[int, Request]]) -> list[IndexedReply]:
            replies: list[IndexedReply] = []
            for index, request in chain:
                try:
                    replies.append((index, ask(request, len(chain) > 1)))
                except MidchartError as error:
                    replies.append((index, error))
            return replies

        workers = self.options.concurrency
        with closing(
            map_concurrently(chains(), ask_chain, workers, stop, lambda: self.watch(""))
        ) as finished:
            for _, replies in finished:
                if isinstance(replies, MidchartError):
                    raise replies
                yield from replies


def cache_chains(requests: Sequence[Request], price: Price | None) -> list[list[int]]:
    """Indices of requests, grouped where a shared start is worth caching, else one by one: storing
    costs a quarter more than reading, a hit a tenth."""
    least = price.cached_from if price is not None else 0
    shared: dict[str, list[int]] = {}
    chains: list[list[int]] = []
    for index, request in enumerate(requests):
        if not least or estimated_tokens(len(request.start)) < least:
            chains.append([index])
            continue
        if request.start not in shared:
            shared[request.start] = []
            chains.append(shared[request.start])
        shared[request.start].append(index)
    return chains
