"""Any provider of Inspect AI (UK AI Security Institute) as an engine, within a budget.

Inspect AI is optional (``pip install inspect-ai`` and the provider's own package) and imported by
name. Its clients are not ours, so what they may reach is held one level below them: they run on an
event loop in a separate thread, which connects to the permitted address alone. Their calls
have our time limit, retries and budget; their own retries, caches and batches are off. Requests of
the packages anthropic and openai are held as ours are, header by header. Three limits are not ours
to set: the bytes of an answer (its tokens are limited), the headers of other providers' packages,
and what a provider's package does in threads that it starts itself.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from midchart.core.client.calls import (
    Caller,
    CallFailed,
    RetryPolicy,
    broken_response,
    call_failure,
    error_body,
    map_concurrently,
    quiet_clients,
    read_as_utf8,
    reported_count,
)
from midchart.core.client.claude import (
    CallBudget,
    Dollars,
    Seconds,
    ServiceOptions,
    require_price,
    tokens_at_most,
)
from midchart.core.client.prices import Price, price_of
from midchart.core.client.requests import IndexedReply, Reply, Request
from midchart.core.egress import EgressCheck, Permit, read_address
from midchart.core.errors import EgressRefused, InputError, MissingModel, NotPermitted
from midchart.core.identity import by_name_alone
from midchart.core.text.reasoning import split_reasoning
from midchart.core.types import Ended, Usage

MOCK = "mockllm"
"""Inspect's provider that calls nobody."""
CLIENTS = frozenset({
    MOCK, "anthropic", "azureai", "bedrock", "cf", "fireworks", "google", "grok", "groq", "mistral",
    "ollama", "openai", "openai-api", "openrouter", "perplexity", "sambanova", "together",
})  # fmt: skip
"""Inspect's providers that send requests and do nothing else. Others load weights or start a server
(hf, vllm, sglang, transformer_lens), or are not known."""
_INSTALL = "pip install inspect-ai, and the provider's own package where it needs one"
_ENDS: Mapping[str, Ended] = {
    "stop": "stop",
    **dict.fromkeys(("max_tokens", "model_length"), "length"),
    "tool_calls": "tool",
    "content_filter": "filter",
}


class InspectFields(ServiceOptions):
    """Options of a model asked through Inspect AI, whatever asks it."""

    model: str = ""
    """Provider and model as Inspect AI names them, for example "google/gemini-2.5-pro"."""
    url: str = ""
    """The provider's address, which calls are held to: https://generativelanguage.googleapis.com"""
    timeout: Seconds = 300.0
    """Seconds a call may take."""
    budget_usd: float = Field(0.0, ge=0, lt=1e9)
    """US dollars that may be spent in a run; 0 is no limit."""
    price_in: Dollars = 0.0
    """US dollars per million tokens read."""
    price_out: Dollars = 0.0
    """US dollars per million tokens written."""
    arguments: dict[str, Any] = Field({})
    """Arguments of the provider, as Inspect AI's documentation names them; the account's alone."""

    @property
    def address(self) -> str:
        """The server that is called; "" for the mock provider, which calls nobody."""
        return self.url

    @property
    def price(self) -> Price | None:
        """By the options, else by the table of Claude's prices."""
        return price_of(self.model.rpartition("/")[2], self.price_in, self.price_out)

    def require_for_person(self) -> None:
        """Raise NotPermitted where the account alone may ask this model, and another person asks.

        A provider's arguments name files and code of this machine, as do weights that it loads.
        """
        if not by_name_alone():
            return
        provider = self.model.partition("/")[0]
        if self.arguments:
            raise NotPermitted(
                "'arguments' of 'inspect' are for the command line of this installation's account"
            )
        if provider not in CLIENTS:
            raise NotPermitted(
                f"the provider {provider!r} of 'inspect' may load weights or start a server here; "
                "it is for the command line of this installation's account. Others may use "
                + ", ".join(sorted(CLIENTS))
            )

    def require(self, component: str) -> None:
        """Raise InputError or MissingModel where the model cannot be asked; opens no connection.

        ``component``: what asks it, in words ("reader 'inspect'"). Raises NotPermitted as
        :meth:`require_for_person` does.
        """
        provider, _, name = self.model.partition("/")
        if not (provider and name):
            raise InputError(
                f"the {component} needs 'model', provider and name as Inspect AI has them, like "
                '"google/gemini-2.5-pro"'
            )
        self.require_for_person()
        for name in ("base_url", "api_key"):
            if name in self.arguments:
                raise InputError(f"{name!r} is no argument of a provider here: use 'url' and a key")
        if provider == MOCK and self.url:
            raise InputError(f"the provider {MOCK} calls nobody; leave 'url' out")
        if provider != MOCK:
            if not self.url:
                raise InputError(
                    f"the {component} needs 'url', the address of the provider {provider}: calls "
                    "are held to it, and allow_hosts names its host"
                )
            read_address(self.url)
        require_price(component, self.model, self.price, self.budget_usd)
        if importlib.util.find_spec("inspect_ai") is None:
            raise MissingModel(f"the {component} needs the package inspect-ai; get it: {_INSTALL}")


