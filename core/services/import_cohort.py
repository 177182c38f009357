"""Importing a cohort from files, a zip or a folder into a private folder; removing one.

The source is copied to a hidden folder next to the cohorts, read once, and renamed into place, so
that a cohort exists complete or not at all. Only regular files are taken, links and paths that lead
out of the folder are refused, and every limit is stated in the message that refuses.
"""

from __future__ import annotations

import dataclasses
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from midchart.core import config as settings
from midchart.core.access import Upload, needs
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.manifest import (
    FIELDS,
    FILE,
    column_settings,
    read_manifest,
    write_column_settings,
    write_manifest,
)
from midchart.core.egress import audit
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.formats import find_loader
from midchart.core.loaders.open import open_cohort
from midchart.core.parsing import user_path
from midchart.core.runs.directory import find_run, run_ids
from midchart.core.runs.status import state_of
from midchart.core.services.cohorts import cohorts
from midchart.core.services.removal import recover, remove
from midchart.core.services.runs import made_on, unassigned_runs
from midchart.core.storage.files import incoming, sync_folder, writing
from midchart.core.storage.lock import exclusive
from midchart.core.storage.sources import UntrustedZip, relative_path
from midchart.core.types import Manifest

LARGEST_COHORT = 16 << 30
"""Bytes of all files of a cohort together, a zip's uncompressed."""
_MOST_FILES = 200_000
_ACTIVE = ("queued", "running", "cancelling")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_BLOCK = 1 << 20
_Source = tuple[str, "IO[bytes] | Path"]
"""A file's name (with folders, by /) and where its bytes are."""
_Progress = Callable[[int, int], None]
"""Called with bytes copied and bytes in all."""


@needs("viewer")
def cohort_name(text: str) -> str:
    """A cohort's name as its folder has it; raises InputError for a bad or a taken one."""
    name = text.strip().lower().replace(" ", "-")
    if not _NAME.fullmatch(name):
        raise InputError(
            "a cohort's name has 1 to 64 letters, digits, hyphens or underscores, such as 'ward-3'"
        )
    if (settings.cohorts_folder() / name).exists():
        raise InputError(f"there is a cohort {name!r} already; choose another name")
    return name


class LimitedCopy:
    """Copies files into a folder within the limits."""

    def __init__(self, folder: Path, total: int, progress: _Progress | None) -> None:
        self.folder, self.total, self.progress = folder, total, progress
        self.bytes = self.files = 0

    def add(self, name: str, source: IO[bytes]) -> None:
        """Copy one file; raises DataError over a limit."""
        path = relative_path(name)
        if not path.parts or any(p.startswith(".") or p == "__MACOSX" for p in path.parts):
            return  # a system file
        self.files += 1
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if target.exists():
            raise DataError(name, None, "is there twice", "rename one of the files")
        with target.open("xb") as copied:
            target.chmod(0o600)
            while block := source.read(_BLOCK):
                self.bytes += len(block)
                if self.bytes > LARGEST_COHORT or self.files > _MOST_FILES:
                    limit = f"{LARGEST_COHORT >> 30} GB and {_MOST_FILES:,} files a cohort"
                    raise DataError(name, None, "is too large", f"the limits are {limit}")
                copied.write(block)
                if self.progress is not None:
                    self.progress(self.bytes, max(self.total, self.bytes))


def _sources(files: Path | Iterable[_Source]) -> list[_Source]:
    """Files by their names; of a path the regular ones, where nothing else is among them."""
    if not isinstance(files, Path):
        return list(files)
    place = user_path(files)
    is_folder = place.is_dir() and not place.is_symlink()
    sources: list[_Source] = []
    for path in sorted(place.rglob("*")) if is_folder else [place]:
        name = path.relative_to(place if is_folder else place.parent).as_posix()
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            sources.append((name, path))
        elif not stat.S_ISDIR(mode):
            raise DataError(name, None, "is a link or a special file", "copy the file itself there")
    return sources


