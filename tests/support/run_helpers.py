"""Helpers for tests of runs: a tiny cohort in MedAlign's format, a workspace, waiting."""

from __future__ import annotations

import csv
import importlib.util
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from midchart.core.cohorts.manifest import FIELDS
from midchart.core.loaders.open import set_data_use
from midchart.core.results.items import rows
from midchart.core.runs.directory import RunDirectory, make_run, take_lock
from midchart.core.runs.planner import plan
from midchart.core.runs.process import status
from midchart.core.runs.spec import read_spec
from midchart.core.runs.worker import do_run
from tests.support import run_members

ROOT = Path(__file__).parents[2]
SHARED: list[Path] = []
"""The folder of sentence vectors that all tests of a session share, once there is one."""
DRUGS = ["lisinopril", "metformin", "warfarin", "atorvastatin", "amlodipine", "omeprazole"]


def write_site(folder: Path, members: ModuleType = run_members) -> None:
    """What brings the tests' own readers and judges into a worker; goes on PYTHONPATH."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT.parent)]!r}\n"  # this checkout's code
        f"import {members.__name__} as m; m.enter()"
    )


def shared_vectors(cache: Path) -> Path:
    """The cache folder, its sentence vectors those of all tests: text and weights alone decide
    them, and they take longer to make than anything else."""
    cache.mkdir(parents=True, exist_ok=True)
    link = cache / "embeddings"
    if SHARED and not link.exists():
        link.symlink_to(SHARED[0])
    return cache


def set_workspace(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Data, cache and secrets are under the folder; no API key of this machine is seen."""
    patch.setenv("MIDCHART_DATA", str(folder / "data"))
    patch.setenv("MIDCHART_CACHE", str(shared_vectors(folder / "cache")))
    patch.setenv("MIDCHART_STATE", str(folder / "state"))
    patch.setenv("MIDCHART_SECRETS", str(folder / "none.toml"))
    patch.delenv("ANTHROPIC_API_KEY", raising=False)


def allow(folder: Path, *fields: str) -> Path:
    """Confirm permissions of a cohort that a test has written, as a person does."""
    for field in fields or FIELDS:
        set_data_use(folder, field, True, "the tests' own cohort")
    return folder


@contextmanager
def workspace_at(folder: Path) -> Iterator[Path]:
    """The folder is the workspace while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        set_workspace(patch, folder)
        yield folder


@contextmanager
def members_place(folder: Path, members: ModuleType = run_members, **env: str) -> Iterator[Path]:
    """A workspace with the tests' own readers and judges here and in every worker."""
    write_site(folder / "site", members)
    with pytest.MonkeyPatch.context() as patch:
        set_workspace(patch, folder)
        patch.setenv("PYTHONPATH", str(folder / "site"))
        for name, value in env.items():
            patch.setenv(name, value)
        members.enter()
        yield folder
        members.leave()


