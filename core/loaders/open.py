"""A cohort of any known format: opened, hashed by its files, and its data-use tag changed.

The first loader that accepts a path reads it. The hash is that by which a run knows that it still
has the cohort it began with. The reason for a change of the tag enters the audit log before the
manifest changes.
"""

from __future__ import annotations

import dataclasses
import errno
import inspect
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.charts.convert import analyse, charts_folder, convert
from midchart.core.charts.store import open_charts
from midchart.core.cohorts.base import CohortLoader, RecordLoader
from midchart.core.cohorts.columns import SETTINGS
from midchart.core.cohorts.data_use import evidence_state, files_digest
from midchart.core.cohorts.files import (
    FileTimes,
    LoadLog,
    check_folder,
    data_error,
    files_below,
    is_hidden,
    read_text,
    shown,
    times_of,
    write_atomic,
)
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
from midchart.core.provenance import add_file, code_digest, digest
from midchart.core.regular_files import open_regular
from midchart.core.storage.files import writing
from midchart.core.storage.lock import exclusive
from midchart.core.types import Cohort, Manifest

FilesState = tuple[FileTimes, ...]


@dataclasses.dataclass(slots=True)
class _Opened:
    """A cohort that is kept open: the state of its files, what they hold, its folder, the files
    outside of its path that are read with it, the state of the evidence of its permissions, and the
    permissions that wait for confirmation."""

    files: FilesState
    cohort: Cohort
    folder: Path
    companions: Sequence[Path]
    evidence: tuple[Any, ...]
    waiting: list[str]

    def current(self, place: Path) -> bool:
        """Whether files and permissions are as they were when the cohort was read."""
        if _state(place, self.folder, self.companions) != self.files:
            return False
        now = evidence_state()
        if now != self.evidence:
            self.evidence = now
            return unconfirmed(self.folder, self.cohort.manifest) == self.waiting
        return True


_open: OrderedDict[Path, _Opened] = OrderedDict()
_lock = threading.RLock()
_QUESTION_FILES = (QUESTIONS_FILE, SETS_FILE)
"""Files of people's own questions, which are read each time."""
OPEN_AT_ONCE = 16
"""Cohorts kept open; their records are made on demand, so this bounds memory, not speed."""


def open_cohort(path: str | Path) -> Cohort:
    """The cohort at a path with the questions that people keep with it; raises DataError.

    Its files are read once and kept while they are unchanged.
    """
    return with_kept_questions(*opened(path))


def opened(path: str | Path) -> tuple[Cohort, Path]:
    """The cohort of :func:`open_cohort` without those questions, and its folder."""
    place = user_path(path).resolve()
    with _lock:
        held = _open.pop(place, None)
    if held is None or not held.current(place):
        held = _read(place)
    with _lock:
        _open[place] = held
        while len(_open) > OPEN_AT_ONCE:
            _open.popitem(last=False)
    return held.cohort, held.folder


ANALYSED_AT_ONCE = 16_000_000
"""Bytes of the files of a cohort whose records are analysed when it is converted."""


def _read(place: Path) -> _Opened:
    """The cohort at a path, of its chart store, which is made where it is not there."""
    folder, companions = _around(place)
    files, evidence = _state(place, folder, companions), evidence_state()
    loader = find_loader(place)
    if isinstance(loader, RecordLoader):
        cohort = _converted(loader, place, folder, files)
        if _state(place, folder, companions) != files:
            reason = "changed while it was read"
            raise DataError(place.name, None, reason, "load it once it is complete")
        if sum(size for *_, size in files) <= ANALYSED_AT_ONCE:
            analyse(cohort)
    else:
        cohort = read_cohort(place)
    waiting = unconfirmed(folder, cohort.manifest)
    return _Opened(files, cohort, folder, companions, evidence, waiting)


def _converted(loader: RecordLoader, place: Path, folder: Path, files: FilesState) -> Cohort:
    """The cohort of the chart store of these files, as a loader reads them."""
    base = place if place.is_dir() else place.parent
    synthetic = loader.manifest(folder, LoadLog()).synthetic
    state = (
        *((os.path.relpath(name, base), *rest) for name, *rest in files if _is_content(name, base)),
        *sorted(column_settings(folder, LoadLog()).items()),
        (loader.name, synthetic, _code_of(type(loader))),
    )
    store = charts_folder(place, digest(repr(state)))

    def from_store() -> Cohort | None:
        return open_charts(store, str(place), partial(loader.manifest, folder))

    try:
        return convert(
            store, place, from_store, partial(convert_files, place, folder, not synthetic)
        )
    except OSError as error:
        raise data_error(error, str(place)) from None


