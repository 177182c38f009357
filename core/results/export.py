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

import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from midchart.core import config as settings
from midchart.core.access import LocalPath, RunRef, needs
from midchart.core.errors import DataError, DataUseError, InputError, NotPermitted
from midchart.core.identity import by_name_alone
from midchart.core.loaders.open import open_cohort
from midchart.core.named_files import name_of
from midchart.core.options import received_fields
from midchart.core.parsing import identifier, read_json, user_path
from midchart.core.provenance import now, sha256_of
from midchart.core.results.report import changed_rows, report, views_of, write_tables
from midchart.core.results.reviews import review_files
from midchart.core.runs.directory import DIGESTS, RunDirectory, find_run, write_json
from midchart.core.runs.experiment import EXPERIMENTS, MADE
from midchart.core.runs.gate_checkpoints import NOTE
from midchart.core.runs.plan import Plan
from midchart.core.runs.spec import LISTS, read_toml, write_toml
from midchart.core.runs.status import state_of
from midchart.core.storage.files import output_file, output_path, use_ordinary_mode
from midchart.core.storage.jsonl import add_line, read_lines
from midchart.core.storage.rows import Schema, query

if TYPE_CHECKING:
    from jinja2 import Template

# A run's report as one self-contained HTML file without scripts.


Row = Mapping[str, Any]
TEMPLATE = Path(__file__).with_name("report.html.jinja")


