"""Work on the files or records of a cohort, divided among forks of the process that converts them.

Results come in the order of the items, each after what was entered in the log for it: a cohort is
the same by any number of processes.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from midchart.core.cohorts.files import LoadLog
from midchart.core.confinement import allow_seconds
from midchart.core.errors import DataError
from midchart.core.storage.sources import Source

Item = TypeVar("Item")
Result = TypeVar("Result")

processes = 1
"""Processes among which this one divides work; a conversion sets it."""
_PARTS = 1 << 12
"""Parts of the work at most; a pipe holds their numbers."""


def report(message: Mapping[str, Any]) -> None:
    """Say at which file or record this process is, or how many were read; a conversion sets it."""


def failure_of(error: str) -> DataError:
    """An error of a loader, by the name of its type alone: its text may quote a record."""
    return DataError("", None, f"cannot be read ({error})", "report it")


def fork(child: Callable[[int], NoReturn]) -> tuple[int, int]:
    """Start ``child``, which gets the writing end of a pipe, in a fork of this process; gives its
    number and the reading end."""
    reading, writing = os.pipe()
    gc.disable()  # no database of this process is closed in that one, which lacks its threads
    number = os.fork()
    if not number:
        gc.freeze()
        gc.enable()
        os.close(reading)
        child(writing)
    gc.enable()
    os.close(writing)
    return number, reading


def each_file(
    files: Sequence[Source], log: LoadLog, read: Callable[[Source], Result]
) -> Iterator[tuple[Source, Result]]:
    """Each file that can be read with what ``read`` gives of it, in order; others enter the log."""

    def work(file: Source) -> list[tuple[Source, Result]]:
        with log.reading(file):
            return [(file, read(file))]
        return []

    return chain.from_iterable(each("files", files, work, log))


def each(
    what: str, items: Sequence[Item], work: Callable[[Item], Result], log: LoadLog
) -> Iterator[Result]:
    """What ``work`` gives of each item, in order; it may enter parts of the input in ``log`` and
    change nothing else. Processes are forked at the call, if this one has one thread."""
    results = map(work, items)
    if min(processes, len(items)) > 1 and len([*Path("/proc/self/task").iterdir()]) == 1:
        results = _divided(items, work, log)
    return _counted(what, results, len(items))


def _counted(what: str, results: Iterator[Result], planned: int) -> Iterator[Result]:
    for done, result in enumerate(results, 1):
        yield result
        report({"read": [what, done, planned]})


def _divided(
    items: Sequence[Item], work: Callable[[Item], Result], log: LoadLog
) -> Iterator[Result]:
    size = 1 + len(items) // _PARTS
    parts = [items[at : at + size] for at in range(0, len(items), size)]
    # A pipe of the parts' numbers, of which each process takes the next one.
    numbers, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(4, "little") for number in range(len(parts))))
    os.close(writing)
    child = partial(_work, numbers, parts, work, log)
    ends = [Connection(fork(child)[1]) for _ in range(min(processes, len(parts)))]
    os.close(numbers)
    return _joined(ends, len(parts), log)


def _work(
    numbers: int,
    parts: Sequence[Sequence[Item]],
    work: Callable[[Item], Result],
    log: LoadLog,
    writing: int,
) -> NoReturn:
    """Do parts until none is left, and end this process."""
    global processes, report
    with Connection(writing) as end:
        processes, report = 1, end.send
        log.take()
        try:
            while number := os.read(numbers, 4):
                part = int.from_bytes(number, "little")
                done = [(work(item), log.take()) for item in parts[part]]
                signal.setitimer(signal.ITIMER_REAL, 0)  # it may wait for who reads
                end.send((part, done))
        except (BrokenPipeError, MemoryError):  # nobody reads by now, or it is over a limit
            os._exit(1)
        except Exception as error:  # noqa: BLE001 - a loader's; its text may quote a record
            end.send(type(error).__name__)
    os._exit(0)


def _joined(ends: list[Connection], parts: int, log: LoadLog) -> Iterator[Any]:
    """The results of parts in order. Where a process ends in the middle of one, this one reports
    where that was and ends as well."""
    report({"at": ""})
    held: dict[int, Any] = {}
    at: dict[Connection, Mapping[str, Any]] = {}
    for number in range(parts):
        while number not in held:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for end in wait(ends) if ends else os._exit(1):
                try:
                    match end.recv():
                        case int(part), done:
                            held[part] = done
                            at.pop(end, None)
                        case str(failure):
                            raise failure_of(failure)
                        case place:
                            at[end] = place
                except EOFError:
                    ends.remove(end)
                    if end in at:
                        report(at[end])
                        os._exit(1)
        allow_seconds()
        for result, entered in held.pop(number):
            log.join(entered)
            yield result
