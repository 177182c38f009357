"""Calls to a service that may be slow, busy or broken: several at once, tried again with patience.

Backoff is exponential with full jitter, and a service's own Retry-After goes before it; when one
call is told to wait, all calls to that service do.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from core.errors import EgressRefused, MidchartError, WorkFailed

# A call to a service that came to nothing, in Midchart's own words.


class CallFailed(WorkFailed):
    """A call that came to nothing.

    again: another try may help, after ``wait_s`` if said. billed: the service may have done the
    work and may charge for it. away: nobody is there at all.
    """

    def __init__(
        self,
        reason: str,
        again: bool = False,
        wait_s: float | None = None,
        billed: bool = False,
        away: bool = False,
    ) -> None:
        super().__init__(reason)
        self.again, self.wait_s, self.billed, self.away = again, wait_s, billed, away


def retry_after(headers: Any) -> float | None:
    """Seconds that a response's ``retry-after-ms`` or ``retry-after`` header asks to wait."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) / scale
        except ValueError:
            date = parsedate_tz(text)
            seconds = mktime_tz(date) - time.time() if date else -1.0
        if 0.0 <= seconds < float("inf"):
            return seconds
    return None


_STATUS: dict[int, str] = {
    400: "does not accept the request",
    401: "does not accept the key",
    402: "asks for payment",
    403: "does not allow this key the request",
    404: "knows no such model or path",
    408: "timed out",
    413: "finds the request too large",
    429: "limits the rate",
    500: "has an error of its own",
    503: "is not available",
    529: "is overloaded",
}
_TYPES: dict[str, int] = {
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "api_error": 500,
    "timeout_error": 408,
    "authentication_error": 401,
    "permission_error": 403,
    "billing_error": 402,
    "not_found_error": 404,
    "request_too_large": 413,
    "invalid_request_error": 400,
}
_AGAIN = frozenset({408, 409, 425, 429})


def failure(error: BaseException, service: str) -> CallFailed:
    """An error of the anthropic or openai client as a CallFailed, in Midchart's own words.

    ``service``: how the service is called in messages, its host for one. Both clients are made by
    one generator and name their errors alike, so they are told apart by shape, not by import.
    """
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
        if status < 300:  # an error told inside a stream that had begun well
            status = _TYPES.get(_error_type(error), 500)
        if status < 400:
            return CallFailed(
                f"{service} sends requests on to another address (status {status}); redirects are "
                "not followed"
            )
        words = _STATUS.get(status, "has an error of its own" if status > 500 else "refuses")
        again = status in _AGAIN or (status >= 500 and status not in (501, 505))
        headers = getattr(getattr(error, "response", None), "headers", {})
        return CallFailed(
            f"{service} {words} (status {status})", again, retry_after(headers) if again else None
        )
    names = {cls.__name__ for cls in type(error).__mro__}
    if "APITimeoutError" in names or "TimeoutException" in names or isinstance(error, TimeoutError):
        return CallFailed(f"{service} did not answer in time", True, billed=True)
    if "APIConnectionError" in names or "TransportError" in names or isinstance(error, OSError):
        cause = type(error.__cause__ or error).__name__
        away = cause.startswith("Connect")  # no connection, no work
        reason = f"{service} cannot be reached ({cause})"
        return CallFailed(reason, True, billed=not away, away=away)
    if "APIResponseValidationError" in names or isinstance(error, ValueError) or _stumbled(error):
        return broken(service)
    return CallFailed(f"the call to {service} failed ({kind})")


def _stumbled(error: BaseException) -> bool:
    """Whether the client itself fell over an answer's form, deep in its own code."""
    step, file = error.__traceback__, __file__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        step = step.tb_next
    return isinstance(
        error, AssertionError | AttributeError | LookupError | TypeError
    ) and not Path(file).is_relative_to(Path(__file__).parent)


def told_failure(kind: str, service: str) -> CallFailed:
    """A failure that a service tells by an error type of the Claude API, not by a status."""
    status = _TYPES.get(kind, 500)
    return CallFailed(f"{service} {_STATUS[status]} ({status})")


def broken(service: str) -> CallFailed:
    """An answer that is cut off or not in the form it should have; another try may help."""
    return CallFailed(f"{service} sent a broken answer", True, billed=True)


def _error_type(error: BaseException) -> str:
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    return str(inner.get("type", "")) if isinstance(inner, dict) else ""


A = TypeVar("A")
B = TypeVar("B")
GIVEN_UP = 3
"""Calls in a row that found nobody, after which the next ones are tried once each."""
BEAT_S = 1.0
"""How often a waiting caller is asked whether it still wants to wait."""


