"""Removing cohorts and runs: hidden by renames, then deleted, then noted in the audit log.

Once the folders are hidden the removal has happened, which needs no space on the disk. What a kill
leaves hidden :func:`recover`, which each start of the program calls, deletes and notes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.charts.convert import sweep_charts
from midchart.core.egress import audit
from midchart.core.errors import InputError, MidchartError
from midchart.core.loaders.open import close_cohorts
from midchart.core.storage.files import (
    LOCK,
    OUTGOING,
    sweep,
    sync_folder,
    temporary_root,
    undeleted,
    writing,
)
from midchart.core.storage.lock import Lock


def remove(facts: Mapping[str, Any], runs: Sequence[str] = (), cohort: str = "") -> list[str]:
    """Remove runs (ids) with their reviews, and a cohort's folder with the logs that belong to it
    and every cache; the caller holds :func:`midchart.core.config.imports_lock`.

    ``facts``: what the audit log says of it, by name. Gives one line for each thing that killed
    processes have left and that cannot be deleted. Raises InputError where a folder cannot be
    removed, WorkFailed where it cannot be audited; what is hidden by then is deleted at the next
    start.
    """
    if cohort:
        _caches()  # may refuse
    named = [settings.received_folder() / cohort] if cohort else []
    named += [*map(settings.reviews_folder, runs), *(settings.runs_folder() / run for run in runs)]
    named += [settings.cohorts_folder() / cohort] if cohort else []
    hidden: list[Path] = []
    with writing(settings.data_folder()):
        for place in filter(os.path.lexists, named):
            hidden.append(place.with_name(f"{OUTGOING}{secrets.token_hex(8)}-{place.name}"))
            place.rename(hidden[-1])
            sync_folder(place.parent)
    if problems := [*undeleted(*hidden[:-1]), *_end(hidden[-1], facts)]:
        raise InputError(". ".join(problems))
    return _sweep()


def _end(hidden: Path, facts: Mapping[str, Any] | None = None) -> list[str]:
    """Delete a folder that a removal has hidden, and note a cohort or run before its name goes;
    gives one line for each thing that cannot be deleted."""
    of_cohort = hidden.parent == settings.cohorts_folder()
    if problems := undeleted(*hidden.iterdir(), *(_caches() if of_cohort else ())):
        return problems
    name = hidden.name.removeprefix(OUTGOING).partition("-")[2]
    if of_cohort:
        close_cohorts()
        folder = str(hidden.with_name(name).resolve())
        audit.note("removed", **(facts or {"cohort": name, "folder": folder}))
    elif hidden.parent == settings.runs_folder():
        audit.note("run removed", **(facts or {"run": name}))
    return undeleted(hidden)


def _caches() -> list[Path]:
    """The folders of caches, which may hold text of records, without those that hold weights,
    temporary files or what the program remembers. Raises InputError where the folder of caches is
    one of other files, which a removal would empty."""
    cache, data = settings.cache_folder().resolve(), settings.data_folder().resolve()
    others = [settings.models_folder(), settings.state_folder(), *_roots()[1:]]
    others = [one.resolve() for one in others]
    if cache == data or any(map(cache.is_relative_to, others)):
        raise InputError(
            f"{cache} is the folder of caches, which a removal empties, and holds other files; set "
            "MIDCHART_CACHE to a separate folder"
        )
    in_use = (*others, data, temporary_root().resolve())
    return [
        one
        for one in sorted(cache.iterdir() if cache.is_dir() else ())
        if one.is_dir()
        and not one.is_symlink()
        and not any(other.is_relative_to(one) for other in in_use)
    ]


def _roots() -> list[Path]:
    """Folders in which hidden folders are made."""
    folders = settings.received_folder(), settings.runs_folder(), settings.cohorts_folder()
    return [settings.data_folder(), settings.reviews_folder(""), *folders]


def _sweep() -> list[str]:
    """Finish the removals and delete the unfinished folders that killed processes have left; gives
    one line for each thing that cannot be deleted."""
    problems = sweep(temporary_root(), temporary_root() / LOCK)
    for root in _roots():
        problems += sweep(root)
        problems += [line for one in sorted(root.glob(f"{OUTGOING}*")) for line in _end(one)]
    return problems


def recover() -> list[str]:
    """End what killed processes have begun; gives one line for each thing that cannot be ended or
    deleted, which the next start tries again.

    Nothing is touched while another process imports or removes: it is at work itself.
    """
    lock = None
    with suppress(OSError):  # nothing was ever written there
        lock = Lock.take(settings.imports_lock(), patience_s=0)
    if lock is None:
        return []
    try:
        with writing(settings.data_folder()):
            if any(settings.runs_folder().glob("*/reviews")):
                from midchart.core.results.importing import settle_reviews

                settle_reviews()
            problems = _sweep()
            sweep_charts()
            return problems
    except MidchartError as error:
        return [f"what a killed process began is not ended: {error}"]
    finally:
        lock.release()
