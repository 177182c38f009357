"""A cohort of any known format: opened, hashed by its files, and its data-use tag changed.

The first loader that accepts a path reads it. The hash is that by which a run knows that it still
has the cohort it began with. The reason for a change of the tag enters the audit log before the
manifest changes.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from midchart.core import config as settings
from midchart.core.charts.convert import charts_folder, convert
from midchart.core.charts.store import open_charts
from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import SETTINGS
from midchart.core.cohorts.data_use import evidence_state, files_digest
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.kept_questions import QUESTIONS_FILE, SETS_FILE, with_kept_questions
from midchart.core.cohorts.manifest import (
    FIELDS,
    FILE,
    column_settings,
    read_manifest,
    unconfirmed,
    write_column_settings,
    write_manifest,
)
from midchart.core.egress import audit
from midchart.core.errors import DataError, DataUseError, InputError, UnknownName
from midchart.core.loaders import LOADERS
from midchart.core.loaders.formats import find_loader
from midchart.core.loaders.worker import convert_files
from midchart.core.parsing import read_toml, user_path
from midchart.core.provenance import code_digest, digest, files_hash
from midchart.core.storage.files import FileState, file_state, write_text, writing
from midchart.core.storage.lock import exclusive
from midchart.core.storage.lru import LRU
from midchart.core.storage.sources import (
    Source,
    check_folder,
    files_at,
    is_hidden,
    reading_file,
)
from midchart.core.types import Cohort, Manifest

FilesState = tuple[FileState, ...]
Folder = tuple[Path, tuple[Source, ...]]
"""The folder of a cohort at a path, and the files outside of the path that are read with it."""
_open: LRU[Cohort] = LRU(16)
"""Records are made on demand, so the size bounds memory, not speed."""
_folders: LRU[Folder] = LRU(16)
_waiting: LRU[tuple[str, ...]] = LRU(16)
"""Permissions that a tag states and nobody confirmed."""
_QUESTION_FILES = (QUESTIONS_FILE, SETS_FILE)
"""Files of people's own questions, which are read each time."""


def open_cohort(path: str | Path) -> Cohort:
    """The cohort at a path with the questions that people keep with it; raises DataError.

    Its files are read once and kept while they are unchanged.
    """
    return with_kept_questions(*opened(path))


def opened(path: str | Path) -> tuple[Cohort, Path]:
    """The cohort of :func:`open_cohort` without those questions, and its folder."""
    place = user_path(path).resolve()
    inside = files_state(place)
    folder, companions = _folders.get((place, inside), lambda: _around(place))

    def state_of_neighbours() -> FilesState:
        """The state of the files next to a part of a cohort's folder."""
        next_to = () if folder == place else set(folder.glob("*")) - {place}
        return _state({*map(file_state, next_to), *(one.state for one in companions)})

    def read() -> Cohort:
        synthetic = read_manifest(folder, Manifest(""), LoadLog()).synthetic
        code, settings = _code(), sorted(column_settings(folder, LoadLog()).items())
        names = [(name, *times) for name, (_, *times) in _content(files, place)]
        store = charts_folder(place, code, digest(repr((names, settings, synthetic, code))))

        def stored() -> Cohort | None:
            return open_charts(
                store, str(place), lambda format, log: LOADERS.build(format).manifest(folder, log)
            )

        if (cohort := stored()) is not None:
            return cohort
        if not isinstance(find_loader(place), RecordLoader):
            return read_cohort(place)
        with reading_file(str(place)):
            write = partial(convert_files, place, folder, not synthetic)
            cohort = convert(store, place, stored, write)
        if files_state(place) + state_of_neighbours() != files:
            raise DataError(place.name, None, "changed while it was read", "load it once complete")
        return cohort

    files = inside + state_of_neighbours()
    waiting = _waiting.get(
        (folder, files, evidence_state()), lambda: tuple(unconfirmed(folder, Manifest("")))
    )
    return _open.get((place, files, waiting), read), folder


