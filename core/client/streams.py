"""A service at work while a run goes on: items in, results out, a bounded number between.

Selection, reading and judging are stages. A local model reads a batch when it is complete, as both
need the processor; a service (``streams``, :mod:`midchart.core.interfaces`) has its next item
before it has finished the last, and its results are written between two selections. All rows are
written by the run's thread, so that progress, cancel and resume are those of a batch.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from midchart.core.errors import WorkFailed, reason_of

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")
Work = Callable[[Iterable[A]], Iterator[tuple[int, R]]]
Outcome = tuple[T, R, float]
"""An item's ticket, its result, and the seconds that it took."""
_POLL_S = 0.5


class ServiceStream(Generic[A, R, T]):
    """Items that a service works on, each with a ticket: what the run needs to write its outcome.

    ``work``: gives each item's index and result in any order, in a separate thread; every item
    has one outcome, ``failed(reason)`` where the service ends without one. ``size``: most items
    without an outcome. ``wait`` is called while one is awaited, and may raise.
    """

    def __init__(
        self,
        work: Work[A, R],
        size: int,
        failed: Callable[[str], R],
        wait: Callable[[], None],
    ) -> None:
        self._work, self._size, self._failed, self._wait = work, size, failed, wait
        self._round: _Round[A, R] | None = None
        self._tickets: dict[int, tuple[T, float]] = {}

    def put(self, item: A, ticket: T) -> Iterator[Outcome[T, R]]:
        """Give the service an item; the outcomes that are there, awaited where it is full."""
        while len(self._tickets) >= self._size:
            yield from self._outcomes(awaited=True)
        if self._round is None:
            self._round = _Round(self._work)
        self._round.items.put((item,))
        self._tickets[self._round.given] = ticket, time.perf_counter()
        self._round.given += 1
        yield from self.ready()

    def ready(self) -> Iterator[Outcome[T, R]]:
        """The outcomes that are there."""
        while self._tickets and self._round and not self._round.results.empty():
            yield from self._outcomes(awaited=False)

    def finish(self) -> Iterator[Outcome[T, R]]:
        """Await all outcomes."""
        if self._round is not None:
            self._round.items.put(None)
        while self._tickets:
            yield from self._outcomes(awaited=True)
        self._round = None

    def stop(self) -> None:
        """End without the outcomes that are missing; calls under way end by themselves."""
        if self._round is not None:
            self._round.stopped.set()
        self._tickets.clear()

    def _outcomes(self, awaited: bool) -> Iterator[Outcome[T, R]]:
        """The next outcome; all that are missing where the service has ended."""
        assert self._round is not None, "a ticket has a round"
        while True:
            try:
                index, result, reason = self._round.results.get(timeout=_POLL_S if awaited else 0)
                break
            except queue.Empty:
                self._wait()
        if result is not None and index in self._tickets:
            ticket, begun = self._tickets.pop(index)
            yield ticket, result, time.perf_counter() - begun
            return
        if result is not None:
            reason = f"item {index} of a stream came twice or is none of it"
        self._round.stopped.set()
        self._round = None
        missing, self._tickets = self._tickets, {}
        for _, (ticket, begun) in sorted(missing.items()):
            yield ticket, self._failed(reason), time.perf_counter() - begun


class _Round(Generic[A, R]):
    """One call of ``work`` in a thread; ``results``: (index, result, ""), at the end one without a
    result and with the reason that holds for what is missing."""

    def __init__(self, work: Work[A, R]) -> None:
        self.results: queue.Queue[tuple[int, R | None, str]] = queue.Queue()
        self.items: queue.Queue[tuple[A] | None] = queue.Queue()
        self.stopped, self.given = threading.Event(), 0
        # A daemon: a service that hangs must not keep a stopped process alive.
        threading.Thread(target=self._run, args=(work,), name="stream", daemon=True).start()

    def _taken(self) -> Generator[A]:
        while not self.stopped.is_set():
            with suppress(queue.Empty):
                item = self.items.get(timeout=_POLL_S)
                if item is None:
                    return
                yield item[0]

    def _run(self, work: Work[A, R]) -> None:
        reason = "the service ended without an outcome for this item"
        results: Any = None
        try:
            results = work(self._taken())
            for index, result in results:
                self.results.put((index, result, ""))
                if self.stopped.is_set():
                    raise WorkFailed("the run was stopped")
        except BaseException as error:  # noqa: BLE001 - becomes the reason of what is missing
            reason = reason_of(error)
        finally:
            close = getattr(results, "close", None)
            if close is not None:
                close()
            self.results.put((-1, None, reason))
