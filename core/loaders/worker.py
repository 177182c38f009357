"""Conversion in a process of its own, which is confined: what exceeds a limit is left out by name.

A process with one thread forks it. A process with several threads sends the request to a converter
process (``python -m midchart.core.loaders.worker``), which forks and then waits for further
requests. Reports are lines of JSON.

The confined process divides the files and records among child processes with the same limits
(:mod:`midchart.core.cohorts.parallel`). The processor time of each is that of the file, or record,
at which it is: one that exceeds it, or the memory, is named and left out, and the others are
converted again.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from select import select
from typing import IO, Any, NoReturn

from midchart.core import charts, confinement
from midchart.core import config as settings
from midchart.core.charts.store import write_charts
from midchart.core.cohorts import parallel
from midchart.core.cohorts.base import RecordLoader
from midchart.core.confinement import OVER_LIMIT, allow_seconds, confine, prepare, without_secrets
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.loaders.formats import find_loader
from midchart.core.storage import sources
from midchart.core.storage.files import temporary_root
from midchart.core.storage.sources import check_folder, files_at

_OUTPUT = 64 << 30
"""Bytes of a file that a conversion may write."""
MOST_EXCLUDED = 8
"""Files and records over a limit after which no more is tried."""
IDLE_S = 300.0
"""Seconds without a request after which a converter process ends."""
_WORTH_A_PROCESS = 1 << 20
"""Bytes of a cohort's files for each process among which their conversion is divided."""
_QUIET_S = 1.0
"""Seconds of a conversion before its progress is reported."""


def convert_files(
    place: Path, root: Path, named: bool, folder: Path, former: Path | None = None
) -> None:
    """Write the chart store of the files at a path of the cohort's folder ``root`` into ``folder``,
    in a confined process; ``named`` as of :meth:`RecordLoader.content`, ``former`` as of
    :func:`write_charts`.

    Raises DataError where nothing of them can be read, and what the progress
    (:data:`midchart.core.charts.reading`) raises, once the process has ended.
    """
    begun, read = time.monotonic(), ("files", 0, 0)
    environment = without_secrets(settings.worker_environment(""))
    excluded: list[str] = []
    request = {
        "place": str(place),
        "root": str(root),
        "named": named,
        "folder": str(folder),
        "former": str(former or ""),
        "excluded": excluded,
        "seconds": (confinement.SECONDS, confinement.SECONDS_PER_MB),
        "memory": (confinement.MEMORY, confinement.MEMORY_PER_BYTE),
        "environment": {k: v for k, v in environment.items() if k.startswith("MIDCHART_")},
    }
    alone = threading.active_count() == 1 and sys.platform == "linux"
    while True:
        report: dict[str, Any] = {"at": ""}
        sent = json.dumps(request)
        with _forked(sent) if alone else _started(sent, environment) as lines:
            for line in lines:
                report |= json.loads(line)
                read = report.pop("read", read)
                if time.monotonic() > begun + _QUIET_S:
                    charts.reading.get()(*read)
        if "error" in report:
            if report["error"] is None:
                return
            file, *reason = report["error"]
            raise DataError(file or place.name, *reason)
        at: str = report["at"]  # the process was ended here
        if at in ("", *excluded) or len(excluded) == MOST_EXCLUDED:
            raise DataError(place.name, None, OVER_LIMIT, "split it")
        excluded.append(at)
        for file in folder.iterdir():
            file.unlink()


# Who asks.


_idle: list[subprocess.Popen[str]] = []
"""Converter processes of this process that wait for a request; changed under ``_lock``."""
_lock = threading.Lock()
os.register_at_fork(after_in_child=_idle.clear)


def _lines(pipe: int) -> Iterator[bytes]:
    """The lines of a pipe to its end, or to a blank one; an empty report where none comes for a
    while."""
    begun = b""
    while True:
        if not select([pipe], [], [], _QUIET_S)[0]:
            yield b"{}"
            continue
        data = os.read(pipe, 1 << 16)
        *lines, begun = (begun + data).split(b"\n")
        yield from takewhile(bool, lines)
        if not data or b"" in lines:
            return


@contextlib.contextmanager
def _started(request: str, environment: dict[str, str]) -> Generator[Iterable[bytes]]:
    """The reports of a conversion by a converter process, which has one thread and has imported the
    loaders; a conversion that is not to go on ends it."""
    with _lock:
        _idle[:] = [process for process in _idle if process.poll() is None]
        waiting = _idle.pop() if _idle else None
    process = waiting or subprocess.Popen(
        [sys.executable, "-m", "midchart.core.loaders.worker"],
        cwd=settings.ROOT, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0,
    )  # fmt: skip
    try:
        print(request, file=process.stdin, flush=True)
        assert process.stdout is not None
        yield _lines(process.stdout.fileno())
    except BaseException:
        process.terminate()
        process.wait()
        raise
    with _lock:
        _idle.append(process)


