"""Whole runs: the replication's steps started, exports written and opened, runs removed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import CohortRef, Entries, RunRef, needs
from midchart.core.cohorts.demo import DEMOS
from midchart.core.egress import audit
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.experiments.replication.steps import ARMS, readers_of, replication, step_specs
from midchart.core.parsing import read_json
from midchart.core.results.export import MANIFEST, export_run, read_manifest
from midchart.core.results.importing import add_included
from midchart.core.runs.directory import LOG_OF, RunDirectory, find_run, take_lock
from midchart.core.runs.process import enqueue
from midchart.core.runs.spec import DEMO, read_toml
from midchart.core.runs.status import damaged_runs
from midchart.core.services.cohorts import open_data, prepare_demo
from midchart.core.services.components import members, only_quotes
from midchart.core.services.removal import remove
from midchart.core.storage.files import temporary_folder, write_text, writing
from midchart.core.storage.lock import exclusive
from midchart.core.types import Cohort

FIELDS = ("reader", "judges", "arms", "allow_hosts", "part")


@needs("viewer", paths=("data",))
def replication_specs(
    data: CohortRef, reader: Entries[str], changes: Entries[Mapping[str, Any] | None] = None
) -> dict[str, dict[str, Any]]:
    """The spec of every step and every fault alone, by its name.

    ``reader``: a name, or the label of a reader of an earlier run; ``changes``: :data:`FIELDS` as a
    spec has them. Raises UnknownName.
    """
    path = open_data(data).path
    unknown = sorted((changes or {}).keys() - set(FIELDS))
    if unknown:
        raise UnknownName("field of a replication", unknown[0], FIELDS)
    fields: dict[str, Any] = {"reader": readers_of(path).get(reader, reader)}
    fields |= {"allow_hosts": [], "part": "", **(changes or {})}
    if "judges" not in fields:
        preset = settings.ROOT / "docs" / f"{DEMO}.toml"
        fields["judges"] = read_toml(preset.read_text(encoding="utf-8"))["judges"]
    if "arms" not in fields:
        writes = not only_quotes(_name(fields["reader"]))
        fit = {c.name for c in members("arm") if c.installed and (writes or not c.problem)}
        fields["arms"] = [arm for arm in ARMS if _name(arm) in fit]
    return step_specs(
        path, *(fields[name] for name in ("arms", "reader", "judges", "allow_hosts", "part"))
    )


@needs("researcher")
def replicate(
    data: CohortRef, reader: Entries[str], changes: Entries[Mapping[str, Any] | None] = None
) -> list[str]:
    """Queue the runs of a replication that this installation has not made on the cohort, or with
    ``changes`` all of them; gives their ids. Raises as :func:`replication_specs` and
    :func:`midchart.core.runs.process.enqueue` do."""
    specs = replication_specs(data, reader, changes)
    first = next(iter(specs.values()))
    rows = replication(first["data"], reader, first["arms"], first["judges"])
    present = {
        row["name"]
        for row in (*rows["steps"], *rows["alone"])
        if row["run"] is not None and not row["imported"]
    }
    return [enqueue(spec) for name, spec in specs.items() if changes or name not in present]


def _name(entry: str | Mapping[str, Any]) -> str:
    return entry if isinstance(entry, str) else str(entry["name"])


@needs("viewer")
def run_cohort(run: RunRef) -> Cohort:
    """The cohort that a run was made on, of an imported run that of this installation; raises as
    :meth:`midchart.core.runs.directory.RunDirectory.cohort_path`."""
    return open_data(find_run(run).cohort_path())


@needs("researcher")
def export_bytes(run: RunRef, with_text: bool = False) -> bytes:
    """A finished run's zip, for a page's download; raises as
    :func:`midchart.core.results.export.export_run` does."""
    with temporary_folder() as place:
        file = place / f"{run}.zip"
        export_run(run, file, with_text)
        return file.read_bytes()


@needs("viewer")
def download(file: str, make: Callable[[], bytes | str]) -> bytes | str:
    """What ``make`` gives, for a page to hand to a browser as ``file``; audited first."""
    audit.note("downloaded", file=file)
    return make()


_COMMANDS = "commands.json"
"""In the folder of exports: file, or folder of files that one command made, → the command."""


def _files() -> dict[str, tuple[Path, dict[str, Any]]]:
    """Run → its export and that one's manifest."""
    files: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(settings.shipped_folder().rglob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            manifest = read_manifest(archive.read(MANIFEST))
        files[manifest["run"]] = (path, manifest)
    return files


@needs("viewer")
def shipped_runs(kind: str = "") -> list[dict[str, Any]]:
    """The included exports (of a kind): ``run``, ``made`` (time), the ``command`` of each, and the
    ``folder`` of those that one command made together, "" for one alone."""
    top = settings.shipped_folder()
    book = top / _COMMANDS
    commands = json.loads(book.read_text(encoding="utf-8")) if book.exists() else {}
    rows: list[dict[str, Any]] = []
    for run, (path, manifest) in _files().items():
        folder = "" if path.parent == top else path.parent.name
        alone = commands.get(path.relative_to(top).as_posix())
        command = alone or commands.get(folder, "")
        if kind in ("", manifest["kind"]):
            about = {"made": manifest["made"], "command": command, "folder": folder}
            rows.append({"run": run, **about})
    return rows


@needs("researcher")
def open_examples() -> dict[str, int]:
    """Open all included exports that are not here yet; ``opened`` and ``already_here``: how many.
    Raises InputErrors."""
    files = _files()
    missing = _absent(files)
    for run in missing:
        add_included(files[run][0])
    return {"opened": len(missing), "already_here": len(files) - len(missing)}


def _absent(runs: Iterable[str]) -> list[str]:
    return [run for run in runs if not (settings.runs_folder() / run).exists()]


_SEEN = ".included.json"
"""In the folder of runs: those of the included ones that were there once. One that a person removed
does not come back, and one that a start was interrupted at does."""


def _add_included() -> int:
    """Add the included runs that were never here; gives how many."""
    place = settings.runs_folder() / _SEEN
    seen = set(read_json(place.read_bytes(), place.name)) if place.is_file() else set[str]()
    files = _files()
    fresh = [run for run in files if run not in seen]
    for run in _absent(fresh):
        add_included(files[run][0])
    if fresh:
        write_text(place, json.dumps(sorted(files)))
    return len(fresh)


@needs("owner")
def remove_run(run: RunRef) -> dict[str, int]:
    """Remove a run that is not active, also a damaged one, with its rows, log and reviews; gives
    the number of ``files``. Raises UnknownName, and InputError where it is running or queued, or
    cannot be removed."""
    folder = find_run(run)
    if folder.queued.exists():
        raise InputError(f"run {run} is queued; cancel it first")
    lock = take_lock(folder)
    try:
        files = sum(not path.is_dir() for path in folder.path.rglob("*"))
        facts = {"cohort": _cohort_of(folder), "imported": folder.imported.exists()}
        guard = settings.imports_lock()
        with writing(guard.parent), exclusive(guard):
            remove({"run": run, **facts, "files": files}, [run])
    finally:
        lock.release()
    return {"files": files}


def _cohort_of(folder: RunDirectory) -> str:
    """The path of a run's cohort, also of a run that cannot be read otherwise; "" if unknown."""
    try:
        if not folder.spec.is_file():
            return ""
        path = read_json(folder.read(folder.spec), folder.id)["cohort"]["path"]
        if folder.imported.is_file():
            imported = read_json(folder.read(folder.imported), folder.id)
            if log_of := imported.get(LOG_OF):
                return str(settings.cohorts_folder() / log_of)
            path = imported["data"] or path
    except (DataError, OSError, LookupError, TypeError):
        return ""
    return path if isinstance(path, str) else ""


def unassigned_runs() -> list[str]:
    """Damaged runs whose cohort is unknown; they may hold text of any cohort."""
    return [run for run in damaged_runs() if not _cohort_of(find_run(run))]


def made_on(folder: RunDirectory, cohort: Path) -> bool:
    """Whether a run was made on the cohort in this folder or on a part of it, is a log of it, or
    was imported with text and names it; also where the data folder had another place then."""
    path = _cohort_of(folder)
    try:
        parts = Path(path).parts
        if folder.imported.is_file() and parts[:1] == (cohort.name,):
            return bool(read_json(folder.read(folder.imported), folder.id)["with_text"])
        if not path or Path(path).resolve().is_relative_to(cohort.resolve()):
            return bool(path)
        return not Path(path).exists() and (cohort.parent.name, cohort.name) in pairwise(parts)
    except (DataError, LookupError, OSError, ValueError):
        return False


@needs("researcher")
def prepare_first_start(progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Install the demo cohorts and the included runs, each where it was never there; gives what was
    made, by name. Raises InputError where the data folder cannot be written."""
    counts: dict[str, Any] = {}
    missing = {
        kind: folder
        for kind, name in DEMOS.items()
        if not ((folder := settings.cohorts_folder() / name) / "midchart.toml").is_file()
    }
    for done, (kind, folder) in enumerate(missing.items(), 1):
        counts[folder.name] = prepare_demo(folder, kind=kind)  # pyright: ignore[reportArgumentType]
        if progress:
            progress(done, len(missing) + 1)
    if added := _add_included():
        counts["runs"] = added
    return counts