def _content(files: Iterable[FileState], place: Path) -> list[tuple[str, FileState]]:
    """The files that may decide what the cohort at a path holds, each with its path from there:
    those that are not hidden, nor its tag or questions of sets."""
    base = place if place.is_dir() else place.parent
    named = ((os.path.relpath(file[0], base), file) for file in files)
    return [
        (name, file)
        for name, file in named
        if Path(name).name not in (FILE, SETS_FILE)
        and not any(is_hidden(part) and part != ".." for part in Path(name).parts)
    ]


def _code() -> str:
    """A hash of the code that converts: of this package, which loaders there are, and those outside
    of it."""
    code = code_digest(
        *("bm25", "charts", "cohorts", "documents", "fhir", "loaders", "parsing", "protocol"),
        *("storage", "text", "types"),
    )
    loaders = {name: LOADERS.get(name) for name in LOADERS.names()}
    outside = [o for o in loaders.values() if not o.__module__.startswith("midchart.core.")]
    folders = {Path(inspect.getfile(one)).parent for one in outside}
    files = sorted(file for folder in folders for file in folder.glob("*.py"))
    return digest(code, *loaders, *(file.read_text("utf-8") for file in files))[:16]


def close_cohorts() -> None:
    """Drop the cohorts and records that are held in memory."""
    _open.clear()


def files_state(place: Path) -> FilesState:
    """The state of a cohort's files, those of people's own questions left out; raises DataError."""
    return _state(_files(place))


def _state(files: Iterable[FileState | None]) -> FilesState:
    there = filter(None, files)
    return tuple(sorted(one for one in there if Path(one[0]).name not in _QUESTION_FILES))


def _files(place: Path) -> list[FileState]:
    with reading_file(str(place)):
        return list(files_at(str(place)))


def read_cohort(path: str | Path) -> Cohort:
    """The cohort that the files at a path hold; raises DataError where it cannot be read."""
    with reading_file(str(path)):
        left_out = check_folder(Path(path)) if Path(path).is_dir() else []
        cohort = find_loader(path).load(str(path))
        cohort.skipped.extend(left_out)
        return cohort


def still_allows(cohort: Cohort, permission: str) -> bool:
    """Whether an opened cohort's tag allows it still, for the files as they are now.

    ``permission``: of :data:`midchart.core.cohorts.manifest.FIELDS`. A cohort whose files are gone
    allows nothing; one that is made in memory, what its manifest says. Raises DataError where its
    files cannot be read.
    """
    place = Path(cohort.path)
    if not getattr(cohort.manifest, permission):
        return False
    if not place.exists():
        return not place.is_absolute()  # those of files have an absolute path
    folder = cohort_folder(place.resolve())
    default = dataclasses.replace(cohort.manifest, **dict.fromkeys(FIELDS, False))
    return getattr(read_manifest(folder, default, LoadLog()), permission)


def refuse_untrainable(cohort: Cohort, permitted_by: str = "") -> None:
    """Raise DataUseError where the cohort's tag forbids training on it, or does so by now.

    ``permitted_by``: the agreement under which a user may allow it.
    """
    if not still_allows(cohort, "training_allowed"):
        raise DataUseError(
            f"{cohort.manifest.name or cohort.path}: its data-use tag does not allow training; "
            f"{permitted_by}allow it with a reason (page Data, or midchart data-use DATA "
            "training_allowed yes --reason TEXT)"
        )


def cohort_folder(path: str | Path) -> Path:
    """The folder of the cohort at a path, where its manifest is; raises as :func:`find_loader`."""
    return _around(Path(path))[0]


def _around(place: Path) -> Folder:
    # By its name alone, which takes no time: a file, or a folder of records, may be a part.
    formats = (LOADERS.get(name) for name in LOADERS.names())
    if (place / FILE).is_file() and all(
        place.name not in getattr(one, "record_folders", ()) for one in formats
    ):
        return place, ()
    loader = find_loader(place)
    root = loader.root(place)
    companions = loader.companions(Source(place, root))
    return root, () if root == place else (*companions, Source.at(root).within(QUESTIONS_FILE))


