"""Removing runs: one by one on page Runs, or with the cohort that they were made on."""

from __future__ import annotations

import shutil
from pathlib import Path

from core.egress import audit
from core.errors import DataError, InputError
from core.parsing import read_json
from core.results.reviews import reviews_folder
from core.runs.directory import RunDirectory, find_run, take_lock
from core.runs.status import damaged_runs
from core.storage.files import sync_folder, writing


def remove_run(run: str) -> dict[str, int]:
    """Remove a run that is not active, also a damaged one, with its rows, log and reviews.

    Gives the number of ``files``; noted in the audit log first. Raises UnknownName, and InputError
    where it is running or queued, or cannot be removed.
    """
    folder = find_run(run)
    if folder.queued.exists():
        raise InputError(f"run {run} is queued; cancel it first")
    lock = take_lock(folder)
    try:
        files = sum(not path.is_dir() for path in folder.path.rglob("*"))
        audit.run_removed(
            run=run, cohort=cohort_of(folder), imported=folder.imported.exists(), files=files
        )
        delete_run(folder)
    finally:
        lock.release()
    return {"files": files}


def delete_folder(folder: Path) -> None:
    """Delete a folder, hidden first, so that no list shows a part of it."""
    for left in folder.parent.glob(".removed-*"):  # of a killed process
        shutil.rmtree(left)
    hidden = folder.rename(folder.with_name(f".removed-{folder.name}"))
    sync_folder(hidden.parent)
    shutil.rmtree(hidden)


def delete_run(folder: RunDirectory) -> None:
    """Delete a run's folder and the reviews of it."""
    with writing(folder.path.parent):
        delete_folder(folder.path)
        shutil.rmtree(reviews_folder(folder.id), ignore_errors=True)


def cohort_of(folder: RunDirectory) -> str:
    """The path of a run's cohort, also of a run that cannot be read otherwise; "" if unknown."""
    try:
        if not folder.spec.is_file():
            return ""
        path = read_json(folder.spec.read_bytes(), folder.id)["cohort"]["path"]
        if folder.imported.is_file():
            path = read_json(folder.imported.read_bytes(), folder.id)["data"] or path
    except (DataError, OSError, LookupError, TypeError):
        return ""
    return path if isinstance(path, str) else ""


def unassigned_runs() -> list[str]:
    """Damaged runs whose cohort is unknown; they may hold text of any cohort."""
    return [run for run in damaged_runs() if not cohort_of(find_run(run))]


def made_on(folder: RunDirectory, cohort: Path) -> bool:
    """Whether a run was made on the cohort in this folder."""
    path = cohort_of(folder)
    try:
        return bool(path) and Path(path).resolve() == cohort.resolve()
    except (OSError, ValueError):
        return False
