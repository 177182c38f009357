"""Golden outputs: what one small run of every kind reports, stores and exports.

Exports go through the command line, so that the code behind it may be rebuilt and this file stays;
runs are done in this process, as a worker would import the model libraries each time, and the first
by a worker as well. ``python -m tests.test_golden`` writes the expected files anew; a commit that
does so says which results changed and why.

Words, integers and ids are compared by digest, one a column; numbers with a fraction, also those
inside a text, by their sum and count, within a tolerance: a processor may round differently. Of
runs that train a network the numbers depend on the processor, so only their columns and counts are
compared.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from midchart.core.cli import main
from tests.support.run_helpers import finished_run

GOLDEN = Path(__file__).parent / "golden"
SPECS = sorted((GOLDEN / "specs").glob("*.toml"))
LABORATORY = "--laboratory ehrshot --patients 60 --events-per-patient 60"
COHORTS = {
    "demo": "--patients 6 --events-per-patient 60",
    "demo-letters": "--letters --patients 2 --events-per-patient 200",
    "demo-laboratory": LABORATORY,
}
TRAINED = {"gate", "forecast", "inhibition"}
VARYING = {
    "time",
    "seconds",
    "selection_seconds",
    "latency",
    "seconds_each",
    "tokens_per_second",
    "started",
    "finished",
    "machine",
}
"""Columns that measure the machine or the day."""
FRACTION = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
RELATIVE = 1e-4


def call(*arguments: str) -> Any:
    """The JSON document that a command prints on standard output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(list(arguments))
    assert not code, f"{arguments} ended with {code}"
    return json.loads(out.getvalue())


def make_cohorts(data: Path) -> dict[str, str]:
    """The three demo cohorts, small, and the SHA-256 of their files."""
    digests: dict[str, str] = {}
    for name, options in COHORTS.items():
        folder = data / "cohorts" / name
        call("demo", "--out", str(folder), "--json", *options.split())
        digest = sha256()
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
        digests[name] = digest.hexdigest()
    return digests


def digest_column(column: pd.Series, exact: bool) -> dict[str, Any]:
    """A column's digest; of fractions their sum and count. ``exact`` False: the count alone."""
    values = column.dropna()
    if not exact:
        return {"n": len(column)}
    if pd.api.types.is_float_dtype(values) and len(values):
        return {"n": len(values), "sum": float(values.sum())}
    text = "\x1f".join(json.dumps(v, sort_keys=True, default=str) for v in column.astype(object))
    fractions = [float(number) for number in FRACTION.findall(text)]
    digest = sha256(FRACTION.sub("#", text).encode()).hexdigest()[:16]
    return {"n": len(values), "sha256": digest} | ({"sum": sum(fractions)} if fractions else {})


def figures(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells of a table that are no text."""
    return [
        {name: value for name, value in row.items() if not isinstance(value, str | None)}
        for row in table
    ]


def digest_table(table: pd.DataFrame, exact: bool) -> dict[str, Any]:
    order = [c for c in ("key", "item") if c in table.columns]
    table = table.sort_values(order, kind="stable") if order else table
    return {
        str(name): digest_column(table[name], exact and str(name) not in VARYING)
        for name in sorted(table.columns)
    }


def outputs(run: str, place: Path) -> dict[str, Any]:
    """What a run reports and exports, by table and column."""
    folder = place / f"export-{run}"
    call("export", run, "--out", str(folder), "--json")
    report = json.loads((folder / "report.json").read_text())
    exact = report["kind"] not in TRAINED
    return {
        "kind": report["kind"],
        "items": report["items"],
        "warnings": sorted(report["warnings"]) if exact else len(report["warnings"]),
        "files": sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()),
        "tables": {
            name: digest_table(pd.DataFrame(rows), exact)
            for name, rows in sorted(report["tables"].items())
        },
        "rows": {
            file.stem: digest_table(pd.read_parquet(file), exact)
            for file in sorted((folder / "items").glob("*.parquet"))
        },
    }


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[str]:
    """Each place where two outputs differ, sums within the tolerance."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            if key not in expected or key not in actual:
                yield f"{path}/{key}: {'missing' if key in expected else 'new'}"
            else:
                yield from differences(expected[key], actual[key], f"{path}/{key}")
    elif isinstance(expected, float) and isinstance(actual, float):
        if not math.isclose(expected, actual, rel_tol=RELATIVE, abs_tol=RELATIVE):
            yield f"{path}: {expected} is now {actual}"
    elif expected != actual:
        yield f"{path}: {expected} is now {actual}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_DATA", str(folder / "data"))
        patch.setenv("MIDCHART_CACHE", str(folder / "cache"))
        yield folder, make_cohorts(folder / "data")


def test_the_demo_cohorts_are_byte_identical(place: tuple[Path, dict[str, str]]) -> None:
    assert place[1] == json.loads((GOLDEN / "cohorts.json").read_text())


@pytest.mark.parametrize("spec", SPECS, ids=[spec.stem for spec in SPECS])
def test_a_run_gives_its_golden_outputs(
    place: tuple[Path, dict[str, str]], spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = json.loads((GOLDEN / f"{spec.stem}.json").read_text())
    run = finished_run(spec)
    assert list(differences(expected, outputs(run, place[0]))) == []
    tables = json.loads((place[0] / f"export-{run}" / "report.json").read_text())["tables"]
    without = place[0] / f"without-{run}"
    call("export", run, "--out", str(without), "--without-text", "--rows-only", "--json")
    monkeypatch.setenv("MIDCHART_DATA", str(place[0] / "elsewhere"))
    assert call("import", str(without), "--json")["run"] == run
    brought = call("report", run, "--json")
    assert brought["items"] == expected["items"]
    assert {name: figures(rows) for name, rows in brought["tables"].items()} == {
        name: figures(rows) for name, rows in tables.items()
    }


@pytest.mark.slow
def test_a_worker_gives_the_golden_outputs(place: tuple[Path, dict[str, str]]) -> None:
    expected = json.loads((GOLDEN / f"{SPECS[0].stem}.json").read_text())
    run = call("run", str(SPECS[0]), "--json")["run"]
    assert list(differences(expected, outputs(run, place[0]))) == []


def write(place: Path) -> None:
    """Write the expected files."""
    documents = {"cohorts": make_cohorts(place / "data")}
    for spec in SPECS:
        documents[spec.stem] = outputs(finished_run(spec), place)
    for name, value in documents.items():
        text = json.dumps(value, indent=1, sort_keys=True)
        (GOLDEN / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as environment:
        environment.setenv("MIDCHART_DATA", f"{folder}/data")
        environment.setenv("MIDCHART_CACHE", f"{folder}/cache")
        sys.exit(write(Path(folder)))