def content_digest(data: str | Path) -> str:
    """A hash of every file of a cohort (names and bytes), hidden files, the data-use tag and
    questions of sets left out, and of how the tag says that columns are read.

    Of a part of a cohort's folder, also of the files next to it that are read with it. Raises
    DataError where a file cannot be read.
    """
    place = Path(data)
    try:
        folder, companions = _around(place)
    except DataError:  # no loader reads it by now
        folder, companions = Source.at(place).root, ()
    inside = sorted(_files(place), key=lambda file: Path(file[0]).parts)
    there = [*inside, *filter(None, (one.state for one in companions))]
    # The tag is a part of the plan by itself; so are the questions of a set.
    named = _content(there, place)
    files = ((name, Source(Path(path), folder)) for name, (path, *_) in named)
    settings = sorted(column_settings(folder, LoadLog()).items())
    return files_hash(
        ((name, file.digest) for name, file in files if not file.leads_out()),
        more="".join(f"{column}\0{reading}\0" for column, reading in settings).encode(),
    )


def set_data_use(data: str | Path, field: str, value: bool, reason: str) -> Manifest:
    """Set a field of the tag of the cohort at ``data``; returns the new tag.

    Raises UnknownName for a field other than those of the tag, InputError without a reason,
    DataError where the manifest cannot be read or written. Only the field's line changes.
    """
    if field not in FIELDS:
        raise UnknownName("field of the data-use tag", field, FIELDS)
    with _tags():
        place, manifest = Path(data), open_cohort(data).manifest
        file = cohort_folder(place) / FILE
        text = Source.at(file).text() if file.exists() else None
        if text is not None:
            read_toml(text, str(file))  # may raise, so before the audit entry
        audit.tag_changed(
            cohort=manifest.name,
            folder=file.parent,
            field=field,
            before=getattr(manifest, field),
            after=value,
            reason=reason,
            digest=files_digest(file.parent) if value else "",
        )
        if text is None:
            write_manifest(file.parent, dataclasses.replace(manifest, **{field: value}))
        else:
            write_text(file, _replace_field(text, field, value))
        return open_cohort(place).manifest


@contextmanager
def _tags() -> Generator[None]:
    """One process at a time changes a ``midchart.toml``."""
    lock = settings.data_folder() / "tags.lock"
    with writing(lock.parent), exclusive(lock):
        yield


def settle_columns(data: str | Path, readings: Mapping[str, str]) -> Cohort:
    """The cohort at ``data``, its columns read as a person says from now on.

    ``readings``: "table.column" → one of :data:`midchart.core.cohorts.columns.SETTINGS`; other
    columns keep the reading that ``midchart.toml`` states. Raises InputError for another reading,
    DataError where the file cannot be read or written.
    """
    for column, reading in readings.items():
        if reading not in SETTINGS:
            known = ", ".join(SETTINGS)
            raise InputError(f"{column!r} cannot be read as {reading!r}; choose one of: {known}")
    folder = cohort_folder(Path(data))
    with _tags():
        write_column_settings(folder, column_settings(folder, LoadLog()) | dict(readings))
    return open_cohort(data)


def _replace_field(text: str, field: str, value: bool) -> str:
    """The manifest's text with one field set; a missing field is added before any table."""
    line = f"{field} = {str(value).lower()}"
    table = re.search(r"(?m)^[ \t]*\[", text)
    top, rest = (text[: table.start()], text[table.start() :]) if table else (text, "")
    changed, n = re.subn(rf"(?m)^[ \t]*{field}[ \t]*=[ \t]*(?:true|false)", line, top, count=1)
    return (changed if n else f"{line}\n{top}") + rest