@needs("owner", paths=("path",))
def import_cohort(
    name: str,
    files: Upload[Path | Iterable[_Source]],
    *,
    progress: _Progress | None = None,
    reading: _Progress | None = None,
) -> dict[str, Any]:
    """Copy files into ``data/cohorts/NAME`` and read them; gives the check's report.

    ``files``: a path (file or folder), or names with their bytes; a zip is unpacked. ``progress``
    gets the bytes copied and in all, ``reading`` the records. Nothing is permitted at first.
    Raises InputError or DataError, in one line; then nothing is left of it.
    """
    name = cohort_name(name)
    tag = dict.fromkeys(FIELDS, False)
    root = settings.cohorts_folder()
    with writing(root):
        root.mkdir(parents=True, exist_ok=True)
        recover()
    with writing(root), incoming(root, settings.imports_lock()) as staging:
        try:
            # Copy the files into a hidden folder.
            sources = _sources(files)
            total = sum(s.stat().st_size for _, s in sources if isinstance(s, Path))
            copy = LimitedCopy(staging, total, progress)
            for source_name, source in sources:
                with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
                    if not source_name.lower().endswith(".zip"):
                        copy.add(source_name, file)
                        continue
                    archive = UntrustedZip(file, source_name)
                    copy.total += sum(archive.check(_MOST_FILES, LARGEST_COHORT).values())
                    for member in archive.names:
                        with archive.open(member) as opened:
                            copy.add(member, opened)
            if not copy.files:
                raise DataError(name, None, "holds no file", "choose the files of a cohort")
            # Read and check the cohort; only its columns' settings are taken from its tag.
            place = _cohort_in(staging)
            stated = read_manifest(place, Manifest(name), LoadLog())
            columns = column_settings(place, LoadLog())
            (place / FILE).unlink(missing_ok=True)
            if columns:
                write_column_settings(place, columns)
            cohort = open_cohort(place)
            report = check_cohort(cohort, reading)
            imported = datetime.now(UTC).isoformat(timespec="seconds")
            source = stated.source or cohort.manifest.source
            facts = {"name": name, "source": source, "licence": stated.licence, **tag}
            manifest = dataclasses.replace(cohort.manifest, imported=imported, **facts)
            # Note the import, then give the folder its name.
            with exclusive(settings.imports_lock()):
                cohort_name(name)  # another import may have taken it meanwhile
                facts = {"format": cohort.format, "files": copy.files, "size": copy.bytes, **tag}
                audit.note("imported", cohort=name, folder=str((root / name).resolve()), **facts)
                write_manifest(place, manifest)
                if columns:
                    write_column_settings(place, columns)
                place.rename(root / name)
                sync_folder(root)
        except DataError as error:
            if not error.file.startswith(str(staging)):
                raise
            raise DataError(name, error.line, error.reason, error.remedy) from None
        except OSError as error:
            reason = f"cannot be copied ({error.strerror or type(error).__name__})"
            raise DataError(name, None, reason, "check the files and the free space") from None
    return report | {"name": name, "path": str(root / name)}


def _cohort_in(folder: Path) -> Path:
    """The folder that a loader reads: ``folder``, or the only folder in it, and so on."""
    try:
        find_loader(folder)
    except DataError:
        inside = list(folder.iterdir())
        if len(inside) == 1 and inside[0].is_dir():
            return _cohort_in(inside[0])
    return folder


@needs("owner")
def remove_cohort(name: str, runs: bool = False) -> dict[str, Any]:
    """Remove the cohort ``data/cohorts/NAME`` and every cache, which may hold its text; with
    ``runs`` also the runs made on it.

    ``damaged_runs``: those whose cohort cannot be read, and ``undeleted``: one line for each thing
    of killed processes that cannot be deleted. Raises UnknownName, and InputError while any run is
    active or where the folder was placed by hand.
    """
    lock = settings.imports_lock()
    with writing(lock.parent), exclusive(lock):  # one removal at a time, and no import begins
        folder = settings.cohorts_folder() / name
        if not _NAME.fullmatch(name) or not folder.is_dir() or folder.is_symlink():
            raise UnknownName("cohort", name, [card.name for card in cohorts()])
        if not read_manifest(folder, Manifest(name), LoadLog()).imported:
            raise InputError(f"cohort {name!r} was not imported here; remove its folder yourself")
        cohort_runs = [run for run in map(find_run, run_ids()) if made_on(run, folder)]
        # Caches are shared, so that no run of any cohort may be at work.
        active = [run for run in run_ids() if state_of(find_run(run)) in _ACTIVE]
        if active:
            raise InputError(f"run {active[0]} is active and uses the caches; cancel it first")
        files = sum(path.is_file() for path in folder.rglob("*"))
        also = [run.id for run in cohort_runs] if runs else []
        place = str(folder.resolve())
        facts = {"cohort": name, "folder": place, "files": files, "runs": len(also)}
        undeleted = remove(facts, also, name)
        counts = {"files": files, "runs": len(also)}
        return counts | {"damaged_runs": unassigned_runs(), "undeleted": undeleted}
