"""The benchmark: a fixed suite of runs for any readers and arms, and its result as one JSON file.

Parts whose cohort is not present are named with the reason. Every part is an ordinary run; one of
the same plan (spec, protocol, cohort files, weights, code and packages) is continued or taken as it
is, so an interrupted benchmark continues where it stopped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from midchart.core import config as settings
from midchart.core.errors import DataError, InputError, SpecError
from midchart.core.options import Chosen, Options, Several, Text, read_table
from midchart.core.parsing import read_document, read_json, read_toml, user_path
from midchart.core.provenance import now
from midchart.core.regular_files import read_named
from midchart.core.results.report import report
from midchart.core.results.tables import ALL_IN_PROMPT_NAME, ANY_IN_PROMPT_NAME
from midchart.core.runs.directory import DIGESTS, find_run, run_ids, write_json
from midchart.core.runs.planner import plan
from midchart.core.runs.process import resume, start, wait
from midchart.core.runs.spec import read_spec, read_spec_file
from midchart.core.runs.status import status
from midchart.core.services.cohorts import prepare_demo
from midchart.core.storage.files import writing
from midchart.core.storage.outputs import output_path

SUITE = Path(__file__).with_suffix(".toml")
FORMAT = "midchart benchmark 1"
_SAME = ("spec", "protocol", "versions", "weights")
"""Parts of ``spec.json`` that are equal where two runs of a cohort are the same work."""
LARGEST_RESULT = 1 << 20
_REMEDY = "write it again with midchart benchmark"
_Row = dict[str, Any]
_Progress = Callable[[int, int, int, float | None], None]


class BenchmarkSpec(Options):
    """What a benchmark is of."""

    name: Text
    """Its name, also that of the file of its result."""
    arms: Chosen[Any]
    """Arms, as in a spec of a run."""
    readers: Chosen[Any]
    """Readers, as in a spec of a run."""
    allow_hosts: Several[Text] = ()
    """Hosts off this machine that text of records may go to."""


class _Score(TypedDict):
    arm: str
    reader: str
    judge: str | None
    measure: str
    n: int
    value: float | int | None
    low: float | int | None
    high: float | int | None
    interval: str | None
    unparsed: NotRequired[int | None]


class _BenchmarkPart(TypedDict):
    part: str
    title: str
    absent: str
    cohort: str
    failed: int
    seconds: float | int | None
    scores: list[_Score]


class _Result(TypedDict):
    format: str
    name: str
    suite: str
    finished: str
    versions: dict[str, Any]
    parts: list[_BenchmarkPart]


def suite() -> tuple[str, dict[str, _Row]]:
    """The SHA-256 of the suite's file, and the table of each part by name."""
    data = SUITE.read_bytes()
    return sha256(data).hexdigest(), read_toml(data, SUITE.name)


def benchmark(
    spec: str | Path,
    out: str | Path | None = None,
    progress: Callable[[str], _Progress] | None = None,
) -> Path:
    """Run what the suite still lacks for the arms and readers of a TOML file; gives the result's
    file, by default ``data/benchmarks/NAME.json``.

    ``progress``: a part's title → what :func:`midchart.core.runs.process.wait` calls. Raises
    InputErrors before the first run where an arm or reader is wrong or text would go where it may
    not.
    """
    chosen = read_table(BenchmarkSpec, read_spec_file(user_path(spec)))
    slug = re.sub(r"[^a-z0-9]+", "-", chosen.name.lower()).strip("-")[:64] or "benchmark"
    file = output_path(out) if out else settings.data_folder() / "benchmarks" / f"{slug}.json"
    digest, parts = suite()
    specs = {name: _run_spec(table, chosen) for name, table in parts.items()}
    for table in specs.values():
        read_spec(table)
    if not (settings.cohorts_folder() / "demo").exists():
        prepare_demo(settings.cohorts_folder() / "demo")
    rows = [_part(name, parts[name], table, progress) for name, table in specs.items()]
    versions = next((row.pop("versions") for row in rows if "versions" in row), {})
    for row in rows:
        row.pop("versions", None)
    head = {"format": FORMAT, "name": chosen.name, "suite": digest, "finished": now()}
    with writing(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {**head, "versions": versions, "parts": rows})
    return file


