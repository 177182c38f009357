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
from random import Random
from typing import Any, TypeVar

from core.calling.failures import CallFailed
from core.errors import MidchartError, WorkFailed

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
