"""Removing cohorts and runs in steps that a kill may end anywhere.

A removal is written down before its first step, and every step may be repeated:
:func:`recover`, which each start of the program calls, ends what a killed process had begun, and
deletes what a killed import had taken in.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from midchart.core import config as settings
from midchart.core.errors import DataError, InputError
from midchart.core.loaders.open import close_cohorts
from midchart.core.parsing import read_json
from midchart.core.results.importing import recover_imports
from midchart.core.results.reviews import reviews_folder
from midchart.core.storage.files import read_regular, replacing, sync_folder, writing
from midchart.core.storage.lock import Lock
from midchart.core.storage.staging import delete, delete_tree, sweep

_WRITTEN = ".removal-"


@dataclass(frozen=True, slots=True)
class Removal:
    """What is removed: a cohort's folder (its name and inode) with the logs that belong to it and
    every cache, and runs (ids)."""

    cohort: str = ""
    inode: int = 0
    runs: Sequence[str] = ()


def remove(removal: Removal) -> None:
    """Remove; the caller holds :func:`midchart.core.config.imports_lock` and has audited it.

    Raises InputError where it cannot be written down or done; what is left is removed at the next
    start.
    """
    root = settings.data_folder()
    note = root / f"{_WRITTEN}{secrets.token_hex(8)}.json"
    with writing(root):
        with replacing(note) as fresh:
            fresh.write_text(json.dumps(asdict(removal)), encoding="utf-8")
        _carry_out(removal, note)


def _carry_out(removal: Removal, note: Path) -> None:
    """All steps, those done before included; the note goes last."""
    if removal.cohort:
        folder = settings.cohorts_folder() / removal.cohort
        # A folder that was put there since, under the name, is another one.
        if folder.is_dir() and folder.lstat().st_ino == removal.inode:
            delete(settings.received_folder() / removal.cohort)  # the logs that belong to it
            delete(folder)
        sweep(settings.cohorts_folder())
    for run in removal.runs:
        delete(settings.runs_folder() / run)
        delete_tree(reviews_folder(run))
    sweep(settings.runs_folder())
    if removal.cohort:
        cache = settings.cache_folder()
        for one in cache.iterdir() if cache.is_dir() else ():
            if one.is_dir() and not one.is_symlink() and one != settings.models_folder():
                delete_tree(one)
        close_cohorts()
    note.unlink()
    sync_folder(note.parent)


def recover() -> list[str]:
    """End what killed processes have begun; gives one line for each removal that cannot be ended.

    Nothing is done while another process imports or removes: it is at work itself. Nor where the
    cache cannot be written, without which no removal begins.
    """
    try:
        settings.cache_folder().mkdir(parents=True, exist_ok=True)
        lock = Lock.take(settings.imports_lock(), patience_s=0)
    except OSError:
        return []
    if lock is None:
        return []
    problems: list[str] = []
    try:
        for begun in settings.data_folder().glob(f".{_WRITTEN}*"):
            begun.unlink(missing_ok=True)  # a note that was not written to its end
        for note in sorted(settings.data_folder().glob(f"{_WRITTEN}*.json")):
            try:
                with writing(settings.data_folder()):
                    _carry_out(_read(note), note)
            except InputError as error:
                problems.append(f"{note.name}: a removal that was begun is not ended: {error}")
        problems += recover_imports()
        roots = settings.cohorts_folder(), settings.runs_folder(), settings.received_folder()
        for folder in roots:
            try:
                with writing(folder):
                    sweep(folder)
            except InputError as error:
                problems.append(str(error))
    finally:
        lock.release()
    return problems


def _read(note: Path) -> Removal:
    """A removal as it was written down; raises DataError where it names anything else."""
    table = read_json(read_regular(note), note.name)
    names = asdict(Removal())
    if not isinstance(table, dict) or table.keys() != names.keys():
        raise DataError(note.name, None, "is no removal of this program", "delete the file")
    removal = Removal(**table)
    folders = [*removal.runs, *([removal.cohort] if removal.cohort else ())]
    if any(type(one) is not str or one.startswith(".") or Path(one).name != one for one in folders):
        raise DataError(note.name, None, "names no cohort or run", "delete the file")
    return removal
