"""The summary of a cohort: what reading every record gives, stored in the cache's folder.

Counts, the places of the evidence and what could not be read. Its key changes with the cohort's
files and with the program's code. A small cohort is read at once, a large one in a separate
process (``python -m midchart.core.services.summary COHORT``), whose progress is in a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import CohortRef, needs
from midchart.core.charts.convert import analyse
from midchart.core.cohorts.files import write_atomic
from midchart.core.cohorts.gold import evidence_locations
from midchart.core.cohorts.labelled import StoredRecords
from midchart.core.errors import DataError, MidchartError
from midchart.core.loaders.check import Counts, check_cohort, count_records, resolve_position
from midchart.core.loaders.open import opened
from midchart.core.protocol import Protocol
from midchart.core.provenance import code_digest
from midchart.core.regular_files import read_regular
from midchart.core.results.tables import location_table
from midchart.core.services.cohorts import cohort_key, cohort_size, find_cohort, open_data
from midchart.core.storage.lock import Lock, is_locked
from midchart.core.text.evidence import RelativePosition, place_of
from midchart.core.types import Cohort, Record

FOLDER = "summaries"
AT_ONCE, QUESTIONS_AT_ONCE = 16_000_000, 1_000
"""Bytes and questions of a cohort that is read at once, which takes two seconds at most."""
_STEP_S = 0.5
"""Seconds between two reports of progress."""
POSITIONS = RelativePosition._fields


@dataclass(frozen=True, slots=True)
class _CohortSummary:
    """``counts`` of :func:`core.loaders.check.count_records`; ``places`` of each piece of evidence
    of the answers with several; ``position``: the default protocol's, with its reason; by position
    the table ``locations`` (:func:`midchart.core.results.tables.location_table`) of the questions
    that a model answered."""

    counts: Counts
    places: Mapping[str, tuple[RelativePosition, ...]]
    position: dict[str, Any]
    locations: Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ReadingProgress:
    """How many records of a cohort another process has read, of how many; ``problem``: why it
    stopped, empty while it runs."""

    done: int
    planned: int
    problem: str = ""


_known: dict[str, tuple[str, _CohortSummary]] = {}
"""Path → key and summary."""
_children: dict[str, subprocess.Popen[bytes]] = {}
"""Key → the process that makes the summary, or has ended without one."""
_lock = threading.RLock()


def known_summary(cohort: Cohort) -> _CohortSummary | None:
    """The summary of a cohort once :func:`reading_progress` gave None, while it is valid."""
    key, summary = _known.get(cohort.path, ("", None))
    return summary if summary is not None and key == _key(cohort) else None


@needs("viewer")
def reading_progress(data: CohortRef, again: bool = False) -> ReadingProgress | None:
    """None once a cohort's summary is known, else how far the process is that makes it.

    The process is started once; ``again`` starts another one after a failure. Coded events have no
    summary. Raises as :func:`midchart.core.services.cohorts.open_data`.
    """
    cohort, _ = opened(find_cohort(data))
    if isinstance(cohort.records, StoredRecords) or known_summary(cohort) is not None:
        return None
    with _lock:
        key = _key(cohort)
        stored = _read(_file(key))
        large = cohort_size(cohort) > AT_ONCE or len(cohort.instructions) > QUESTIONS_AT_ONCE
        if stored is None and large:
            return _progress(cohort, key, again)
        if stored is None:
            stored = _summarise(cohort)
            _store(stored, key)
        _children.pop(key, None)
        _use(cohort, key, stored)
    return None


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
    cohort = open_data(data)
    summary = known_summary(cohort)
    counts = summary and summary.counts
    return check_cohort(cohort, progress, protocol, locator, validate, counts, leaves or None)


def _progress(cohort: Cohort, key: str, again: bool) -> ReadingProgress:
    report, child = _read(_file(key, ".progress")) or {}, _children.get(key)
    done, planned = report.get("done", 0), len(cohort.records)
    if is_locked(_file(key, ".lock")) or (child is not None and child.poll() is None):
        return ReadingProgress(done, planned)
    if child is not None and not again:
        return ReadingProgress(done, planned, report.get("problem") or "the process has ended")
    _children[key] = subprocess.Popen(
        [sys.executable, "-m", "midchart.core.services.summary", cohort.path],
        cwd=settings.ROOT,
        env=settings.worker_environment(""),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return ReadingProgress(0, planned)


def _key(cohort: Cohort) -> str:
    """The cohort's path, then its files and the program's code, each as a hash."""
    path = hashlib.blake2b(cohort.path.encode(), digest_size=8).hexdigest()
    return f"{path}-{cohort_key(cohort)}-{code_digest()}"


def _file(key: str, ending: str = ".json") -> Path:
    return settings.cache_folder() / FOLDER / f"{key}{ending}"


def _read(path: Path) -> dict[str, Any] | None:
    """A file that this module wrote; None where it is missing or damaged."""
    try:
        return json.loads(read_regular(path))
    except (OSError, ValueError):
        return None


def _summarise(
    cohort: Cohort, progress: Callable[[int, int], None] = lambda done, planned: None
) -> dict[str, Any]:
    """The summary of a cohort as JSON; reads every record once."""
    protocol = Protocol()
    answered = {response.instruction_id for response in cohort.responses if response.used}
    by_record: dict[str, list[Any]] = {}
    for instruction in cohort.instructions:
        by_record.setdefault(instruction.record_id, []).append(instruction)
    places: dict[str, list[RelativePosition]] = {}
    rows: dict[str, list[dict[str, Any]]] = {position: [] for position in POSITIONS}
    planned, visited = len(cohort.records), 0

    def visit(record: Record) -> None:
        nonlocal visited
        visited += 1
        progress(visited, planned)
        questions = by_record.get(record.id, [])
        for gold in (cohort.gold.get(one.id) for one in questions):
            if gold is not None and len(gold.spans) > 1:
                places[gold.instruction_id] = [place_of(record, span) for span in gold.spans]
        asked = [one for one in questions if one.id in answered]
        located = evidence_locations(cohort, asked, protocol, POSITIONS)
        for position, more in located.items():
            rows[position] += more

    counts = count_records(cohort, visit=visit)
    _, position = resolve_position(protocol, cohort)
    return {
        "counts": counts,
        "places": places,
        "position": position,
        "locations": {position: location_table(of) for position, of in rows.items()},
    }


def _store(summary: Mapping[str, Any], key: str) -> None:
    """Write a summary, and remove those of earlier states of the same cohort."""
    write_atomic(_file(key), json.dumps(summary))
    path = key.split("-", 1)[0]
    for file in (settings.cache_folder() / FOLDER).glob(f"{path}-*"):
        if not file.name.startswith(key):
            file.unlink(missing_ok=True)


def _use(cohort: Cohort, key: str, stored: Mapping[str, Any]) -> None:
    """Enter a stored summary of the open cohort."""
    places = {
        id: tuple(RelativePosition(*one) for one in of) for id, of in stored["places"].items()
    }
    summary = _CohortSummary(
        Counts(*stored["counts"]), places, stored["position"], stored["locations"]
    )
    _known[cohort.path] = (key, summary)


def _make(path: str) -> None:
    """Make and store the summary of a cohort, with its progress in a file."""
    cohort, _ = opened(path)
    key = _key(cohort)
    report = _file(key, ".progress")
    report.parent.mkdir(parents=True, exist_ok=True)
    lock = Lock.take(_file(key, ".lock"))
    if lock is None:
        return
    last = 0.0

    def progress(done: int, planned: int) -> None:
        nonlocal last
        if time.monotonic() - last > _STEP_S:
            last = time.monotonic()
            write_atomic(report, json.dumps({"done": done, "planned": planned}))

    try:
        analyse(cohort, progress)
        summary = _summarise(cohort, progress)
        if key != _key(cohort):
            raise DataError(path, None, "changed while it was read", "open the page again")
        _store(summary, key)
        report.unlink(missing_ok=True)
    except (MidchartError, OSError) as error:
        write_atomic(report, json.dumps({"done": 0, "problem": str(error)}))
    finally:
        lock.release()


if __name__ == "__main__":
    os.nice(5)
    _make(sys.argv[1])
