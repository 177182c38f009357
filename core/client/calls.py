"""Concurrent calls to a service that may be slow, busy or broken, with retries.

Backoff is exponential with full jitter; a service's Retry-After takes precedence, and applies to
all calls to that service.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from typing import Any, TypeVar

from midchart.core.errors import EgressRefused, MidchartError, WorkFailed


class CallFailed(WorkFailed):
    """A failed call.

    retryable: another try may succeed, after ``wait_s`` if given. billed: the service may have
    done the work and may charge for it. unreachable: no connection could be made.
    """

    def __init__(
        self,
        reason: str,
        retryable: bool = False,
        wait_s: float | None = None,
        billed: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(reason)
        self.retryable, self.wait_s = retryable, wait_s
        self.billed, self.unreachable = billed, unreachable


def _retry_after(headers: Any) -> float | None:
    """Seconds that a response's ``retry-after-ms`` or ``retry-after`` header asks to wait."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        with suppress(ValueError):  # a date
            seconds = float(text) / scale
            if 0.0 <= seconds < float("inf"):
                return seconds
    return None


_RETRYABLE = frozenset({408, 409, 425, 429})


def call_failure(error: BaseException, service: str) -> CallFailed:
    """An error of a client (anthropic, Inspect's openai, httpx2) as a CallFailed, recognised by its
    name without an import; ``service``: its name in messages."""
    step: BaseException | None = error
    while step is not None:
        if isinstance(step, CallFailed):
            return step
        if isinstance(step, EgressRefused):
            return CallFailed(str(step))
        step = step.__cause__
    status = getattr(error, "status_code", None)
    kind = type(error).__name__
    if isinstance(status, int) and kind != "APIResponseValidationError":
        status = 500 if status < 300 else status  # an error inside a stream that began well
        if status < 400:
            return CallFailed(
                f"{service} sends requests on to another address (status {status}); redirects are "
                "not followed"
            )
        phrase = next((f" {one.phrase}" for one in HTTPStatus if one == status), "")
        retryable = status in _RETRYABLE or (status >= 500 and status not in (501, 505))
        headers = getattr(getattr(error, "response", None), "headers", {})
        wait_s = _retry_after(headers) if retryable else None
        return CallFailed(f"{service} answers {status}{phrase}", retryable, wait_s)
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & {"APITimeoutError", "TimeoutException"} or isinstance(error, TimeoutError):
        return CallFailed(f"{service} did not answer in time", True, billed=True)
    if names & {"APIConnectionError", "TransportError"} or isinstance(error, OSError):
        cause = type(error.__cause__ or error).__name__
        unreachable = cause.startswith("Connect")  # no connection, no work
        reason = f"{service} cannot be reached ({cause})"
        return CallFailed(reason, True, billed=not unreachable, unreachable=unreachable)
    if isinstance(error, RecursionError):
        return CallFailed(f"{service} sent an answer that is nested too deeply", billed=True)
    if "APIResponseValidationError" in names or isinstance(error, ValueError):
        return broken_response(service)
    return CallFailed(f"the call to {service} failed ({kind})", billed=True)


def broken_response(service: str) -> CallFailed:
    """A response that is cut off or malformed; another try may succeed."""
    return CallFailed(f"{service} sent a broken answer", True, billed=True)


def read_as_utf8(response: Any) -> None:
    """Have a client's package read a response as UTF-8, whatever charset the server names: some
    take time in the square of the text's length."""
    response.encoding = "utf-8"


def error_body(error: BaseException) -> str:
    """The body of an error response in lower case: inspected, never passed on."""
    return str(getattr(error, "body", "")).lower()


LARGEST_COUNT = 1 << 32
"""Larger counts are no server's: rows take the sum of two million such counts."""


def reported_count(part: Any, name: str, missing: int | None = None) -> int | None:
    """A number, of tokens or prompts, that a part of a response, an object or JSON, reports:
    ``missing`` where it reports none, None for what is no whole number from 0 to
    :data:`LARGEST_COUNT`."""
    value = part.get(name) if isinstance(part, dict) else getattr(part, name, None)
    if value is None:
        return missing
    return value if type(value) is int and 0 <= value <= LARGEST_COUNT else None


A = TypeVar("A")
B = TypeVar("B")
_UNREACHABLE_LIMIT = 3
"""Unreachable calls in a row after which further ones are not retried."""
_POLL_S = 1.0
"""Seconds between two calls of ``poll`` while a result is awaited."""


