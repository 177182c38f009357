"""A finished run as one zip or folder that another installation opens read-only.

::

    manifest.json    schema, run, what was left out, size and SHA-256 of every other file
    spec.json        the plan, the cohort's place on this machine left out
    done.json, events.jsonl, gates.json (patients that a gate has seen)
    items/*.parquet  the rows, without the columns that hold text unless that is asked for
    reviews/*.jsonl  verdicts of reviewers, without their comments unless text is asked for
    forecast/*       predictions of a run of kind forecast: numbers
    report.json, tables/*.csv, report.html
    REPRODUCE.toml   a spec that does it again

A column that is not known to be free of text of records is taken to hold some. Ids of records
and instructions stay: without them the tables cannot be made again.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from core.egress import audit
from core.errors import DataUseError, InputError
from core.ledger import add_line, read_lines
from core.loaders.open import open_cohort
from core.run.export.html import report_html
from core.run.export.reproducing import cohort_name, reproduce
from core.run.folder import RunFolder, find_run, now, write_json
from core.run.gating.pinned import NOTE
from core.run.plan import Plan
from core.run.report import report, write_tables
from core.run.review.book import review_files
from core.run.state import state_of
from core.store import Schema, query, source

SCHEMA = 1
MANIFEST = "manifest.json"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a zip: the same run gives the same bytes."""
TEXT_FREE = frozenset({
    "key", "item", "status", "reason", "label", "arm", "k", "record", "instruction", "band",
    "task_type", "domain", "specialty", "time", "wording", "prompt_hash", "reader", "judge",
    "answer_key", "outcome", "model", "how", "failure_kind", "about", "selection", "entailment",
    "needle", "fact", "task", "variant", "attention", "device", "head", "loss", "fault",
    "stratum", "value", "score", "position", "cut", "curve", "sittings", "calibration", "scores",
    "placement", "stages", "attended", "split", "splits", "epochs", "roc", "pr", "gate", "sparsity",
})  # fmt: skip
"""Columns of words that hold ids, names and numbers only. ``reason`` is the kind and place of a
fault, never its text."""
OWN_WORDS = frozenset({("curves", "text")})
"""Columns whose text is the program's own."""


def kept_columns(table: str, schema: Schema, with_text: bool) -> list[str]:
    """The columns of a table that leave with an export."""
    return [
        name
        for name, type in schema.items()
        if with_text or "VARCHAR" not in type or name in TEXT_FREE or (table, name) in OWN_WORDS
    ]


def text_allowed(folder: RunFolder, plan: Plan) -> bool:
    """Whether a run's text of records may leave: its cohort is synthetic, or its tag says so.

    The tag as it now is, where the cohort is here; else as it was when the run was planned.
    """
    then: Mapping[str, Any] = plan.raw["cohort"]["data_use"]
    if folder.imported.exists() or not Path(plan.data).exists():
        return bool(then["synthetic"] or then["external_services_allowed"])
    tag = open_cohort(plan.data).manifest
    return tag.external_services_allowed or bool(tag.synthetic and then["synthetic"])


