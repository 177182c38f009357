"""Work on the files or records of a cohort, divided among forks of the process that converts them.

Results come in the order of the items, each after what was entered in the log for it: a cohort is
the same by any number of processes.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from itertools import chain, islice
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NoReturn, TypeVar
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

import msgspec

from midchart.core.cohorts.files import LoadLog
from midchart.core.confinement import allow_seconds
from midchart.core.errors import DataError
from midchart.core.provenance import files_hash
from midchart.core.storage.sources import Source

Item = TypeVar("Item")
Result = TypeVar("Result")

processes = 1
"""Processes among which this one divides work; a conversion sets it."""
_READINGS = "readings.zip"
_former: ZipFile | None = None
_written: ZipFile | None = None
"""JSON of what a loader reads of each file, by a hash of its name and content: before, and now."""
_AHEAD = 1 << 20
"""Bytes of results that a process may be ahead of the others."""


def report(message: Mapping[str, Any], /) -> None:
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


@contextmanager
def keeping_readings(folder: Path, former: Path | None) -> Generator[None]:
    """Keep in the store that is written into ``folder`` what is read of each file in the body; what
    the store in the folder ``former`` holds is not read again."""
    global _former, _written
    if former is not None:
        with suppress(OSError, BadZipFile):  # in memory, so that forks share no place in a file
            _former = ZipFile(BytesIO((former / _READINGS).read_bytes()))
    with ZipFile(folder / _READINGS, "w") as _written:
        yield


def each_file(
    files: Sequence[Source],
    log: LoadLog,
    read: Callable[[Source, LoadLog], Result],
    kind: type[Result],
) -> Iterator[tuple[Source, Result]]:
    """Each file that can be read with what ``read`` gives of its name and content, in order; others
    enter the log.

    ``kind``: the type of that, of which JSON is made for a store: a later conversion has it from
    there. What enters something in the log is read each time.
    """

    def work(file: Source) -> tuple[Source, str, bytes]:
        entered, key, text = LoadLog(), "", b""
        with entered.reading(file):
            key = files_hash([(f"{read.__module__} {file.name}", file.digest)])
            with suppress(KeyError, BadZipFile, zlib.error):  # a new file, or a damaged store
                text = _former.read(key) if _former else b""
            text = text or msgspec.json.encode(read(file, entered))
        if entered != LoadLog(opened={file}):
            key = ""
        log.join(entered)
        return file, key, text

    for file, key, text in each("files", files, work, log):
        if key and _written:
            _written.writestr(ZipInfo(key), text, ZIP_DEFLATED, 1)
        if text:
            yield file, msgspec.json.decode(text, type=kind)


def each(
    what: str, items: Sequence[Item], work: Callable[[Item], Result], log: LoadLog
) -> Iterator[Result]:
    """What ``work`` gives of each item, in order; it may enter parts of the input in ``log`` and
    change nothing else. Processes are forked at the call, if this one has one thread."""
    results, count = map(work, items), min(processes, len(items))
    if count > 1 and len([*Path("/proc/self/task").iterdir()]) == 1:
        # Each process has one of as many items, in an order that follows no order of the files.
        rounds = (Random(first).sample(range(count), count) for first in range(len(items)))
        turns = list(islice(chain.from_iterable(rounds), len(items)))
        shares = ([items[n] for n, turn in enumerate(turns) if turn == one] for one in range(count))
        ends = [Connection(fork(partial(_work, share, work, log))[1]) for share in shares]
        results = _in_turn([ends[turn] for turn in turns], log)
    return _counted(what, results, len(items))


def _counted(what: str, results: Iterator[Result], planned: int) -> Iterator[Result]:
    for done, result in enumerate(results, 1):
        yield result
        report({"read": [what, done, planned]})


def _work(
    items: Sequence[Item], work: Callable[[Item], Result], log: LoadLog, writing: int
) -> NoReturn:
    """Do the items of one process, and end it."""
    global processes, report
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _AHEAD)
    with Connection(writing) as end:
        processes, report = 1, end.send
        log.take()
        try:
            for item in items:
                result = work(item), log.take()
                signal.setitimer(signal.ITIMER_REAL, 0)  # it may wait for who reads
                end.send(result)
        except (BrokenPipeError, MemoryError):  # nobody reads by now, or it is over a limit
            os._exit(1)
        except Exception as error:  # noqa: BLE001 - a loader's
            end.send(type(error).__name__)
    os._exit(0)


def _in_turn(ends: Sequence[Connection], log: LoadLog) -> Iterator[Any]:
    """A result of each of ``ends``, in turn. Where a process has ended before its result, this
    process reports at what that was and ends as well."""
    report({"at": ""})
    for end in ends:
        place = {"at": ""}
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            while isinstance(message := end.recv(), dict):
                place = message
        except EOFError:
            report(place)
            os._exit(1)
        if isinstance(message, str):
            raise failure_of(message)
        allow_seconds()
        result, entered = message
        log.join(entered)
        yield result
