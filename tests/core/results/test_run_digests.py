"""Rows changed after a run finished are named by report, compare and export."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from midchart.core.cli import main
from midchart.core.results.comparison import compare_runs
from midchart.core.results.export import export_run
from midchart.core.results.report import methods, report
from midchart.core.runs.directory import RunDirectory, find_run
from tests.support.run_helpers import finished_run, spec

CHANGED = "no longer match the SHA-256 digests"


def small(cohort: Path) -> dict[str, object]:
    return spec(cohort, arms=["bm25"], judges=["test_words"], limit=4)


@pytest.fixture
def folder(cohort: Path) -> RunDirectory:
    return find_run(finished_run(small(cohort)))


def change_a_row(folder: RunDirectory) -> None:
    file = folder.items / "verdicts.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS SELECT * FROM '{file}'")
        connection.execute("UPDATE rows SET outcome = 'incorrect'")
        connection.execute(f"COPY rows TO '{file}' (FORMAT parquet)")


def test_changed_rows_are_named_by_report_compare_and_export(
    folder: RunDirectory, cohort: Path, tmp_path: Path, capsys
) -> None:
    run, other = folder.id, finished_run(small(cohort))
    for same in (report(run)["warnings"], compare_runs([other, run])["notes"]):
        assert not [line for line in same if CHANGED in line]
    assert not export_run(run, tmp_path / "a.zip")["warnings"]
    change_a_row(folder)
    for lines in (
        report(run)["warnings"],
        compare_runs([other, run])["notes"],
        export_run(run, tmp_path / "b.zip")["warnings"],
    ):
        (line,) = [line for line in lines if CHANGED in line]
        assert run in line and "items/verdicts.parquet" in line and "answers" not in line
    for call in (
        ["report", run],
        ["compare", other, run],
        ["export", run, "--html", str(tmp_path / "c.html")],
    ):
        capsys.readouterr()
        assert main(call) == 0
        printed = capsys.readouterr()
        assert (printed.out + printed.err).count(CHANGED) == 1
    assert (tmp_path / "c.html").read_text(encoding="utf-8").count(CHANGED) == 1


def test_the_methods_paragraph_names_run_cohort_protocol_and_counts(cohort: Path) -> None:
    run = finished_run(small(cohort) | {"protocol": {"k": 3}})
    plan, text = find_run(run).plan(), methods(run)
    assert run in text and plan.digest[:12] in text and "with k = 3" in text
    assert all(label in text for label in (*plan.readers, *plan.judges))
    assert f"Of {plan.planned:,} items {plan.planned:,} were completed and 0 failed" in text