@atexit.register
def _end() -> None:
    for process in _idle:
        process.communicate()  # it ends when its standard input is closed


@contextlib.contextmanager
def _forked(request: str) -> Generator[Iterable[bytes]]:
    """The reports of a conversion in a process that this one forks, which has no other thread: the
    start of a program would take longer than most conversions. It ends with this call, and what it
    has forked."""

    def convert(writing: int) -> NoReturn:
        os.setpgid(0, 0)
        with os.fdopen(writing, "w", buffering=1) as reports:
            _work(json.loads(request), reports)

    prepare()
    child, reading = parallel.fork(convert)
    with contextlib.suppress(OSError):  # whichever of the two is first
        os.setpgid(child, child)
    try:
        yield _lines(reading)
    finally:
        os.close(reading)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


# Who is asked.


def _work(request: dict[str, Any], reports: IO[str]) -> NoReturn:
    """Convert a cohort and end this process."""
    failure: DataError | None = None
    try:
        _convert(request, reports)
    except DataError as problem:
        failure = problem
    except MemoryError:
        os._exit(1)
    except Exception as problem:  # noqa: BLE001 - a loader's
        failure = parallel.failure_of(type(problem).__name__)
    error = failure and failure.__reduce__()[1]
    with contextlib.suppress(OSError):
        print(json.dumps({"error": error}), file=reports, flush=True)
    os._exit(0)


def _convert(request: dict[str, Any], reports: IO[str]) -> None:
    place, root, folder = (Path(request[name]) for name in ("place", "root", "folder"))
    former = Path(request["former"]) if request["former"] else None
    settings.set_environment(request["environment"])
    excluded = set(request["excluded"])
    temporary_root().mkdir(parents=True, exist_ok=True)
    # A link out says so, where the confined process only could not read it.
    left_out = check_folder(place) if place.is_dir() else []
    size = sum(bytes for *_, bytes in files_at(str(place)))
    packages = [Path(path) for path in sys.path if "site-packages" in path]
    loaders = [Path(inspect.getfile(LOADERS.get(name))).parent for name in LOADERS.names()]
    system = [Path(path) for path in ("/usr", "/lib", "/lib64", "/etc", "/proc", "/dev", "/sys")]
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of memory
    memory = min(request["memory"][0] + request["memory"][1] * size, there // 2)
    confinement.SECONDS, confinement.SECONDS_PER_MB = request["seconds"]
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
        parallel.processes = min(cores, there // memory, size // _WORTH_A_PROCESS)
    allow_seconds()
    unconfined = confine(
        memory,
        _OUTPUT,
        [
            *(place, root, former or root, settings.ROOT / "core", settings.ROOT / "extras"),
            *(Path(sys.prefix), Path(sys.base_prefix), *packages, *loaders, *system),
        ],
        [folder, temporary_root()],
    )

    def report(message: Mapping[str, Any], /) -> None:
        print(json.dumps(message), file=reports)

    def opening(name: str, bytes: int) -> bool:
        parallel.report({"at": name})
        allow_seconds(bytes)
        return name not in excluded

    parallel.report = report
    sources.watched = opening
    loader = find_loader(place)
    assert isinstance(loader, RecordLoader)
    with parallel.keeping_readings(folder, former):
        cohort = loader.content(place, request["named"])
    cohort.skipped.extend(left_out)
    write_charts(replace(cohort, unconfined=unconfined), folder, former)


def _serve(reports: IO[str]) -> None:
    """Convert on request, one JSON line each, until the input is closed or no request comes for
    ``IDLE_S``. A blank line ends the reports of a request.

    Each conversion runs in a fork. Where forking is not safe (macOS), the process does one
    conversion itself and ends.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the conversion ends with it
    for name in LOADERS.names():
        LOADERS.get(name)
    while select([sys.stdin], [], [], IDLE_S)[0] and (request := sys.stdin.readline()):
        if sys.platform != "linux":
            _work(json.loads(request), reports)
        with _forked(request) as lines:
            for line in lines:
                print(line.decode(), file=reports)
        print(file=reports)


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", buffering=1) as reports:
        os.dup2(2, 1)  # what a library prints is no report
        _serve(reports)