def benchmarks() -> dict[str, Path]:
    """The files of results in ``data/benchmarks``, by name."""
    folder = settings.data_folder() / "benchmarks"
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def read_benchmark(data: bytes | Path, name: str = "") -> _Row:
    """A result, checked; ``data``: its file or bytes. Raises DataError."""
    if isinstance(data, Path):
        name = name or data.name
        try:
            data = read_named(data, LARGEST_RESULT)
        except OSError as error:
            raise DataError(name, None, f"cannot be read ({error.strerror})") from None
    if len(data) > LARGEST_RESULT:
        raise DataError(name, None, "is larger than any result of a benchmark", _REMEDY)
    result = read_document(data, name, TypeAdapter(_Result), _REMEDY)
    if result["format"] != FORMAT:
        raise DataError(name, None, "is no result of this version's benchmark", _REMEDY)
    return result


def _run_spec(table: Mapping[str, Any], chosen: BenchmarkSpec) -> _Row:
    group = f"benchmark {chosen.name}"
    named = {"name": f"{group}: {table['title']}", "group": group}
    fields = {name: value for name, value in table.items() if name != "title"}
    hosts = {"allow_hosts": list(chosen.allow_hosts)} if chosen.allow_hosts else {}
    return {**named, **fields, **hosts, "arms": chosen.arms, "readers": chosen.readers}


def _part(name: str, table: _Row, spec: _Row, progress: Callable[[str], _Progress] | None) -> _Row:
    """One part, run where needed: its run, hashes and scores, or why it is absent."""
    row: _Row = {"part": name, "title": table["title"], "absent": "", "cohort": "", "failed": 0}
    row |= {"seconds": None, "scores": []}
    try:
        document = read_json(json.dumps(plan(read_spec(spec))).encode(), "the plan")
    except (DataError, SpecError) as error:
        return row | {"absent": str(error)}
    run = _same(document)
    if run is None:
        run = start(spec)
    elif status(run)["status"] not in ("running", "queued", "cancelling"):
        resume(run)
    wait(run, progress(table["title"]) if progress else None)
    finished = find_run(run).finished()
    text = json.dumps({name: document[name] for name in ("spec", "protocol")}, sort_keys=True)
    return row | {
        "run": run,
        "spec": sha256(text.encode()).hexdigest(),
        "cohort": document["cohort"]["digest"],
        "weights": document["weights"],
        "rows": finished.get(DIGESTS, {}),
        "failed": status(run)["failed"],
        "seconds": finished.get("seconds"),
        "scores": list(_scores(report(run)["tables"])),
        "versions": document["versions"],
    }


def _same(document: _Row) -> str | None:
    """The latest run of a plan, finished or not."""
    for run in reversed(run_ids()):
        with suppress(InputError, OSError):
            folder = find_run(run)
            folder.plan()  # raises where it is damaged
            raw = read_json(folder.read(folder.spec), folder.spec.name)
            same = all(raw[part] == document[part] for part in _SAME)
            if same and raw["cohort"]["digest"] == document["cohort"]["digest"]:
                return run
    return None


_MEASURES = {
    ALL_IN_PROMPT_NAME: "all pieces of the evidence in the prompt",
    ANY_IN_PROMPT_NAME: "any piece of the evidence in the prompt",
}
"""Criterion of evidence in a run's table of recall → its name in the benchmark."""


def _scores(tables: Mapping[str, list[_Row]]) -> Iterator[_Row]:
    """The figures of a run's tables: share correct and evidence in the prompt, or share correct by
    length and the difference of middle and edges."""
    for row in tables.get("accuracy", ()):
        if row["band"] == "overall":
            yield _score(row, "correct", row["accuracy"], "patient")
    for row in tables.get("recall", ()):
        if row["band"] == "overall" and row["criterion"] in _MEASURES:
            yield _score(row, _MEASURES[row["criterion"]], row["recall"], "patient")
    for row in tables.get("lengths", ()):
        count = row["distractors"]
        measure = f"correct, {row['length']} tokens, {count} distractors"
        yield _score(row, measure, row["accuracy"], "patient")
    for row in tables.get("contrast", ()):
        yield _score({**row, "n": row["series"]}, "middle − edges", row["difference"], "ci")


def _score(row: _Row, measure: str, value: float | None, ends: str) -> _Row:
    """A figure with its interval by patient, or Wilson's where there are too few patients."""
    by, low, high = "patients", row.get(f"{ends}_low"), row.get(f"{ends}_high")
    if low is None:
        by, low, high = "items", row.get("wilson_low"), row.get("wilson_high")
    return {
        "arm": row["label"],
        "reader": row["reader"],
        "judge": row.get("judge"),
        "measure": measure,
        "n": row["n"],
        "value": value,
        "low": low,
        "high": high,
        "interval": None if low is None else by,
        "unparsed": row.get("unparsed"),
    }
