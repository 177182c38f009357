"""A changed export is refused in one line, or every page reads it; runs are removed."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from midchart.core import api
from midchart.core.errors import InputError, MidchartError, UnknownName
from midchart.core.results.export import export_run
from midchart.core.results.importing import import_run
from midchart.core.results.reviews import reviews_folder
from midchart.core.runs.directory import find_run, make_run, run_ids, take_lock
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from tests.support.exports import sealed
from tests.support.run_helpers import finished_run, members_place, spec, write_cohort

CELLS = {
    "VARCHAR": ["''", "'no such thing'", "repeat('x', 100000)", "NULL", "'2020-99-99'", "chr(0)"],
    "DOUBLE": ["'nan'::DOUBLE", "'inf'::DOUBLE", "-1e308", "1e308", "NULL"],
    "BIGINT": ["-1", "9223372036854775807", "NULL", "0"],
    "BOOLEAN": ["NULL", "true"],
}


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Exported folders of runs of two kinds, by kind."""
    home = tmp_path_factory.mktemp("foreign")
    with members_place(home):
        cohort = write_cohort(home / "data" / "cohorts" / "tiny", 2)
        specs = {
            "answers": spec(cohort, arms=["bm25", "recency"], protocol={"resamples": 100}),
            "selection": {
                "kind": "selection",
                "data": str(cohort),
                "arms": ["bm25", "recency"],
                "protocol": {"resamples": 100},
            },
        }
        for kind, table in specs.items():
            export_run(finished_run(table), home / kind, with_text=False)
        yield home


def pages_read(run: str, original: str) -> None:
    """The functions by which the pages read a run."""
    (row,) = [row for row in api.status(None) if row["run"] == run]
    assert not api.damaged_runs()
    report = api.report(run)
    json.dumps(report, allow_nan=False).encode()
    api.export_html(run, Path(row["folder"]).parent.parent / "report.html")
    api.failed_items(run)
    api.failed_in_words(run)
    api.log_tail(run)
    api.rows_warning(run)
    api.compare_runs([original, run])
    kind = row["kind"]
    if kind == "answers":
        arms, judges = api.arms_and_judges(run)
        for reader in {r["reader"] for r in api.rows(run, "answers")}:
            for judge in judges:
                api.outcomes(run, reader, judge)
            api.disagreements(run, reader, judges[0], judges[-1])
        api.review_cards(run, "ada")
        api.review_rows(run)
        for row in api.rows(run, "answers")[:2]:
            api.answer(run, row["key"])
        api.compared(run, arms[0])
    main = "answers" if kind == "answers" else "selections"
    for row in api.rows(run, main)[:2]:
        api.item(run, row["instruction"])