_NEVER = threading.Event()
"""The event of calls that nothing stops."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries after the first try, and seconds between tries, each uniform between zero and its
    longest (``first_s``, doubled up to ``max_s``); a service that asks for a longer Retry-After
    than ``max_retry_after_s`` fails the call."""

    retries: int = 5
    first_s: float = 0.5
    max_s: float = 30.0
    max_retry_after_s: float = 120.0


class Caller:
    """Retries calls to one service, in step with its other calls. Safe between threads."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self._random = Random(0)  # jitter only: it changes no result
        self._lock = threading.Lock()
        self._wait_until = 0.0
        self._unreachable = 0

    def call(self, ask: Callable[[], B], stop: threading.Event = _NEVER) -> B:
        """The result of ``ask()``, which raises CallFailed as :func:`call_failure` words it; raises
        CallFailed after the last try, and once ``stop`` is set."""
        tried, retries = 0, self.policy.retries
        while True:
            _pause(self._wait_until - time.monotonic(), stop)
            try:
                result = ask()
                self._unreachable = 0
                return result
            except CallFailed as failed:
                if not failed.retryable:
                    raise
                if failed.unreachable and (
                    tried == retries or self._unreachable >= _UNREACHABLE_LIMIT
                ):
                    self._unreachable += 1
                    raise CallFailed(str(failed), unreachable=True) from None
                if tried == retries:
                    tries = f" ({tried + 1} tries)" if tried else ""
                    raise CallFailed(f"{failed}{tries}", billed=failed.billed) from None
                if failed.wait_s is not None:
                    self._delay_all(failed, failed.wait_s)
                _pause(self._backoff(tried), stop)
                tried += 1

    def _delay_all(self, failed: CallFailed, seconds: float) -> None:
        """Hold back every call to this service for the seconds it asks."""
        longest = self.policy.max_retry_after_s
        if seconds > longest:
            raise CallFailed(
                f"{failed}; it asks to wait {seconds:.0f} s, more than the {longest:.0f} s this "
                "run waits; resume it later"
            )
        with self._lock:
            self._wait_until = max(self._wait_until, time.monotonic() + seconds)

    def _backoff(self, tried: int) -> float:
        longest = min(self.policy.first_s * 2.0**tried, self.policy.max_s)
        with self._lock:
            return self._random.uniform(0.0, longest)


def _pause(seconds: float, stop: threading.Event) -> None:
    if stop.wait(max(seconds, 0.0)):
        raise WorkFailed("the run was stopped")


def map_concurrently(
    items: Iterable[A],
    work: Callable[[A], B],
    workers: int,
    stop: threading.Event,
    poll: Callable[[], None] = lambda: None,
) -> Generator[tuple[int, B | MidchartError]]:
    """``work`` on every item, ``workers`` at a time: (index, result) in order of completion.

    Items are taken as workers are free, by one thread at a time. A MidchartError is the result of
    its item; any other error of ``work`` or of ``items`` is raised here. ``poll`` is called every
    second while nothing finishes and may raise to end the wait. Closing the iterator sets ``stop``;
    calls under way are left to end by themselves.
    """
    source, taking = iter(enumerate(items)), threading.Lock()
    ready: queue.SimpleQueue[tuple[int, Any, BaseException | None] | None] = queue.SimpleQueue()
    started = ended = 0

    def begin() -> None:
        nonlocal started
        started += 1
        # A daemon: a call that hangs must not keep a stopped worker process alive.
        threading.Thread(target=worker, name="call", daemon=True).start()

    def taken() -> tuple[int, A] | None:
        with taking:
            pair = None if stop.is_set() else next(source, None)
            if pair is not None and started < workers:
                begin()
            return pair

    def worker() -> None:
        try:
            while (pair := taken()) is not None:
                index, item = pair
                try:
                    ready.put((index, work(item), None))
                except MidchartError as error:
                    ready.put((index, None, error))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            ready.put((-1, None, error))
        ready.put(None)  # the end of this thread

    begin()
    try:
        while ended < started:
            try:
                finished = ready.get(timeout=_POLL_S)
            except queue.Empty:
                poll()
                continue
            if finished is None:
                ended += 1
                continue
            index, result, error = finished
            if index < 0 and error is not None:
                raise error
            yield index, error if isinstance(error, MidchartError) else result
    finally:
        stop.set()


def quiet_clients() -> None:
    """Disable the clients' debug logging, which writes prompts and headers.

    Called after a client's package is imported, as the import may enable logging.
    """
    for name in ("anthropic", "openai", "httpx2", "httpcore2", "httpx", "httpcore", "inspect_ai"):
        logging.getLogger(name).setLevel(logging.WARNING)