def write_cohort(folder: Path, records: int = 3, events: int = 20) -> Path:
    """A cohort in which each record states one dose at each of four depths."""
    (folder / "ehrs").mkdir(parents=True)
    questions = []
    for p in range(records):
        lines = [
            f'<entry timestamp="2020-01-{i + 1:02d} 08:00"><event type="measurement" code="L/{i}" '
            f'name="Glucose">{90 + i + p}</event></entry>'
            for i in range(events)
        ]
        for q, depth in enumerate((0, events // 3, events // 2, events - 1)):
            drug, dose = DRUGS[(p + q) % len(DRUGS)], 10 * (p + q + 1)
            fact = f"Patient {p} takes {drug} at a dose of {dose} milligram"
            lines[depth] = (
                f'<entry timestamp="2020-01-{depth + 1:02d} 08:00"><event type="note" '
                f'note_id="n{q}" code="N" name="note">{fact}.</event></entry>'
            )
            questions.append(
                {
                    "instruction_id": f"i{p}{q}",
                    "filename": f"{p + 1}.xml",
                    "person_id": str(p + 1),
                    "question": f"What dose of {drug} does the patient take?",
                    "evidence": fact,
                    "clinician_response": f"{dose} milligram {dose}",
                    "submitter_specialty": "medicine",
                    "annotator_num": "Annotator_1",
                }
            )
        body = (
            f'<eventstream person_id="{p + 1}"><encounter><events>{"".join(lines)}</events>'
            "</encounter></eventstream>"
        )
        (folder / "ehrs" / f"{p + 1}.xml").write_text(body, encoding="utf-8")
    write_questions(folder, questions)
    return folder


def write_questions(folder: Path, questions: list[dict[str, str]]) -> None:
    """The table of questions of a cohort."""
    path = folder / "clinician-instruction-responses.tsv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(questions[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(questions)


def read_questions(folder: Path) -> list[dict[str, str]]:
    """The rows of that table."""
    path = folder / "clinician-instruction-responses.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def spec(cohort: Path, **changes: object) -> dict[str, object]:
    """A spec of all that the tests' members can do on a cohort."""
    return {
        "name": "test",
        "kind": "answers",
        "data": str(cohort),
        "arms": ["bm25", {"name": "bm25", "k": 1}, "recency", "full"],
        "readers": ["test_echo"],
        "judges": ["test_words", "test_even"],
        "seed": 7,
        "protocol": {"resamples": 200},
        **changes,
    }


def finished_run(table: dict[str, object] | Path) -> str:
    """Do a run in this process, which takes a tenth of a worker's time; gives its identifier."""
    folder = make_run(plan(read_spec(table)))
    assert continue_run(folder) == "done"
    return folder.id


def continue_run(folder: RunDirectory) -> str:
    """Do in this process what is left of a run; "done" or "cancelled"."""
    for mark in (folder.done, folder.cancel, folder.cancelled):
        mark.unlink(missing_ok=True)
    lock = take_lock(folder)
    try:
        return do_run(folder)
    finally:
        lock.release()


VARYING = ("time", "seconds", "selection_seconds")


def contents(
    run: str, tables: Sequence[str] = ("answers", "verdicts"), key: str = "key"
) -> dict[str, dict[str, dict[str, object]]]:
    """Rows of each table by key, without clocks; fails where a key or an item is there twice."""
    by_table = {}
    for table in tables:
        table_rows = rows(run, table)
        by_table[table] = {
            row[key]: {name: row[name] for name in row if name not in VARYING} for row in table_rows
        }
        assert len(by_table[table]) == len({row["item"] for row in table_rows}) == len(table_rows)
    return by_table


def wait_until(run: str, *states: str, patience_s: float = 120.0) -> str:
    """Wait until a run is in one of the states; gives it, or fails."""
    seen: list[str] = []

    def there() -> bool:
        seen.append(status(run)["status"])
        return seen[-1] in states

    until(there, f"{run} is one of {states}", patience_s)
    return seen[-1]


def until(true: Callable[[], object], what: str, patience_s: float = 120.0) -> None:
    """Wait until something is true, or fail."""
    deadline = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(0.02)


def make_socket(file: Path) -> None:
    """A socket in place of a file."""
    with socket.socket(socket.AF_UNIX) as one, chdir(file.parent):  # its path has to be short
        one.bind(file.name)


def in_time(work: Callable[[], object], patience_s: float = 60.0) -> object:
    """The result of a call; fails where it waits, as for the writer of a pipe."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(patience_s)
    assert results, "the call waits, or raised an error that is none of the program's"
    return results[0]


def wait_for_items(run: str, least: int) -> None:
    """Wait until a running run has so many items."""

    def there() -> bool:
        now = status(run)
        assert now["done"] >= least or now["status"] == "running", now
        return now["done"] >= least

    until(there, f"{least} items are done")


def has_ray(patch: pytest.MonkeyPatch, installed: bool = True) -> None:
    """Ray counts as installed, or as not installed; it is not to be called."""
    find, spec = importlib.util.find_spec, object() if installed else None
    patch.setattr(importlib.util, "find_spec", lambda name: spec if name == "ray" else find(name))


def held(patch: pytest.MonkeyPatch, file: Path, after: int) -> Path:
    """Readers of workers that start from now on read so many and wait until the file is gone:
    what is then done to a run is done while there is work left, however slow the machine. A run's
    status tells of progress only from time to time; its rows are there at once."""
    file.touch()
    patch.setenv("TEST_READER_HOLD", f"{after}:{file}")
    return file
