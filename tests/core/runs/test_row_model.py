"""A run's rows and documents are held to one model where they are read."""

from __future__ import annotations

import json
import shutil

import duckdb
import pytest

from midchart.core import api, config
from midchart.core.errors import DataError
from midchart.core.results.reviews import reviews_folder
from midchart.core.runs.directory import RunDirectory
from tests.support.run_helpers import finished_run, workspace_at, write_cohort

COPY = "20200101-000001-aaaaaa"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    """A finished run of kind answers."""
    home = tmp_path_factory.mktemp("rows")
    with workspace_at(home):
        cohort = write_cohort(config.cohorts_folder() / "tiny", 2)
        spec = {"kind": "answers", "data": str(cohort), "arms": ["bm25"], "readers": ["extractive"]}
        yield finished_run({**spec, "judges": ["exact"], "protocol": {"resamples": 100}})


@pytest.fixture
def run(finished: str):
    """A copy of it, to be damaged."""
    folder = RunDirectory(config.runs_folder() / COPY)
    shutil.copytree(config.runs_folder() / finished, folder.path)
    folder.spec.write_text(folder.spec.read_text().replace(finished, COPY))
    yield folder
    shutil.rmtree(folder.path)
    shutil.rmtree(reviews_folder(COPY), ignore_errors=True)


def rewrite(folder: RunDirectory, table: str, assignment: str, journal: bool = False) -> None:
    """Change a table's second row, and leave it as Parquet or as the journal of a killed run."""
    file = folder.items / f"{table}.parquet"
    with duckdb.connect() as base:
        base.execute(f"CREATE TABLE rows AS SELECT * FROM '{file}'")
        base.execute(f"UPDATE rows SET {assignment} WHERE rowid = 1")
        if journal:
            base.execute(f"COPY rows TO '{file.with_suffix('.jsonl')}' (FORMAT json)")
            file.unlink()
            folder.done.unlink()
        else:
            base.execute(f"COPY rows TO '{file}' (FORMAT parquet)")


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("answers", "label", "NULL"),
        ("answers", "record", "NULL"),
        ("answers", "arm", "'other'"),
        ("answers", "order_position", "1.5"),
        ("answers", "picked", "-1"),
        ("answers", "time", "'yesterday'"),
        ("verdicts", "outcome", "'perhaps'"),
        ("verdicts", "seconds", "'nan'::DOUBLE"),
    ],
)
def test_a_value_that_no_run_writes_is_named_with_run_file_row_and_remedy(
    run: RunDirectory, table: str, column: str, value: str
) -> None:
    rewrite(run, table, f"{column} = {value}")
    line = rf"^run {COPY}: items/{table}\.parquet:2: column {column} has 1 value that .* — restore"
    for call in (api.report, api.failed_items):
        with pytest.raises(DataError, match=line):
            call(COPY)
    assert api.status(COPY)["status"] == "done"  # it is still listed


def test_a_key_that_is_there_twice_is_named(run: RunDirectory) -> None:
    rewrite(run, "answers", "key = (SELECT key FROM rows WHERE rowid = 0)")
    with pytest.raises(DataError, match=r"items/answers\.parquet: column key repeats 1 value"):
        api.report(COPY)


def test_a_damaged_line_of_an_unfinished_run_is_named_and_a_resume_repeats_its_item(
    run: RunDirectory,
) -> None:
    rewrite(run, "answers", "picked = -1", journal=True)
    with pytest.raises(DataError, match=r"items/answers\.jsonl:2: column picked .* — resume"):
        api.report(COPY)
    store = run.store(run.plan())
    store.reopen()
    (entry,) = map(json.loads, (run.items / "answers.damaged.jsonl").read_text().splitlines())
    assert (entry["line"], entry["reason"]) == (2, "holds a value that no run writes")
    assert len(store.select("answers")) + 1 == len(api.rows(COPY, "verdicts"))


@pytest.mark.parametrize(
    ("file", "change", "place"),
    [
        ("spec.json", {"position": {"used": "order", "named": False}}, "position.median_events"),
        ("spec.json", {"planned": -1}, "planned"),
        ("done.json", {"done": 1.5}, "done"),
    ],
)
def test_a_document_that_no_run_writes_is_named_with_its_place(
    run: RunDirectory, file: str, change: dict[str, object], place: str
) -> None:
    path = run.path / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=rf"^run {COPY}: {file}: '{place}' is missing or wrong — "):
        api.report(COPY)
    assert list(api.damaged_runs()) == [COPY]