class _HeldLoop(asyncio.SelectorEventLoop):
    """An event loop that connects to one address and to nothing else (None: to nothing)."""

    def __init__(self, permit: Permit | None) -> None:
        super().__init__()
        self._permit = permit
        self._resolved: set[str] = set()

    def run_held(self) -> None:
        """Run the loop in this thread, and hold synchronous calls of this thread too."""
        if not _HELD:
            sys.addaudithook(_audit)
        _HELD[threading.get_ident()] = self
        self.run_forever()

    def hold(self, host: Any, port: Any) -> None:
        """Raise EgressRefused for any other address than the permitted one."""
        name = host.decode() if isinstance(host, bytes) else str(host)
        held = self._permit.address if self._permit is not None else None
        known = held is not None and (name.lower() == held.host or name in self._resolved)
        if held is None or not known or int(port or 0) != held.port:
            raise EgressRefused(
                "a connection to another address than the permitted "
                f"{held.host if held is not None else 'none'} was stopped"
            )
        if self._permit is not None:
            self._permit.ask_again()

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        self.hold(host, port)
        addresses = await super().getaddrinfo(host, port, **options)
        self._resolved |= {str(one[4][0]) for one in addresses}
        return addresses

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        if host is not None:
            self.hold(host, port)
        return await super().create_connection(protocol_factory, host, port, **options)

    async def sock_connect(self, sock: Any, address: Any) -> Any:
        self.hold(*address[:2])
        return await super().sock_connect(sock, address)

    async def create_unix_connection(self, *arguments: Any, **options: Any) -> Any:
        raise EgressRefused("a connection to a socket of this machine was stopped")

    async def create_datagram_endpoint(self, *arguments: Any, **options: Any) -> Any:
        raise EgressRefused("a connection without a permitted address was stopped")