class Abandoned(WorkFailed):
    """The caller no longer wants an answer."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a call is tried and how long it waits in between.

    retries: tries after the first. first_s, most_s: the longest wait before the first retry and
    before any; each is drawn evenly from zero to its longest. obey_s: the longest Retry-After
    that is obeyed; a service that asks for more fails the call.
    """

    retries: int = 5
    first_s: float = 0.5
    most_s: float = 30.0
    obey_s: float = 120.0


class Caller:
    """Tries calls to one service again, in step with its other calls. Safe between threads."""

    def __init__(self, patience: Patience, seed: int = 0) -> None:
        self.patience = patience
        self.stop = threading.Event()
        self._random = Random(seed)  # jitter only: it changes no result
        self._lock = threading.Lock()
        self._quiet_until = 0.0
        self._away = 0

    def begin(self) -> threading.Event:
        """A new round of calls; gives the event that ends it."""
        self.stop = threading.Event()
        return self.stop

    def call(self, ask: Callable[[], B]) -> B:
        """What ``ask()`` gives; raises CallFailed when it failed for good, Abandoned on stop.

        ``ask`` raises CallFailed itself, as :func:`failure` words it.
        """
        tried = 0
        while True:
            self._pause(self._quiet_until - time.monotonic())
            try:
                found = ask()
                self._away = 0
                return found
            except CallFailed as failed:
                if not failed.again:
                    raise
                if failed.away and (tried == self.patience.retries or self._away >= GIVEN_UP):
                    self._away += 1
                    raise CallFailed(str(failed), away=True) from None
                if tried == self.patience.retries:
                    tries = f" ({tried + 1} tries)" if tried else ""
                    raise CallFailed(f"{failed}{tries}", billed=failed.billed) from None
                if failed.wait_s is not None:
                    self._obey(failed)
                self._pause(self._backoff(tried))
                tried += 1

    def _obey(self, failed: CallFailed) -> None:
        """Keep every call to this service quiet for as long as it asks."""
        asked = failed.wait_s or 0.0
        if asked > self.patience.obey_s:
            raise CallFailed(
                f"{failed}; it asks to wait {asked:.0f} s, more than the "
                f"{self.patience.obey_s:.0f} s this run waits; resume it later"
            )
        with self._lock:
            self._quiet_until = max(self._quiet_until, time.monotonic() + asked)

    def _backoff(self, tried: int) -> float:
        longest = min(self.patience.first_s * 2.0**tried, self.patience.most_s)
        with self._lock:
            return self._random.uniform(0.0, longest)

    def _pause(self, seconds: float) -> None:
        if self.stop.wait(max(seconds, 0.0)):
            raise Abandoned("the run was stopped")


def each(
    items: Sequence[A],
    work: Callable[[A], B],
    workers: int,
    stop: threading.Event,
    beat: Callable[[], None] = lambda: None,
) -> Generator[tuple[int, B | MidchartError]]:
    """``work`` on every item, ``workers`` at a time: (index, result) as they finish.

    A MidchartError is given as the result of its item; any other error of ``work`` is raised
    here. ``beat`` is called while nothing finishes and may raise to end the wait. Leaving the
    iterator early sets ``stop``; what is under way is left to end by itself.
    """
    todo: queue.SimpleQueue[tuple[int, A]] = queue.SimpleQueue()
    ready: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    for pair in enumerate(items):
        todo.put(pair)

    def labour() -> None:
        while not stop.is_set():
            try:
                index, item = todo.get_nowait()
            except queue.Empty:
                return
            try:
                ready.put((index, work(item), None))
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
                ready.put((index, None, error))

    # Daemons: a call that hangs must not keep a stopped worker process alive.
    for _ in range(min(workers, len(items))):
        threading.Thread(target=labour, name="call", daemon=True).start()
    try:
        for _ in items:
            index, result, error = _next(ready, beat)
            if error is not None and not isinstance(error, MidchartError):
                raise error
            yield index, error if error is not None else result
    finally:
        stop.set()


def _next(ready: queue.SimpleQueue[B], beat: Callable[[], None]) -> B:
    while True:
        try:
            return ready.get(timeout=BEAT_S)
        except queue.Empty:
            beat()


def quiet_clients() -> None:
    """Keep the clients' own logging silent: at level debug it writes prompts and headers.

    Called after a client's package is imported, as the import itself may turn logging on.
    """
    for name in ("anthropic", "openai", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
