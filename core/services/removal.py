"""Removing cohorts and runs: hidden by renames, then deleted, then noted in the audit log.

A removal hides its folders under names that bear its number, the cohort's (or the single run's)
last: from then on it has happened, and needs no space on the disk. What a kill leaves hidden
:func:`recover`, which each start of the program calls, deletes and notes. Runs that were hidden
before their cohort was are removed; the cohort is there still.
"""

from __future__ import annotations

import os
import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.charts.convert import sweep_charts
from midchart.core.egress import audit
from midchart.core.errors import InputError, MidchartError
from midchart.core.loaders.open import close_cohorts
from midchart.core.results.importing import settle_reviews
from midchart.core.results.reviews import reviews_folder
from midchart.core.storage.files import sync_folder, writing
from midchart.core.storage.lock import Lock
from midchart.core.storage.staging import (
    OUTGOING,
    sweep,
    sweep_temporary,
    temporary_root,
    undeleted,
    undeleted_in,
)


@dataclass(frozen=True, slots=True)
class Removal:
    """What is removed: a cohort's folder with the logs that belong to it and every cache, and runs
    (ids) with their reviews. ``facts``: what the audit log says of it, by name."""

    cohort: str = ""
    runs: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def places(self) -> list[Path]:
        """The folders that are removed, the one that shows that it has happened last."""
        logs = [settings.received_folder() / self.cohort] if self.cohort else []
        cohort = [settings.cohorts_folder() / self.cohort] if self.cohort else []
        runs = [settings.runs_folder() / run for run in self.runs]
        return [*logs, *map(reviews_folder, self.runs), *runs, *cohort]


def remove(removal: Removal) -> list[str]:
    """Remove; the caller holds :func:`midchart.core.config.imports_lock`.

    Gives one line for each thing that killed processes have left and that cannot be deleted. Raises
    InputError where a folder is a link or cannot be removed, WorkFailed where it cannot be audited;
    what is hidden by then is deleted at the next start.
    """
    if removal.cohort:
        _require_own_cache()
    places = [place for place in removal.places() if os.path.lexists(place)]
    for place in places:
        if place.is_symlink():
            raise InputError(
                f"{place.parent.name}/{place.name} is a link, which a removal does not follow; "
                "replace it by what it leads to, then remove again"
            )
    number = secrets.token_hex(8)
    hidden = [place.with_name(f"{OUTGOING}{number}-{place.name}") for place in places]
    with writing(settings.data_folder()):
        for place, name in zip(places, hidden, strict=True):
            place.rename(name)
            sync_folder(place.parent)
    if problems := _finish(number, hidden, removal.facts):
        raise InputError(". ".join(problems))
    return [*sweep_temporary(), *_sweep()]


def _finish(number: str, hidden: Sequence[Path], facts: Mapping[str, Any]) -> list[str]:
    """Delete what a removal has hidden, and note it before the last folder goes; gives one line for
    each thing that cannot be deleted, and then leaves the last folder."""
    *others, last = hidden
    problems = [line for folder in others for line in undeleted(folder)]
    problems += undeleted_in(last)
    of_cohort = last.parent == settings.cohorts_folder()
    if of_cohort:
        problems += [line for cache in _caches() for line in undeleted(cache)]
        close_cohorts()
    if problems:
        return problems
    if not audit.is_noted(number):
        audit.removed("removed" if of_cohort else "run removed", removal=number, **facts)
    return undeleted(last)


def _require_own_cache() -> None:
    """Raise InputError where the folder of caches, which a removal empties, has other files."""
    cache = settings.cache_folder().resolve()
    inside = (*_roots()[1:], settings.received_folder())
    same = (settings.data_folder(), settings.state_folder(), settings.models_folder())
    if cache in [one.resolve() for one in same] or any(
        cache.is_relative_to(one.resolve()) for one in inside
    ):
        raise InputError(
            f"{cache} is the folder of caches, which a removal empties, and holds other files; set "
            "MIDCHART_CACHE to a separate folder"
        )


def _caches() -> list[Path]:
    """The folders of caches that may hold text of records: neither those of weights, of temporary
    files and of what the program remembers, nor one that any of these is in."""
    folders = (
        *(settings.models_folder(), temporary_root()),
        *(settings.state_folder(), settings.data_folder()),
    )
    others = [one.resolve() for one in folders]

    def below(folder: Path) -> Iterator[Path]:
        for one in sorted(folder.iterdir()) if folder.is_dir() else ():
            place = one.resolve()
            if one.is_symlink() or not one.is_dir() or place in others:
                continue
            if any(other.is_relative_to(place) for other in others):
                yield from below(one)
            else:
                yield one

    return list(below(settings.cache_folder()))


def _roots() -> list[Path]:
    """Folders in which hidden folders are made, that of the cohorts last."""
    folders = settings.received_folder(), settings.runs_folder(), settings.cohorts_folder()
    return [settings.data_folder(), reviews_folder(""), *folders]


def _sweep() -> list[str]:
    """Finish the removals and delete the unfinished folders that killed processes have left; gives
    one line for each thing that cannot be deleted."""
    removals: dict[str, list[Path]] = defaultdict(list)
    for root in _roots():
        for hidden in sorted(root.glob(f"{OUTGOING}*")):
            removals[hidden.name.removeprefix(OUTGOING).partition("-")[0]].append(hidden)
    problems = [line for root in _roots() for line in sweep(root)]
    for number, hidden in removals.items():
        last = hidden[-1]
        name = last.name.removeprefix(f"{OUTGOING}{number}-")
        facts = {"run": name}
        if last.parent == settings.cohorts_folder():
            facts = {"cohort": name, "folder": str(last.with_name(name).resolve())}
        problems += _finish(number, hidden, facts)
    return problems


def recover() -> list[str]:
    """End what killed processes have begun; gives one line for each thing that cannot be ended or
    deleted, which the next start tries again. None of them stops the others.

    Nothing but temporary folders is touched while another process imports or removes: it is at work
    itself.
    """
    problems = sweep_temporary()
    try:
        lock = Lock.take(settings.imports_lock(), patience_s=0)
    except OSError:  # nothing was ever written there
        return problems
    if lock is None:
        return problems
    try:
        with writing(settings.data_folder()):
            settle_reviews()
            problems += _sweep()
            sweep_charts()
    except MidchartError as error:
        problems.append(f"what a killed process began is not ended: {error}")
    finally:
        lock.release()
    return problems