def attempt(folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> bool:
    """Whether a changed export was accepted; fails where it breaks a page or leaves anything."""
    monkeypatch.setenv("MIDCHART_DATA", str(data))
    original = json.loads((folder.parent / "original" / "manifest.json").read_text())["run"]
    if original not in run_ids():
        import_run(folder.parent / "original")
    others = run_ids()
    manifest = json.loads((sealed(folder) / "manifest.json").read_text())
    manifest["run"] = RENAMED
    (folder / "manifest.json").write_text(json.dumps(manifest))
    try:
        run = import_run(folder)["run"]
    except InputError as refused:
        line = str(refused)
        assert "\n" not in line and len(line) < 700 and "Traceback" not in line, what
        assert run_ids() == others, what
        assert not list((data / "runs").glob(".*")), what
        return False
    try:
        pages_read(run, original)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    api.remove_run(run)
    return True


RENAMED = "20200101-000000-abcdef"


@pytest.fixture
def changed(exports: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of an export, under another id, next to the original."""

    def copy(kind: str) -> Path:
        folder = tmp_path / "changed"
        for name in (folder, tmp_path / "original"):
            shutil.rmtree(name, ignore_errors=True)
            shutil.copytree(exports / kind, name)
        for name in ("spec.json", "done.json"):
            document = json.loads((folder / name).read_text())
            (folder / name).write_text(json.dumps({**document, "run": RENAMED}))
        return folder

    return copy


def test_an_unchanged_export_is_read_by_every_page(changed, tmp_path, monkeypatch) -> None:
    for kind in ("answers", "selection"):
        assert attempt(changed(kind), tmp_path / "data", monkeypatch, kind)


@pytest.mark.parametrize("seed", range(int(os.environ.get("FOREIGN_SEEDS", "1"))))
@pytest.mark.slow
def test_rows_changed_in_any_column_are_refused_or_read(
    changed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(100 + seed)
    for number in range(8):
        kind = ("answers", "selection")[number % 2]
        folder = changed(kind)
        file = draw.choice(sorted((folder / "items").glob("*.parquet")))
        with duckdb.connect() as base:
            base.execute(f"CREATE TABLE rows AS SELECT * FROM '{file}'")
            columns = base.execute("DESCRIBE rows").fetchall()
            name, type = draw.choice([c[:2] for c in columns])
            value = draw.choice(CELLS.get(type, ["NULL"]))
            how = draw.choice(["all", "one", "twice", "none"])
            where = "true" if how == "all" else f"rowid = {draw.randrange(3)}"
            if how == "twice":
                base.execute("INSERT INTO rows SELECT * FROM rows")
            elif how == "none":
                base.execute(f"DELETE FROM rows WHERE {where}")
            else:
                base.execute(f"UPDATE rows SET {name} = {value} WHERE {where}")
            base.execute(f"COPY rows TO '{file}' (FORMAT parquet)")
        what = f"{seed}/{number} {kind} {file.name} {name} = {value} ({how})"
        attempt(folder, tmp_path / "data", monkeypatch, what)


def test_a_run_is_removed_with_its_reviews_and_audited(
    exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    run = import_run(exports / "answers")["run"]
    reviews = reviews_folder(run)
    reviews.mkdir(parents=True)
    (reviews / "ada.jsonl").write_text("")
    files = api.remove_run(run)["files"]
    assert files > 4 and not run_ids() and not reviews.exists()
    assert not list((tmp_path / "data" / "runs").iterdir())
    line = api.audit_lines()[-1]
    assert (line["event"], line["run"], line["imported"]) == ("run removed", run, True)
    with pytest.raises(UnknownName):
        api.remove_run(run)
    for name in ("..", ".", "../cohorts", ""):
        with pytest.raises(MidchartError):
            api.remove_run(name)


def test_a_run_at_work_or_queued_is_not_removed(exports: Path, tmp_path, monkeypatch) -> None:
    run_cohort = exports / "data" / "cohorts" / "tiny"
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    folder = make_run(
        plan(read_spec({"kind": "selection", "data": str(run_cohort), "arms": ["bm25"]}))
    )
    lock = take_lock(folder)
    with pytest.raises(InputError, match="running already"):
        api.remove_run(folder.id)
    lock.release()
    folder.queued.write_text("{}")
    with pytest.raises(InputError, match="queued"):
        api.remove_run(folder.id)
    folder.queued.unlink()
    assert api.remove_run(folder.id)["files"] >= 1


@pytest.mark.parametrize("damage", ["empty", "gone", "a folder", "cut"])
def test_a_damaged_run_is_named_when_its_cohort_is_removed_and_can_be_removed(
    exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    api.import_cohort("ward", exports / "data" / "cohorts" / "tiny")
    cohort = tmp_path / "data" / "cohorts" / "ward"
    table = {"kind": "selection", "data": str(cohort), "arms": ["bm25"]}
    whole_run, damaged = (find_run(finished_run(table)) for _ in range(2))
    known = find_run(finished_run(table))  # damaged elsewhere: its cohort can be read
    known.done.write_text("{")
    text = damaged.spec.read_text()
    damaged.spec.unlink()
    if damage == "a folder":
        damaged.spec.mkdir()
    elif damage != "gone":
        damaged.spec.write_text("" if damage == "empty" else text[: len(text) // 2])
    assert set(api.damaged_runs()) == {damaged.id, known.id}
    removed = api.remove_cohort("ward", runs=True)
    assert (removed["runs"], removed["damaged_runs"]) == (2, [damaged.id])
    assert not whole_run.path.exists() and not known.path.exists()
    assert api.remove_run(damaged.id)["files"] and not run_ids()
