"""Reading a cohort completely: its check, and what its pages need of all its records.

A cohort of few bytes is analysed when it is opened, a large one in a separate process
(``python -m midchart.core.services.summary COHORT``), whose progress is in a file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import CohortRef, needs
from midchart.core.charts.convert import analyse
from midchart.core.charts.store import ChartRecords
from midchart.core.errors import MidchartError
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import opened
from midchart.core.protocol import Protocol
from midchart.core.regular_files import read_regular
from midchart.core.services.cohorts import find_cohort, open_data
from midchart.core.storage.files import write_text

_STEP_S = 0.5
"""Seconds between two reports of progress."""


@dataclass(frozen=True, slots=True)
class ReadingProgress:
    """How many records of a cohort another process has read, of how many; ``problem``: why it
    stopped, empty while it runs."""

    done: int
    planned: int
    problem: str = ""


_children: dict[Path, subprocess.Popen[bytes]] = {}
"""File of its progress → the process that analyses a cohort, or has ended without."""
_lock = threading.Lock()


@needs("viewer")
def reading_progress(data: CohortRef, again: bool = False) -> ReadingProgress | None:
    """None once a cohort's records are analysed, else how far the process is that does it, which is
    started once; ``again`` starts another one after a failure.

    Coded events have no analysis. Raises as :func:`midchart.core.services.cohorts.open_data`.
    """
    cohort, _ = opened(find_cohort(data))
    records = cohort.records
    if not isinstance(records, ChartRecords) or records.analysis is not None:
        return None
    report, planned = _report(records), len(records)
    with _lock:
        child = _children.get(report)
        if child is None or (again and child.poll() is not None):
            report.unlink(missing_ok=True)
            _children[report] = subprocess.Popen(
                [sys.executable, "-m", "midchart.core.services.summary", cohort.path],
                cwd=settings.ROOT,
                env=settings.worker_environment(""),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            return ReadingProgress(0, planned)
    try:
        now = json.loads(read_regular(report))
    except FileNotFoundError:
        now = {"done": 0}
    ended = "the process has ended" if child.poll() is not None else ""
    return ReadingProgress(now["done"], planned, str(now.get("problem", ended)))


def _report(records: ChartRecords) -> Path:
    return records.folder.with_name(f"{records.folder.name}.progress")


@needs("viewer", paths=("path",))
def check(
    data: CohortRef,
    progress: Callable[[int, int], None] | None = None,
    protocol: Protocol | None = None,
    locator: bool = False,
    validate: bool = False,
    leaves: bool = False,
) -> dict[str, Any]:
    """Read a cohort completely; report its contents, what was skipped and where (``check --json``).

    Evidence is located as ``protocol`` says (default: corrected); ``locator`` adds how often that
    goes wrong in this cohort, ``validate`` what of its FHIR resources is invalid. ``progress`` is
    called with how much is done and planned where millions of events are read in. ``leaves``: what
    became of every string, number and code also where the files are large.
    """
    return check_cohort(open_data(data), progress, protocol, locator, validate, leaves or None)


def _make(path: str) -> None:
    """Analyse a cohort, with the progress in a file; another process at it is waited for."""
    cohort, _ = opened(path)
    assert isinstance(cohort.records, ChartRecords)
    report, last = _report(cohort.records), 0.0

    def progress(done: int, planned: int) -> None:
        nonlocal last
        if time.monotonic() - last > _STEP_S:
            last = time.monotonic()
            write_text(report, json.dumps({"done": done}))

    try:
        analyse(cohort, progress)
        report.unlink(missing_ok=True)
    except (MidchartError, OSError) as error:
        write_text(report, json.dumps({"done": 0, "problem": str(error)}))


if __name__ == "__main__":
    os.nice(5)
    _make(sys.argv[1])
