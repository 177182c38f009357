"""Rows changed after a run finished are named by report, compare and export."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from midchart.core.cli import main
from midchart.core.results.comparison import compare_runs
from midchart.core.results.export import export_run
from midchart.core.results.importing import import_run
from midchart.core.results.report import methods, report
from midchart.core.runs.directory import RunDirectory, find_run
from tests.support.run_helpers import continue_run, finished_run, spec

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


def test_a_removed_file_is_named_by_the_report(folder: RunDirectory) -> None:
    (folder.items / "verdicts.parquet").unlink()
    (line,) = [line for line in report(folder.id)["warnings"] if CHANGED in line]
    assert "items/verdicts.parquet" in line


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
        ["report", run, "--csv", str(tmp_path / "csv")],
        ["compare", other, run],
        ["export", run, "--out", str(tmp_path / "c.zip")],
        ["export", run, "--html", str(tmp_path / "c.html")],
    ):
        capsys.readouterr()
        assert main(call) == 0
        printed = capsys.readouterr()
        assert (printed.out + printed.err).count(CHANGED) == 1
    assert (tmp_path / "c.html").read_text(encoding="utf-8").count(CHANGED) == 1


def test_a_resumed_run_has_the_digests_of_its_new_rows(folder: RunDirectory) -> None:
    change_a_row(folder)
    assert continue_run(folder) == "done"
    assert not [line for line in report(folder.id)["warnings"] if CHANGED in line]


def test_runs_without_digests_are_not_warned_about(folder: RunDirectory) -> None:
    done = json.loads(folder.done.read_text())
    assert set(done.pop("sha256")) == {"items/answers.parquet", "items/verdicts.parquet"}
    folder.done.write_text(json.dumps(done))
    change_a_row(folder)
    assert not [line for line in report(folder.id)["warnings"] if CHANGED in line]


def test_changed_rows_of_an_imported_run_are_named(
    folder: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = export_run(folder.id, tmp_path / "a.zip")["file"]
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "other"))
    imported = find_run(import_run(file)["run"])
    assert not [line for line in report(imported.id)["warnings"] if CHANGED in line]
    (imported.items / "verdicts.parquet").chmod(0o600)
    change_a_row(imported)
    (line,) = [line for line in report(imported.id)["warnings"] if CHANGED in line]
    assert "after its import" in line and "imported.json" in line
    monkeypatch.undo()


def test_the_methods_paragraph_names_run_cohort_protocol_and_counts(cohort: Path) -> None:
    run = finished_run(small(cohort) | {"protocol": {"k": 3}})
    plan, text = find_run(run).plan(), methods(run)
    assert run in text and plan.digest[:12] in text and "with k = 3" in text
    assert all(label in text for label in (*plan.readers, *plan.judges))
    assert f"Of {plan.planned:,} items {plan.planned:,} were completed and 0 failed" in text
