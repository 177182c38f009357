"""Removing cohorts and runs in steps that a kill may end anywhere.

A removal is written down, then its folders are renamed to hidden names that bear its number, the
cohort's (or the single run's) last. From then on it is carried out; before, it is taken back. So
:func:`recover`, which each start of the program calls, never deletes what took a name since. It
also deletes what a killed import had taken in.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.egress import audit
from midchart.core.errors import DataError, InputError, MidchartError
from midchart.core.identity import person
from midchart.core.loaders.open import close_cohorts
from midchart.core.parsing import read_json
from midchart.core.regular_files import read_regular
from midchart.core.results.importing import recover_imports
from midchart.core.results.reviews import reviews_folder
from midchart.core.storage.files import replacing, sync_folder, writing
from midchart.core.storage.lock import Lock
from midchart.core.storage.staging import (
    OUTGOING,
    sweep,
    sweep_temporary,
    temporary_root,
    undeleted,
    undeleted_in,
)

_WRITTEN = ".removal-"


def _cache() -> str:
    return str(settings.cache_folder())


@dataclass(frozen=True, slots=True)
class Removal:
    """What is removed: a cohort's folder with the logs that belong to it and every cache, and runs
    (ids) with their reviews. ``facts``: what the audit log says of it, by name."""

    cohort: str = ""
    runs: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    who: str = field(default_factory=lambda: person().name)
    cache: str = field(default_factory=_cache)

    def places(self) -> list[Path]:
        """The folders that are removed; when the last one is hidden, the removal has begun."""
        logs = [settings.received_folder() / self.cohort] if self.cohort else []
        cohort = [settings.cohorts_folder() / self.cohort] if self.cohort else []
        runs = [settings.runs_folder() / run for run in self.runs]
        return [*logs, *map(reviews_folder, self.runs), *runs, *cohort]

    def write_audit(self, number: str) -> None:
        """Write its line of the audit log."""
        event = "removed" if self.cohort else "run removed"
        audit.removed(event, who=self.who, removal=number, **self.facts)


def remove(removal: Removal) -> list[str]:
    """Remove; the caller holds :func:`midchart.core.config.imports_lock`.

    Gives one line for each thing that killed processes have left and that cannot be deleted. Raises
    InputError where a folder is a link, or it cannot be written down or done, WorkFailed where it
    cannot be audited; what has begun is ended at the next start.
    """
    places = removal.places()
    if removal.cohort:
        _require_own_cache()
    for place in places:
        if place.is_symlink():
            raise InputError(
                f"{place.parent.name}/{place.name} is a link, which a removal does not follow; "
                "replace it by what it leads to, then remove again"
            )
    root, number = settings.data_folder(), secrets.token_hex(8)
    note = root / f"{_WRITTEN}{number}.json"
    with writing(root):
        with replacing(note) as fresh:
            fresh.write_text(json.dumps(asdict(removal)), encoding="utf-8")
        try:
            _hide(places, number)
            removal.write_audit(number)
        except BaseException:
            _take_back(places, number)
            _end(note)
            raise
        _carry_out(removal, note)
    return [*sweep_temporary(), *_sweep()]


def _require_own_cache() -> None:
    """Raise InputError where the folder of caches, which a removal empties, has other files."""
    cache = settings.cache_folder().resolve()
    other_files = (
        settings.cohorts_folder(),
        settings.runs_folder(),
        settings.received_folder(),
        reviews_folder("").parent,
    )
    same = (settings.data_folder(), settings.state_folder(), settings.models_folder())
    if cache in [one.resolve() for one in same] or any(
        cache.is_relative_to(one.resolve()) for one in other_files
    ):
        raise InputError(
            f"{cache} is the folder of caches, which a removal empties, and holds other files; set "
            "MIDCHART_CACHE to a separate folder"
        )


def linked_caches() -> list[str]:
    """The links in the folders of caches, which lead elsewhere: a removal leaves what is there."""
    cache = settings.cache_folder()
    if not cache.is_dir():
        return []
    others = settings.models_folder(), temporary_root()
    within = [path for one in _caches() for path in one.rglob("*")]
    links = [one for one in (*cache.iterdir(), *within) if one.is_symlink() and one not in others]
    outside = [one for one in links if not one.resolve().is_relative_to(cache.resolve())]
    return sorted(f"cache/{one.relative_to(cache).as_posix()}" for one in outside)


def _caches() -> list[Path]:
    """The folders of caches that may hold text of records: neither those of weights, of temporary
    files and of what the program remembers, nor one that any of these is in."""
    others = [
        one.resolve()
        for one in (
            settings.models_folder(),
            temporary_root(),
            settings.state_folder(),
            settings.data_folder(),
        )
    ]

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


def _hidden(place: Path, number: str) -> Path:
    return place.with_name(f"{OUTGOING}{number}-{place.name}")


def _number(note: Path) -> str:
    return note.name[len(_WRITTEN) : -len(".json")]


def _hide(places: Sequence[Path], number: str) -> None:
    for place in places:
        if place.exists() or place == places[-1]:
            place.rename(_hidden(place, number))
            sync_folder(place.parent)


def _take_back(places: Sequence[Path], number: str) -> None:
    """Give the folders of a removal that has not begun their names again; raises InputError for
    those whose name was taken meanwhile, which stay hidden."""
    taken: list[str] = []
    for place in places:
        hidden = _hidden(place, number)
        if not hidden.exists():
            continue
        if place.exists():
            taken.append(f"{place.parent.name}/{place.name} (now {hidden.name})")
            continue
        hidden.rename(place)
        sync_folder(place.parent)
    if taken:
        raise InputError(
            f"the names of {', '.join(taken)} were taken since; rename what has them now, then "
            "start again, or delete the hidden folder and the note"
        )


def _carry_out(removal: Removal, note: Path) -> None:
    """All steps after the hidden names, those done before included; the folder that shows that it
    has begun goes after the caches, and the note last. Both stay where anything cannot be deleted:
    InputError says what, once all else is deleted."""
    *others, last = (_hidden(place, _number(note)) for place in removal.places())
    problems = [line for folder in others for line in undeleted(folder)] + undeleted_in(last)
    if removal.cohort:
        try:
            problems += _without_caches(removal)
        except InputError as error:
            problems.append(str(error))
    problems = problems or undeleted(last)
    if problems:
        raise InputError(". ".join(problems))
    _end(note)


def _without_caches(removal: Removal) -> list[str]:
    """:func:`undeleted` the caches; raises InputError where they are not this removal's alone."""
    if removal.cache != _cache() and Path(removal.cache).exists():
        raise InputError(
            f"its caches are in {removal.cache}; start once with MIDCHART_CACHE set to it, or "
            "delete that folder"
        )
    _require_own_cache()
    with writing(settings.cache_folder()):
        problems = [line for one in _caches() for line in undeleted(one)]
    close_cohorts()
    return problems