def report_html(report: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """One HTML document of a report; ``facts``: names and values shown at the end."""
    questions = {view.table: view.title for view in reversed(views_of(report))}
    return _template().render(report=report, facts=facts, cells=_cells, questions=questions)


@cache
def _template() -> Template:
    """The document's template, compiled once."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, finalize=_printable)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def _cells(row: Row, columns: Sequence[str]) -> str:
    """The cells of a table's row as markup."""
    return "".join(_cell(row.get(column)) for column in columns)


def _cell(value: Any) -> str:
    if value is None:
        return "<td>–</td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, int | float):
        return f'<td class="n">{value:{".3f" if isinstance(value, float) else ","}}</td>'
    return f"<td>{escape(str(_printable(value)))}</td>"


def _printable(value: Any) -> Any:
    """A text with blanks in place of control characters; other values and markup as they are."""
    if not isinstance(value, str) or value.isprintable() or hasattr(value, "__html__"):
        return value
    return "".join(c if c.isprintable() else " " for c in value)


# A finished run as a spec that repeats it, with every choice in full.


def reproduce(folder: RunDirectory, plan: Plan) -> str:
    """The TOML of a spec that repeats a run, with its protocol and its kind's own fields in full;
    "" for a run that does not hold its spec."""
    if not folder.written.exists():
        return ""
    written = read_toml(folder.read(folder.written))
    fields = {name: value for name, value in plan.options.items() if value not in (None, "", [])}
    seed, protocol = plan.protocol.seed, plan.protocol.as_dict()
    written |= {"data": cohort_name(plan), "seed": seed, "protocol": protocol, **fields}
    comments = "".join(f"# {line}\n" for line in _provenance(plan))
    return f"{comments}\n{write_toml(_with_names(written, plan))}"


def _with_names(spec: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """Fields of a spec, places in its components and of received files as names."""
    received = received_fields(EXPERIMENTS.build(plan.kind).options_model)

    def named(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: named(one) for key, one in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [named(one) for one in cast("Sequence[Any]", value)]
        return name_of(value) if isinstance(value, str) else value

    places = LISTS.keys() | received
    return {field: named(value) if field in places else value for field, value in spec.items()}


def cohort_name(plan: Plan) -> str:
    """The name of a run's cohort: of its folder or file, or of the part of a cohort that it is, as
    ``ward/p1.txt``."""
    place, cohorts = Path(plan.data), settings.cohorts_folder()
    inside = place.is_relative_to(cohorts) and place != cohorts
    return place.relative_to(cohorts).as_posix() if inside else place.name


def _provenance(plan: Plan) -> list[str]:
    lines = [
        f"Repeats run {plan.raw['run']}. Put the cohort under data/cohorts/ by the name below, "
        "then: midchart run REPRODUCE.toml",
        *(f"{name}: {value}" for name, value in _facts(plan).items()),
    ]
    # A name may hold any character; a comment ends with its line.
    return [" ".join(_printable(line).split()) for line in lines]


SCHEMA = 1
MANIFEST, REPRODUCE = "manifest.json", "REPRODUCE.toml"
TEXT_FREE = frozenset({
    "key", "item", "status", "reason", "label", "arm", "k", "record", "instruction", "band",
    "task_type", "domain", "specialty", "time", "wording", "prompt_hash", "reader", "judge",
    "answer_key", "outcome", "model", "how", "failure_kind", "ended", "template",
    "endpoint", "about", "selection", "entailment",
    "needle", "fact", "task", "variant", "attention", "device", "head", "loss", "fault",
    "stratum", "value", "score", "position", "cut", "curve", "sittings", "calibration", "scores",
    "placement", "stages", "attended", "split", "splits", "epochs", "roc", "pr", "gate", "sparsity",
    "system", "metric", "own_question", "condition", "factor", "level", "words", "base_key",
    "source", "role", "chart", "evidence_from", "joined_by", "prompt_band", "judged",
    "judged_predicted", "location",
})  # fmt: skip
"""Columns of words that hold ids, names and numbers only. ``reason`` is the kind and place of a
fault, never its text."""
OWN_WORDS = frozenset({("curves", "text")})
"""Columns whose text is the program's own."""


def kept_columns(table: str, schema: Schema, with_text: bool) -> list[str]:
    """The columns of a table that an export includes."""
    return [
        name
        for name, type in schema.items()
        if with_text or "VARCHAR" not in type or name in TEXT_FREE or (table, name) in OWN_WORDS
    ]


def text_allowed(folder: RunDirectory, plan: Plan) -> bool:
    """Whether an export may include text of records: the present tag of the run's cohort allows it,
    as that of every cohort that the program generated; one that is not here allows nothing. Raises
    DataError where it cannot be read."""
    imported = folder.imported.exists()
    if plan.data == MADE and not imported:
        return True
    if imported and folder.imported_facts().get("cohort") != "same":
        return False
    path = folder.cohort_path()
    return Path(path).exists() and open_cohort(path).manifest.external_services_allowed


def check_text_allowed(folder: RunDirectory, plan: Plan) -> None:
    """Raise DataUseError where an export may not include text of records."""
    if not text_allowed(folder, plan):
        raise DataUseError(
            f"run {folder.id} holds text of records, and the data-use tag of {cohort_name(plan)} "
            "allows no external services; export it without text, or change the tag with a reason"
        )


@needs("researcher", paths=("file",))
def export_run(
    run: RunRef,
    out: LocalPath | None = None,
    with_text: bool | None = None,
    rows_only: bool = False,
) -> dict[str, Any]:
    """Write a finished run to ``out``, a ``.zip`` or a folder that is not there yet (None:
    ``<run>.zip`` here, by the account alone).

    ``with_text``: None takes text of records along where the cohort's tag allows it; True elsewhere
    raises DataUseError. ``rows_only``: without the report and its tables. Raises InputError for a
    run that is not finished or a place that cannot be written.
    """
    if out is None and by_name_alone():
        raise NotPermitted("without a place a run is exported to the account's current folder")
    folder = find_run(run)
    plan = finished_plan(folder)
    if with_text:
        check_text_allowed(folder, plan)
    keep = text_allowed(folder, plan) if with_text is None else with_text
    target = user_path(out) if out is not None else Path(f"{run}.zip")
    if target.exists():
        raise InputError(f"{target}: is there already; name a file or folder that is not")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".export-", dir=target.parent) as place:
            staging = Path(place, run)
            staging.mkdir()
            manifest = _write(folder, plan, staging, keep, with_report=not rows_only)
            folder.note("exported", file=str(target), rows=manifest["rows"], with_text=keep)
            use_ordinary_mode(staging)
            exported = staging
            if target.suffix == ".zip":
                exported = Path(shutil.make_archive(f"{place}/made", "zip", staging))
                use_ordinary_mode(exported)
            exported.replace(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from None
    return {
        **{"run": run, "file": str(target), "with_text": keep, "dropped": manifest["dropped"]},
        "warnings": [line for line in (changed_rows(folder),) if line],
    }


@needs("researcher")
def export_html(run: RunRef, file: LocalPath) -> Path:
    """Write a run's report as one self-contained HTML file; raises InputErrors."""
    target = output_path(file)
    page = report_html(report(run), _facts(find_run(run).plan()))
    with output_file(target) as fresh:
        fresh.write_text(page, encoding="utf-8")
    return target


def finished_plan(folder: RunDirectory) -> Plan:
    """The plan of a finished run; raises InputError for another."""
    state = state_of(folder)
    if state != "done":
        raise InputError(f"run {folder.id} is {state}; only a finished run can be exported")
    return folder.plan()


def _facts(plan: Plan) -> dict[str, Any]:
    """What a run's results depend on."""
    versions: Mapping[str, Any] = plan.raw["versions"]
    packages: Mapping[str, str] = versions["packages"]
    weights: Mapping[str, str] = plan.raw.get("weights", {})
    return {
        "cohort": cohort_name(plan),
        "cohort content (blake2b)": plan.digest,
        "seed": str(plan.protocol.seed),
        "midchart": f"{versions['midchart']}, code {versions['code']}",
        "python": versions["python"],
        **{name: version for name, version in packages.items() if version != "absent"},
        **{f"weights of {label}": mark for label, mark in weights.items()},
    }


def _write(
    folder: RunDirectory, plan: Plan, staging: Path, with_text: bool, with_report: bool
) -> dict[str, Any]:
    """Every file of an export in ``staging``; gives its manifest."""
    raw: dict[str, Any] = {**plan.raw, "run": folder.id}
    # The cohort's path describes this machine; its name and content are what counts.
    raw["cohort"] = {**raw["cohort"], "path": cohort_name(plan)}
    spec = {**raw["spec"], "data": cohort_name(plan)}
    raw["spec"] = _with_names(spec, plan) | {"options": _with_names(plan.options, plan)}
    write_json(staging / "spec.json", raw)
    # The digests are of this installation's files; the manifest has those of the exported ones.
    finished: dict[str, Any] = folder.finished()
    write_json(staging / "done.json", {k: v for k, v in finished.items() if k != DIGESTS})
    if folder.events.exists():
        shutil.copyfile(folder.events, staging / "events.jsonl")
    if (folder.path / NOTE).exists():
        shutil.copyfile(folder.path / NOTE, staging / NOTE)
    (staging / "items").mkdir()
    store, rows = folder.store(plan), 0
    dropped: dict[str, list[str]] = {}
    for table, schema in store.schemas.items():
        if not any((store.folder / f"{table}.{end}").exists() for end in ("parquet", "jsonl")):
            continue
        columns_kept = kept_columns(table, schema, with_text)
        dropped[table] = [name for name in schema if name not in columns_kept]
        file = str(staging / "items" / f"{table}.parquet").replace("'", "''")
        columns, rows_of = ", ".join(map(identifier, columns_kept)), store.source(table)
        copy = f"COPY (SELECT {columns} FROM {rows_of}) TO '{file}' (FORMAT parquet)"
        rows += int(query(lambda sql=copy: sql)[0]["Count"])
    for path in review_files(folder):
        for line in read_lines(path):
            words = {} if with_text or "comment" not in line else {"comment": ""}
            add_line(staging / "reviews" / path.name, {**line, **words})
        dropped["reviews"] = [] if with_text else ["comment"]
    for path in sorted((folder.path / "forecast").glob("*.parquet")):
        (staging / "forecast").mkdir(exist_ok=True)
        shutil.copyfile(path, staging / "forecast" / path.name)
    if with_report:
        document = report(folder.id)
        write_json(staging / "report.json", document)
        write_tables(document["tables"], staging / "tables")
        page = report_html(document, _facts(plan))
        (staging / "report.html").write_text(page, encoding="utf-8")
    if spec_again := reproduce(folder, plan):
        (staging / REPRODUCE).write_text(spec_again, encoding="utf-8")
    elif (folder.path / REPRODUCE).exists():  # an imported run's
        shutil.copyfile(folder.path / REPRODUCE, staging / REPRODUCE)
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "run": folder.id,
        "kind": plan.kind,
        "made": now(),
        "with_text": with_text,
        "dropped": {table: names for table, names in dropped.items() if names},
        "rows": rows,
        "files": {
            path.relative_to(staging).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": sha256_of(path),
            }
            for path in sorted(staging.rglob("*"))
            if path.is_file()
        },
    }
    write_json(staging / MANIFEST, manifest)
    return manifest


def read_manifest(text: bytes) -> dict[str, Any]:
    """A manifest's document; raises InputError for one of another schema."""
    try:
        document = read_json(text, MANIFEST)
        schema = document["schema"]
    except (DataError, TypeError, KeyError):
        raise InputError(f"{MANIFEST}: is no manifest of an exported run") from None
    if schema != SCHEMA:
        raise InputError(
            f"{MANIFEST}: is of schema {str(schema)[:20]!r}; this installation reads {SCHEMA}"
        )
    return document