def export_run(
    run: str, out: str | Path | None = None, with_text: bool | None = None
) -> dict[str, Any]:
    """Write a finished run to ``out``, a ``.zip`` or a folder that is not there yet.

    ``out`` None: ``<run>.zip`` here. ``with_text``: None takes the text of records along only
    where the cohort is synthetic or its tag allows external services; True elsewhere raises
    DataUseError. Raises InputError for a run that is not finished or a place that cannot be
    written. Gives ``file``, ``with_text`` and ``dropped`` columns; an export with text is noted
    in the audit file before it is written.
    """
    folder = find_run(run)
    plan = _finished(folder)
    allowed = text_allowed(folder, plan)
    if with_text and not allowed:
        raise DataUseError(
            f"run {run} holds text of records, and the data-use tag of {cohort_name(plan)} allows "
            "no external services; export it without text, or change the tag with a reason"
        )
    keep = allowed if with_text is None else with_text
    target = Path(out).expanduser() if out is not None else Path(f"{run}.zip")
    if target.exists():
        raise InputError(f"{target}: is there already; name a file or folder that is not")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as place:
            made = Path(place) / run
            made.mkdir()
            manifest = _write(folder, plan, made, keep)
            if keep:
                rows = manifest["rows"]
                audit.exported(run=run, cohort=cohort_name(plan), file=str(target), rows=rows)
            if target.suffix == ".zip":
                _zip(made, Path(place) / "made.zip").replace(target)
            else:
                made.replace(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from None
    dropped = manifest["dropped"]
    return {"run": run, "file": str(target), "with_text": keep, "dropped": dropped}


def html_of(run: str) -> str:
    """A run's report as one self-contained HTML document; raises UnknownName."""
    return report_html(report(run), _facts(find_run(run).plan()))


def _finished(folder: RunFolder) -> Plan:
    state = state_of(folder)
    if state != "done":
        raise InputError(f"run {folder.id} is {state}; only a finished run can be exported")
    return folder.plan()


def _facts(plan: Plan) -> dict[str, Any]:
    versions: Mapping[str, Any] = plan.raw["versions"]
    return {
        "cohort": cohort_name(plan),
        "cohort content": plan.digest,
        "seed": str(plan.protocol.seed),
        "midchart": f"{versions['midchart']}, code {versions['code']}",
        "python": versions["python"],
        **versions["packages"],
    }


def _write(folder: RunFolder, plan: Plan, made: Path, with_text: bool) -> dict[str, Any]:
    """Every file of an export in ``made``; gives its manifest."""
    raw: dict[str, Any] = {**plan.raw, "run": folder.id}
    # Where the cohort lies tells of this machine; its name and content are what counts.
    raw["cohort"] = {**raw["cohort"], "path": cohort_name(plan)}
    raw["spec"] = {**raw["spec"], "data": cohort_name(plan)}
    write_json(made / "spec.json", raw)
    shutil.copyfile(folder.done, made / "done.json")
    if folder.events.exists():
        shutil.copyfile(folder.events, made / "events.jsonl")
    if (folder.path / NOTE).exists():
        shutil.copyfile(folder.path / NOTE, made / NOTE)
    (made / "items").mkdir()
    store, rows = folder.store(plan.kind), 0
    dropped: dict[str, list[str]] = {}
    for table, schema in store.schemas.items():
        if not any((store.folder / f"{table}.{end}").exists() for end in ("parquet", "jsonl")):
            continue
        kept = kept_columns(table, schema, with_text)
        dropped[table] = [name for name in schema if name not in kept]
        file = str(made / "items" / f"{table}.parquet").replace("'", "''")
        columns, rows_of = ", ".join(kept), source(store.folder, table, schema)
        copy = f"COPY (SELECT {columns} FROM {rows_of}) TO '{file}' (FORMAT parquet)"
        rows += int(query(lambda sql=copy: sql)[0]["Count"])
    for path in review_files(folder):
        for line in read_lines(path):
            words = {} if with_text or "comment" not in line else {"comment": ""}
            add_line(made / "reviews" / path.name, {**line, **words})
        dropped["reviews"] = [] if with_text else ["comment"]
    for path in sorted((folder.path / "forecast").glob("*.parquet")):
        (made / "forecast").mkdir(exist_ok=True)
        shutil.copyfile(path, made / "forecast" / path.name)
    found = report(folder.id)
    write_json(made / "report.json", found)
    write_tables(found["tables"], made / "tables")
    (made / "report.html").write_text(report_html(found, _facts(plan)), encoding="utf-8")
    text, problem = reproduce(plan)
    (made / "REPRODUCE.toml").write_text(text, encoding="utf-8")
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "run": folder.id,
        "kind": plan.kind,
        "made": now(),
        "with_text": with_text,
        "dropped": {table: names for table, names in dropped.items() if names},
        "rows": rows,
        "repeat_problem": problem,
        "files": {
            path.relative_to(made).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": sha256(path.read_bytes()).hexdigest(),
            }
            for path in sorted(made.rglob("*"))
            if path.is_file()
        },
    }
    write_json(made / MANIFEST, manifest)
    return manifest


def _zip(made: Path, file: Path) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(p for p in made.rglob("*") if p.is_file()):
            info = zipfile.ZipInfo(path.relative_to(made).as_posix(), EARLIEST)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            with path.open("rb") as source_file, archive.open(info, "w") as into:
                shutil.copyfileobj(source_file, into, 1 << 20)
    return file


def read_manifest(text: bytes) -> dict[str, Any]:
    """A manifest's document; raises InputError for one of another schema."""
    try:
        found = json.loads(text)
        schema = found["schema"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InputError(f"{MANIFEST}: is no manifest of an exported run") from None
    if schema != SCHEMA:
        raise InputError(
            f"{MANIFEST}: is of schema {str(schema)[:20]!r}; this installation reads {SCHEMA}"
        )
    return found