_HELD: dict[int, _HeldLoop] = {}
"""Threads by number → the loop that runs there."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """The hook by which Python asks before a connection: holds the threads of held loops."""
    if event not in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        return
    loop = _HELD.get(threading.get_ident())
    if loop is not None:
        address = arguments[:2] if event == "socket.getaddrinfo" else arguments[1]
        loop.hold(*(address if isinstance(address, tuple) else (address, 0))[:2])


class InspectModel:
    """A model of Inspect AI on its own event loop, safe between threads."""

    def __init__(
        self, permit: Permit | None, options: InspectFields, max_tokens: int, reasoning_tokens: int
    ) -> None:
        self.options, self.max_tokens = options, max_tokens + reasoning_tokens
        self.reasoning_tokens = reasoning_tokens
        self.price = options.price
        self.service = permit.address.host if permit is not None else MOCK
        self.temperature = True
        """Whether the model takes one, as far as is known."""
        self._permit = permit
        self._loop = _HeldLoop(permit)
        threading.Thread(target=self._loop.run_held, name="inspect", daemon=True).start()
        self._model = self._run(self._open())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine on the loop, within the time limit; raises CallFailed."""
        waiting = asyncio.run_coroutine_threadsafe(
            asyncio.wait_for(work, self.options.timeout), self._loop
        )
        try:
            return waiting.result()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise _failure(error, self.service) from None

    async def _open(self) -> Any:
        inspect: Any = importlib.import_module("inspect_ai.model")
        quiet_clients()
        permit = self._permit
        if permit is None:
            return inspect.get_model(self.options.model, memoize=False, **self.options.arguments)
        key = permit.key()  # the one that the installation's owner gave to this address
        model = inspect.get_model(
            self.options.model,
            base_url=permit.address.url,
            api_key=key.reveal() if key else "none",
            memoize=False,
            **self.options.arguments,
        )
        sdk: Any = getattr(model.api, "client", None)
        if hasattr(sdk, "max_retries"):
            sdk.max_retries = 0  # core.client.calls retries, in step with the other calls
        _hold_requests(sdk, permit)
        return model

    def ask(self, request: Request) -> Reply:
        """The model's reply; raises CallFailed, and EgressRefused where it may no longer be asked.

        The clients of some providers have no hook before a request, so it is asked about first.
        """
        if self._permit is not None:
            self._permit.ask_again()
        tempered = self.temperature
        try:
            output = self._run(self._generate(request, tempered))
        except _TemperatureRefused:
            self.temperature = tempered = False
            output = self._run(self._generate(request, tempered))
        return self._read(output, tempered)

    async def _generate(self, request: Request, tempered: bool) -> Any:
        inspect: Any = importlib.import_module("inspect_ai.model")
        messages = [inspect.ChatMessageUser(content=request.prompt)]
        if request.system:
            messages.insert(0, inspect.ChatMessageSystem(content=request.system))
        chosen: dict[str, Any] = {"temperature": 0} if tempered else {}
        if self.options.reasoning_effort:
            chosen["reasoning_effort"] = self.options.reasoning_effort
        if self.reasoning_tokens:
            chosen["reasoning_tokens"] = self.reasoning_tokens
        config = inspect.GenerateConfig(
            max_tokens=self.max_tokens,
            max_retries=0,
            max_connections=self.options.concurrency,
            cache=False,
            cache_prompt=False,
            **chosen,
        )
        try:
            return await self._model.generate(messages, config=config)
        except Exception as error:
            cause = _cause(error)
            refused = getattr(cause, "status_code", 0) in (400, 422)
            if tempered and refused and "temperature" in error_body(cause):
                raise _TemperatureRefused from None
            raise

    def _read(self, output: Any, tempered: bool) -> Reply:
        """The reply in a model output; raises CallFailed for any other form than Inspect's."""
        if getattr(output, "error", None) or not getattr(output, "choices", None):
            raise broken_response(self.service)
        ended = _ENDS.get(output.stop_reason)
        if ended is None:
            raise CallFailed(
                f"{self.service} ended an answer for a reason that Midchart does not know",
                billed=True,
            )
        content = output.choices[0].message.content
        parts = [] if isinstance(content, str) else content
        reasoning = "".join(str(getattr(part, "reasoning", "") or "") for part in parts).strip()
        text = str(output.completion)
        if not reasoning:
            reasoning, text = split_reasoning(text)
        text = text.strip()
        if not text and ended == "stop":
            ended = "empty"
        usage = output.usage
        names = ("input_tokens_cache_read", "input_tokens_cache_write")
        counts = [
            *(reported_count(usage, name) for name in ("input_tokens", "output_tokens")),
            *(reported_count(usage, name, missing=0) for name in names),
        ]
        read, written, cached, stored = (count or 0 for count in counts)
        known = self.price is not None and None not in counts
        cost = self.price.of(read, written, cached, stored) if self.price and known else None
        how = "alone, temperature 0" if tempered else "alone, the model's own temperature"
        model = str(output.model or self.options.model)
        used = Usage(model, read + cached + stored, written, cached, cost, how)
        reply = Reply(text, used, ended, reasoning, reported_count(usage, "reasoning_tokens") or 0)
        return reply if self._permit is None else self._permit.without_key(reply)

    def max_cost(self, request: Request) -> float:
        """An upper bound of a request's cost in US dollars (0 where no price is known)."""
        return self.price.of(tokens_at_most(request), self.max_tokens) if self.price else 0.0


