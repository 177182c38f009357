"""Converting a cohort: its chart store is made where it is not there yet."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from midchart.core import config as settings
from midchart.core.charts import reading
from midchart.core.provenance import digest
from midchart.core.storage.files import complete_folder, writing
from midchart.core.storage.lock import Lock
from midchart.core.types import Cohort

FOLDER = "charts"
PATH = "path.txt"


def charts_folder(place: Path, code: str, state: str) -> Path:
    """The folder of the store of the cohort at a path; ``code``, in hex, names what converts, and
    ``state`` that and its files. A cohort that is renamed keeps its store."""
    return settings.cache_folder() / FOLDER / f"{_name_of(place)}-{code}-{state}"


def _name_of(place: Path) -> str:
    now = place.stat()
    return digest(str(now.st_dev), str(now.st_ino))[:16]


def convert(
    folder: Path,
    place: Path,
    opened: Callable[[], Cohort | None],
    write: Callable[[Path, Path | None], None],
) -> Cohort:
    """The cohort of a store, converted by the first process that asks for it while others wait.

    ``opened`` gives the cohort of the store, None without one; ``write`` writes the store of the
    files at ``place`` into a folder, and gets the store of an earlier state of them by the same
    code, None without one. Stores of earlier states are then removed. Raises DataError as
    ``write`` does, InputError where the cache cannot be written.
    """
    name, code, _ = folder.name.split("-")
    with writing(folder.parent), _converting(folder.with_name(f".{name}.lock")):
        if (cohort := opened()) is None:
            others = {*folder.parent.glob(f"{name}-*")} - {folder}
            same_code = (one for one in others if one.name.startswith(f"{name}-{code}-"))
            with complete_folder(folder) as fresh:
                write(fresh, next(same_code, None))
                (fresh / PATH).write_text(str(place), encoding="utf-8", errors="surrogatepass")
            for other in others:
                shutil.rmtree(other, ignore_errors=True)
            cohort = opened()
    assert cohort is not None  # a store that was written is there
    return cohort


@contextmanager
def _converting(path: Path) -> Generator[None]:
    """Hold a lock, in whose file is how much the body has read; a process that waits for the lock
    reports that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    report, known = reading.get(), ("files", 0, 0)
    while (lock := Lock.take(path)) is None:
        with suppress(ValueError):  # it is being written, or nothing is in it yet
            known = json.loads(path.read_text().partition("\n")[0])
            report(*known)
    if any(known[1:]):
        report("records", known[2], known[2])

    def step(what: str, done: int, planned: int) -> None:
        os.pwrite(lock.fd, f"{json.dumps([what, done, planned])}\n".encode(), 0)
        report(what, done, planned)

    os.ftruncate(lock.fd, 0)
    token = reading.set(step)
    try:
        yield
    finally:
        reading.reset(token)
        lock.release()


def sweep_charts() -> None:
    """Remove the stores of cohorts that are no longer there, and what killed processes have left.

    A store is a cohort's that has the path at which it was converted, or that was renamed into the
    folder of the cohorts.
    """
    charts, cohorts = settings.cache_folder() / FOLDER, settings.cohorts_folder()
    names = {_name_of(one) for one in cohorts.iterdir()} if cohorts.is_dir() else set[str]()
    for folder in filter(Path.is_dir, sorted(charts.iterdir()) if charts.is_dir() else ()):
        place = folder.name.removeprefix(".").partition("-")[0]
        there = set(names)
        with suppress(OSError):  # where it was when it was converted
            path = (folder / PATH).read_text(encoding="utf-8", errors="surrogatepass")
            there.add(_name_of(Path(path)))
        if folder.name.startswith(".") or place not in there:
            lock = Lock.take(charts / f".{place}.lock", patience_s=0)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                lock.release()