def _is_content(file: str, base: Path) -> bool:
    """Whether a file may decide what a cohort holds: it is not hidden, and not the tag."""
    parts = Path(os.path.relpath(file, base)).parts
    return parts[-1] != FILE and not any(is_hidden(part) and part != ".." for part in parts)


def _code_of(loader: type[RecordLoader]) -> str:
    """A hash of the code that converts: that of this package, and of a loader outside of it."""
    code = code_digest(
        "charts", "cohorts", "documents", "fhir", "loaders", "parsing", "storage", "text", "types"
    )
    module = Path(inspect.getfile(loader))
    if loader.__module__.startswith("midchart.core."):
        return code
    return digest(code, *(file.read_text("utf-8") for file in sorted(module.parent.glob("*.py"))))


def close_cohorts() -> None:
    """Drop the cohorts and records that are held in memory."""
    with _lock:
        _open.clear()


def _state(path: Path, folder: Path, companions: Sequence[Path]) -> FilesState:
    """The state of a cohort's files and, where the path is a part of its folder, of the files next
    to it and of its ``companions``: the data-use tag and the questions are among them."""
    inside = () if folder == path else folder.glob("*")
    neighbours = sorted(file for file in {*inside, *companions} if file.is_file())
    return files_state(path) + tuple(
        one for file in neighbours if file.name not in _QUESTION_FILES for one in files_state(file)
    )


def files_state(path: Path) -> FilesState:
    """The state of a cohort's files, those of people's own questions left out; raises DataError."""
    try:
        files = [times_of(str(path))] if path.is_file() else files_below(str(path))
        known = (one for one in files if one is not None)
        return tuple(sorted(one for one in known if Path(one[0]).name not in _QUESTION_FILES))
    except OSError as error:
        raise data_error(error, str(path)) from None


def read_cohort(path: str | Path) -> Cohort:
    """The cohort that the files at a path hold; raises DataError where it cannot be read."""
    try:
        left_out = check_folder(Path(path)) if Path(path).is_dir() else []
        cohort = find_loader(path).load(str(path))
        cohort.skipped.extend(left_out)
        return cohort
    except OSError as error:
        raise data_error(error, str(path)) from None


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


def _around(place: Path) -> tuple[Path, list[Path]]:
    """The folder of the cohort at a path, and the files outside of the path that are read with it;
    raises as :func:`find_loader`."""
    # By its name alone, which takes no time: a file, or a folder of records, may be a part.
    formats = (LOADERS.get(name) for name in LOADERS.names())
    if (place / FILE).is_file() and all(
        place.name not in getattr(one, "record_folders", ()) for one in formats
    ):
        return place, []
    loader = find_loader(place)
    base = place if place.is_dir() else place.parent
    root = loader.root(place) if isinstance(loader, CohortLoader) else base
    if not isinstance(loader, CohortLoader) or root == place:
        return root, []
    return root, [*loader.companions(place), root / QUESTIONS_FILE]


_NOT_CONTENT = frozenset({"midchart.toml", SETS_FILE})
"""The data-use tag is written on first import, and is a part of the plan by itself; so are the
questions of a set."""


def content_digest(data: str | Path) -> str:
    """A hash of every file of a cohort (names and bytes), dot files and the data-use tag left out,
    and of how the tag says that columns are read.

    Of a part of a cohort's folder, also of the files next to it that are read with it. Raises
    DataError where a file cannot be read.
    """
    root = Path(data)
    inside = [root] if root.is_file() else [path for path in root.rglob("*") if path.is_file()]
    files: dict[str, Path] = {}
    for path in sorted(inside, key=lambda path: path.parts):
        name = path.name if root.is_file() else shown(path, root)
        if path.name not in _NOT_CONTENT and not any(p.startswith(".") for p in name.split("/")):
            files[name] = path
    try:
        folder, companions = _around(root)
    except DataError:  # no loader reads it by now
        folder, companions = root if root.is_dir() else root.parent, []
    for path in companions:
        if path.is_file():
            files[os.path.relpath(path, root if root.is_dir() else root.parent)] = path
    total = blake2b(digest_size=20)
    for name, path in files.items():
        try:
            with open_regular(path) as file:
                add_file(total, name, file)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.ENODEV):  # nothing reads those
                raise DataError(str(path), None, f"cannot be read ({error.strerror})") from None
    for column, reading in sorted(column_settings(folder, LoadLog()).items()):
        total.update(f"{column}\0{reading}\0".encode())
    return total.hexdigest()


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
        text = read_text(file, FILE) if file.exists() else None
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
            write_atomic(file, _replace_field(text, field, value))
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