def _hold_requests(sdk: Any, permit: Permit) -> None:
    """Hold each request of a provider's client to a permit, and have its responses read as UTF-8,
    where the client is one of httpx."""
    http: Any = getattr(sdk, "_client", None)
    hooks = getattr(http, "event_hooks", None)
    if not isinstance(hooks, dict):
        return

    async def hold(request: Any) -> None:
        permit.hold(request)

    async def read(response: Any) -> None:
        read_as_utf8(response)

    both = {"request": hold, "response": read}
    http.event_hooks = {name: [*hooks.get(name, ()), hook] for name, hook in both.items()}


class _TemperatureRefused(Exception):
    """The model refuses a temperature."""


def _cause(error: BaseException) -> BaseException:
    """The error that a retry of Inspect's gave up on."""
    attempt = getattr(error, "last_attempt", None)
    inner = attempt.exception() if attempt is not None else None
    return inner if isinstance(inner, BaseException) else error


def _failure(error: BaseException, service: str) -> BaseException:
    """An error as a CallFailed, but for what asks for another call; texts are not passed on."""
    cause = _cause(error)
    if isinstance(cause, _TemperatureRefused):
        return cause
    if type(cause).__name__ == "PrerequisiteError":
        return CallFailed(
            "Inspect AI lacks the package or the setting that this provider needs; install the "
            "provider's package and set its options"
        )
    return call_failure(cause, service)


class InspectEngine:
    """A model of Inspect AI behind a judge or a reader.

    Raises NotPermitted where the account alone may ask it, and another person does.
    log: where a run notes what was spent (None: no log). watch: raises to end the wait.
    """

    streams = True

    def __init__(
        self,
        options: InspectFields,
        max_tokens: int,
        egress: EgressCheck,
        log: Path | None,
        watch: Callable[[str], None],
        reasoning_tokens: int = 0,
    ) -> None:
        options.require_for_person()
        self.options, self.egress, self.log, self.watch = options, egress, log, watch
        self.tokens = (max_tokens, reasoning_tokens)
        self.group = max(4 * options.concurrency, 16)
        self._caller = Caller(RetryPolicy(options.retries))
        self._connected: tuple[InspectModel, CallBudget] | None = None

    def _open(self) -> tuple[InspectModel, CallBudget]:
        if self._connected is None:
            url = self.options.address
            permit = self.egress.permit(url) if url else None
            model = InspectModel(permit, self.options, *self.tokens)
            self._connected = model, CallBudget(self.log, self.options.budget_usd)
        return self._connected

    def ask_many(self, requests: Iterable[Request]) -> Generator[IndexedReply]:
        """Each request's index and its reply or failure, in order of completion."""
        model, budget = self._open()  # before any thread: a refusal concerns the whole group
        stop = threading.Event()
        budget.charge_lost()

        def once(request: Request) -> Reply:
            return budget.pay(model.max_cost(request), lambda: model.ask(request))

        def ask(request: Request) -> Reply:
            start = time.perf_counter()
            reply = self._caller.call(lambda: once(request), stop)
            return replace(reply, seconds=time.perf_counter() - start)

        workers = self.options.concurrency
        with closing(
            map_concurrently(requests, ask, workers, stop, lambda: self.watch(""))
        ) as finished:
            yield from finished