def _end(note: Path) -> None:
    note.unlink(missing_ok=True)
    sync_folder(note.parent)


def _roots() -> list[Path]:
    """Folders in which hidden folders are made."""
    data = settings.data_folder()
    others = settings.cohorts_folder(), settings.runs_folder(), settings.received_folder()
    return [data, *others, reviews_folder("")]


def _notes() -> list[Path]:
    """The removals that are written down."""
    return sorted(settings.data_folder().glob(f"{_WRITTEN}*.json"))


def _sweep() -> list[str]:
    """Delete the hidden folders that killed processes have left, except those of removals that are
    written down; gives one line for each that cannot be deleted."""
    spared = tuple(f"{OUTGOING}{_number(note)}-" for note in _notes())
    return [line for root in _roots() for line in sweep(root, spared)]


def recover() -> list[str]:
    """End what killed processes have begun; gives one line for each thing that cannot be ended or
    deleted, which the next start tries again. None of them stops the others.

    Nothing but temporary folders is touched while another process imports or removes: it is at work
    itself.
    """
    problems = sweep_temporary()
    place = settings.imports_lock()
    try:
        lock = Lock.take(place, patience_s=0)
    except OSError as error:
        if _notes():
            reason = f"cannot be written ({error.strerror}); fix its permissions"
            problems.append(f"{place}: a removal that was begun is not ended, as this {reason}")
        return problems
    if lock is None:
        return problems
    try:
        for begun in settings.data_folder().glob(f".{_WRITTEN}*"):
            problems += undeleted(begun)  # a note that was not written to its end
        for note in _notes():
            try:
                with writing(settings.data_folder()):
                    _recover(_read(note), note)
            except MidchartError as error:
                problems.append(f"{note.name}: a removal that was begun is not ended: {error}")
        problems += recover_imports()
        problems += _sweep()
    finally:
        lock.release()
    return problems


def _recover(removal: Removal, note: Path) -> None:
    """End a removal that has begun, with its line of the audit log; take back any other."""
    places, number = removal.places(), _number(note)
    if _hidden(places[-1], number).exists():
        if not audit.is_noted(number):
            removal.write_audit(number)
        _carry_out(removal, note)
    else:
        _take_back(places, number)
        _end(note)


def _read(note: Path) -> Removal:
    """A removal as it was written down; raises DataError where it names anything else."""
    table = read_json(read_regular(note), note.name)
    names = asdict(Removal())
    if not isinstance(table, dict) or table.keys() != names.keys():
        raise DataError(note.name, None, "is no removal of this program", "delete the file")
    of_type = {name: type(table[name]) is type(names[name]) for name in ("cohort", "who", "cache")}
    facts = table["facts"]
    if not all(of_type.values()) or not isinstance(table["runs"], list) or type(facts) is not dict:
        raise DataError(note.name, None, "is no removal of this program", "delete the file")
    removal = Removal(**table)
    folders = [*removal.runs, *([removal.cohort] if removal.cohort else ())]
    if not folders or any(
        type(one) is not str or one.startswith(".") or Path(one).name != one for one in folders
    ):
        raise DataError(note.name, None, "names no cohort or run", "delete the file")
    if not facts.keys() <= _FACTS or any(type(v) not in (str, int, bool) for v in facts.values()):
        raise DataError(note.name, None, "is no removal of this program", "delete the file")
    return removal


_FACTS = {"cohort", "folder", "files", "runs", "run", "imported"}
"""What the audit log says of a removal."""
