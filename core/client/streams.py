"""Work on many items by readers, judges and services: each item has exactly one outcome.

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
from typing import Generic, TypeVar

from midchart.core.errors import WorkFailed, reason_of

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")
Work = Callable[[Iterable[A]], Iterator[tuple[int, R]]]
"""Gives each item's index and result, in any order."""
Outcome = tuple[T, R, float]
"""An item's ticket, its result, and the seconds that it took."""
_POLL_S = 0.5


class Stopped(BaseException):
    """The run was cancelled: no failure of an item."""


def outcomes(
    work: Work[A, R], items: Iterable[A], missing: set[int], failed: Callable[[str], R]
) -> Generator[tuple[int, R], None, str]:
    """The ``missing`` items by index, each once, in the order in which ``work`` gives them.

    An item without an outcome gets ``failed(reason)`` at the end: the error that ended the work, or
    that the item was omitted; the reason is returned too. Closing this closes the iterator of
    ``work``.
    """
    reason = "the group ended without an outcome for this item"
    results: Iterator[tuple[int, R]] | None = None
    try:
        results = work(items)
        for index, outcome in results:
            if index not in missing:
                raise WorkFailed(f"item {index} of a group came twice or is none of it")
            missing.remove(index)
            yield index, outcome
    except Exception as error:  # noqa: BLE001 - becomes the reason of what is missing
        reason = reason_of(error)
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()
    for index in sorted(missing):
        yield index, failed(reason)
    return reason


class ServiceStream(Generic[A, R, T]):
    """Items that a service works on, each with a ticket: what the run needs to write its outcome.

    ``work`` runs in a separate thread; once it has ended, all further items fail. ``size``: most
    items without an outcome. ``wait`` is called while one is awaited, and may raise.
    """

    def __init__(
        self,
        work: Work[A, R],
        size: int,
        failed: Callable[[str], R],
        wait: Callable[[], None],
    ) -> None:
        self._work, self._size, self._failed, self._wait = work, size, failed, wait
        self._items: queue.Queue[tuple[A] | None] = queue.Queue()
        self._results: queue.Queue[tuple[int, R]] = queue.Queue()
        self._tickets: dict[int, tuple[T, float]] = {}
        self._given, self._missing, self._stopped = 0, set[int](), threading.Event()
        self._reason = "the run was stopped"
        # A daemon: a service that hangs must not keep a stopped process alive.
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    def put(self, item: A, ticket: T) -> Iterator[Outcome[T, R]]:
        """Give the service an item; the outcomes that are there, awaited where it is full."""
        if not self._given:
            self._thread.start()
        yield from self._outcomes(self._size - 1)
        self._tickets[self._given] = ticket, time.perf_counter()
        self._given += 1
        self._items.put((item,))
        yield from self.ready()

    def ready(self) -> Iterator[Outcome[T, R]]:
        """The outcomes that are there."""
        return self._outcomes(self._size)

    def finish(self) -> Iterator[Outcome[T, R]]:
        """Await all outcomes."""
        self._items.put(None)
        return self._outcomes(0)

    def stop(self) -> None:
        """End without the outcomes that are missing; calls under way end by themselves."""
        self._stopped.set()
        self._tickets.clear()

    def _outcomes(self, most: int) -> Iterator[Outcome[T, R]]:
        """The outcomes that are there, and others until at most so many are missing."""
        while self._tickets and (len(self._tickets) > most or not self._results.empty()):
            at_work = self._thread.is_alive()
            try:
                index, result = self._results.get(timeout=_POLL_S if at_work else 0)
            except queue.Empty:
                if at_work:
                    self._wait()
                    continue
                index = min(self._tickets)
                result = self._failed(self._reason)
            ticket, begun = self._tickets.pop(index)
            yield ticket, result, time.perf_counter() - begun

    def _take(self) -> Generator[A]:
        """The items as they are given."""
        index = 0
        while not self._stopped.is_set():
            with suppress(queue.Empty):
                item = self._items.get(timeout=_POLL_S)
                if item is None:
                    return
                self._missing.add(index)
                index += 1
                yield item[0]

    def _worked(self) -> Generator[tuple[int, R]]:
        work = outcomes(self._work, self._take(), self._missing, self._failed)
        self._reason = yield from work

    def _run(self) -> None:
        with suppress(Stopped):
            for one in self._worked():
                self._results.put(one)
