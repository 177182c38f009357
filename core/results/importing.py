"""Opening another installation's export as a run that is only read here.

Only files of known names are taken, each with the size and hash that the manifest says, under
limits; documents and rows are held to the models of this installation's own runs, once. The run
appears under its id complete, or not at all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from midchart.core import config as settings
from midchart.core.access import Received, needs
from midchart.core.egress import audit
from midchart.core.errors import DataError, InputError, MidchartError
from midchart.core.identity import by_name_alone, person
from midchart.core.loaders.open import content_digest
from midchart.core.parsing import user_path
from midchart.core.provenance import now, sha256_of
from midchart.core.results.export import MANIFEST, read_manifest
from midchart.core.results.reviews import checked_lines, code_of_import
from midchart.core.runs.directory import DIGESTS, RUN_ID, RunDirectory, row_digests, write_json
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import EVENT, GATES
from midchart.core.storage.files import incoming, sync_folder, writing
from midchart.core.storage.jsonl import encode, read_lines
from midchart.core.storage.lock import exclusive
from midchart.core.storage.rows import Schema, literal, parquet_source, query
from midchart.core.storage.sources import Source, UntrustedZip

NAMES = re.compile(
    r"spec\.json|done\.json|events\.jsonl|gates\.json|report\.json|report\.html|REPRODUCE\.toml"
    r"|items/[a-z0-9_]{1,40}\.parquet|tables/[a-z0-9_]{1,60}\.csv"
    r"|reviews/[a-z0-9][a-z0-9-]{0,31}\.jsonl"
    r"|forecast/[0-9a-f]{8,64}(\.draws)?\.parquet"
)
NEEDED = ("spec.json", "done.json")
NOT_TAKEN = ("report.html", "tables/")
"""Rendered from the rows at every request."""
MOST_FILES, MOST_BYTES = 500, 4 << 30

Opener = Callable[[str], AbstractContextManager[Any]]
"""Opens a file of an export by its name: an object with ``read(n)``."""


@needs("researcher", paths=("data", "folder"))
def import_run(file: Received) -> dict[str, Any]:
    """Open an export (a zip or a folder) as a finished run that is only read here.

    Gives ``run``, ``folder``, ``cohort`` ("same" content as the one of its name here, "other" or
    "absent"), ``data``, that cohort's place where it is the same, and ``reviews``, the reviewers'
    files taken. Raises InputError, in one line; then nothing is left of it.
    """
    return _opened_as_run(user_path(file), included=False)


def add_included(path: Path) -> dict[str, Any]:
    """Open a run that is part of Midchart, as :func:`import_run` does: its files, which the package
    brings, are held to their hashes and to nothing else."""
    return _opened_as_run(path, included=True)


def _opened_as_run(path: Path, included: bool) -> dict[str, Any]:
    runs = settings.runs_folder()
    with writing(runs):
        runs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            names, opened = _contents(path, stack)
            return _import(path, names, opened, runs, included)
        except OSError as error:
            raise InputError(
                f"{path}: cannot be opened here ({error.strerror or type(error).__name__})"
            ) from None


def _contents(path: Path, stack: ExitStack) -> tuple[set[str], Opener]:
    """The names of the files of an export, and how to open one."""
    if not path.is_dir():
        file = stack.enter_context(Source.at(path.resolve()).packed())
        archive = UntrustedZip(file, str(path))
        return set(archive.check(MOST_FILES, MOST_BYTES)), archive.open
    names: set[str] = set()
    for one in path.rglob("*"):
        name = one.relative_to(path).as_posix()
        if one.is_symlink():
            raise InputError(f"{path}: holds a link, {name!r}; an export holds none")
        if one.is_file():
            names.add(name)
    return names, lambda name: (path / name).open("rb")


def _import(
    path: Path, names: set[str], opened: Opener, runs: Path, included: bool
) -> dict[str, Any]:
    for name in sorted(names - {MANIFEST}):
        if not NAMES.fullmatch(name):
            raise InputError(f"{path}: holds {name[:80]!r}, which no export has; not opened")
    if MANIFEST not in names:
        raise InputError(f"{path}: lacks {MANIFEST}; is it the export of a run?")
    with opened(MANIFEST) as file:
        text = file.read()
    manifest = read_manifest(text)
    run, files = manifest.get("run"), manifest.get("files")
    if not isinstance(run, str) or not RUN_ID.fullmatch(run) or not isinstance(files, dict):
        raise InputError(f"{path}: {MANIFEST} names no run or no files")
    listed = cast("dict[str, Any]", files)
    if listed.keys() != names - {MANIFEST}:
        raise InputError(f"{path}: its files are not those that {MANIFEST} lists; not opened")
    missing = [name for name in NEEDED if name not in listed]
    if missing:
        raise InputError(f"{path}: lacks {missing[0]}")
    final = RunDirectory(runs / run)
    if final.path.exists():
        raise InputError(f"run {run} already exists: {final.path}")
    # A hidden name, so that no list of runs shows it before it is complete.
    with incoming(runs, settings.imports_lock()) as hidden:
        fresh = RunDirectory(hidden / run)
        fresh.path.mkdir()
        for name in sorted(listed):
            _take(path, name, listed[name], opened, fresh.path, safe=not included)
        if included:
            fresh.items.mkdir(exist_ok=True)
        else:
            _look(path, run, fresh)
        cohort = _local_cohort(fresh)
        write_json(
            fresh.imported,
            {
                **cohort,
                "imported": now(),
                "by": person().name,
                "with_text": manifest.get("with_text") is not False,
                "manifest_sha256": sha256(text).hexdigest(),
                DIGESTS: row_digests(fresh),
            },
        )
        if not included:
            _try_report(path, fresh)  # after imported.json, by which nothing of the plan is opened
        reviews = _reviews(path, fresh)
        renamed: dict[str, str] = {}
        for code in sorted(reviews):
            stored = code_of_import(code, {*reviews, *renamed.values()})
            if stored != code:
                renamed[code] = stored
        make_read_only(fresh)
        for name, lines in reviews.items():
            target = fresh.path / "reviews" / f"{renamed.get(name, name)}.jsonl"
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(b"".join(map(encode, lines)))
        with exclusive(settings.imports_lock()):
            if final.path.exists():
                raise InputError(f"run {run} already exists: {final.path}")
            if not included:
                audit.note("run imported", run=run, file=path.name)
            fresh.path.rename(final.path)
            sync_folder(final.path.parent)
            taken = settle_reviews(run)
    facts = {"run": run, "folder": str(final.path), **cohort, "reviews": taken}
    return {**facts, "reviewers_renamed": renamed} if renamed else facts


def settle_reviews(run: str = "*") -> list[str]:
    """Move the reviewers' files in the folders of imported runs to the folder of reviews, where
    more can be added; a file that is there already stays. Gives the names of those that were moved.
    """
    moved: list[str] = []
    for inside in settings.runs_folder().glob(f"{run}/reviews"):
        place = settings.reviews_folder(inside.parent.name)
        place.mkdir(parents=True, exist_ok=True)
        for file in sorted(inside.glob("*.jsonl")):
            if not (place / file.name).exists():
                file.rename(place / file.name)
                moved.append(file.stem)
        shutil.rmtree(inside)
    return moved


def make_read_only(folder: RunDirectory) -> None:
    """Let nobody change the files of an imported run."""
    for one in folder.path.rglob("*"):
        one.chmod(0o700 if one.is_dir() else 0o400)
    folder.lock.touch()
    folder.path.chmod(0o700)


def _reviews(path: Path, fresh: RunDirectory) -> dict[str, list[dict[str, Any]]]:
    """The reviewers' files by name, checked for what this program writes and moved out of the run's
    folder: they belong in the folder of reviews, where more can be added."""
    place = fresh.path / "reviews"
    try:
        lines = {file.stem: checked_lines(file.stem, file.read_bytes()) for file in place.glob("*")}
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    shutil.rmtree(place, ignore_errors=True)
    return lines


def _local_cohort(fresh: RunDirectory) -> dict[str, str]:
    """``cohort``, whether the cohort of the run's name here is the "same" by its content, an
    "other" or "absent"; ``data``: its place where it is the same, else ""."""
    plan = fresh.plan()
    place = settings.cohorts_folder() / plan.data
    # Who signed in follows no link among the cohorts.
    folders = (place, *place.parents)[: len(Path(plan.data).parts)]
    linked = by_name_alone() and any(one.is_symlink() for one in folders)
    if linked or not place.exists():
        return {"cohort": "absent", "data": ""}
    try:
        same = content_digest(place) == plan.digest
    except DataError:
        same = False  # what cannot be read is not what it was done on
    return {"cohort": "same" if same else "other", "data": str(place) if same else ""}


def _take(path: Path, name: str, recorded: Any, opened: Opener, into: Path, safe: bool) -> None:
    """Copy a file and hold it to its size and hash in the manifest; ``safe``: until it is on the
    disk."""
    target = into / name
    target.parent.mkdir(exist_ok=True)
    with opened(name) as file, target.open("wb") as written:
        shutil.copyfileobj(file, written, 1 << 20)
        written.flush()
        if safe:
            os.fsync(written.fileno())
    if recorded != {"bytes": target.stat().st_size, "sha256": sha256_of(target)}:
        raise InputError(
            f"{path}: {name} does not match its hash in {MANIFEST}; it was changed or truncated"
        )
    if name.startswith(NOT_TAKEN):
        target.unlink()


def _look(path: Path, run: str, fresh: RunDirectory) -> None:
    """Hold documents and rows to the models by which every run is read."""
    fresh.items.mkdir(exist_ok=True)
    try:
        plan = fresh.plan()
        fresh.finished()
        _check_plan(run, plan)
        for _ in read_lines(fresh.events, EVENT):
            pass
        gates = fresh.path / "gates.json"
        if gates.exists():
            fresh.document(gates, GATES)
        kind = EXPERIMENTS.build(plan.kind)
        for parquet in sorted((*fresh.items.iterdir(), *fresh.path.glob("forecast/*"))):
            rows = parquet.parent == fresh.items
            known, name = kind.predictions, "".join(parquet.suffixes)
            schema = kind.schemas.get(parquet.stem) if rows else known.get(name)
            if schema is None:
                raise InputError(f"holds {parquet.name!r}, which a {plan.kind} run lacks")
            _check_table(parquet, schema, rows)
    except MidchartError as error:
        raise InputError(f"{path}: {error}") from None


def _try_report(path: Path, fresh: RunDirectory) -> None:
    """Make the report of a run, as every page does; raises InputError where its rows give none."""
    plan = fresh.plan()
    kind, store = EXPERIMENTS.build(plan.kind), fresh.store(plan)
    try:
        tables = kind.tables(store, plan)
        json.dumps([tables, kind.warnings(plan)], allow_nan=False).encode()
    except Exception as error:  # noqa: BLE001 - rows from elsewhere can be wrong in any way
        raise InputError(
            f"{path}: no report can be made of its rows ({type(error).__name__})"
        ) from None


def _check_plan(run: str, plan: Plan) -> None:
    """Raise InputError if the plan is of another run or its cohort has no valid name."""
    # The cohort is looked for among this installation's.
    named = "/".join((plan.data, plan.raw["spec"].get("data", plan.data)))
    if any(part in ("", ".", "..") or set(part) & set("\\\0") for part in named.split("/")):
        raise InputError("spec.json: names no cohort, or part of one")
    if plan.raw["run"] != run:
        raise InputError(f"spec.json: run is not the run {run} of the manifest")


def _check_table(parquet: Path, schema: Schema, rows: bool) -> None:
    """Check that the columns of a table are known and have the declared types and, for ``rows`` of
    a run, that keys are unique and statuses valid; raises InputError."""
    try:
        columns = query(lambda: f"DESCRIBE SELECT * FROM read_parquet({literal(parquet)})")
        source = parquet_source(parquet, schema)
        query(lambda: f"SELECT count(COLUMNS(*)) FROM {source}")
    except MidchartError:
        raise InputError(f"{parquet.name} is no Parquet file of this table") from None
    if unknown := sorted({row["column_name"] for row in columns} - schema.keys()):
        raise InputError(
            f"{parquet.name} has a column {unknown[0][:60]!r} that this installation does not "
            "know; was it made by another version?"
        )
    counts = (
        "count(*) AS n, count(DISTINCT key) AS keys, "
        "count(*) FILTER (status IN ('ok', 'failed')) AS states"
    )
    if rows and len({*query(lambda: f"SELECT {counts} FROM {source}")[0].values()}) > 1:
        raise InputError(f"{parquet.name} holds a row without a key or status; no run writes it")
