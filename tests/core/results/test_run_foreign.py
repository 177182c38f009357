"""An export of another installation is read by every page; runs are removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from midchart.core import api, config
from midchart.core.errors import InputError, MidchartError, UnknownName
from midchart.core.results.export import export_run
from midchart.core.results.importing import import_run
from midchart.core.runs.directory import find_run, make_run, run_ids, take_lock
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from tests.support.exports import sealed
from tests.support.run_helpers import finished_run, members_place, spec, write_cohort


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
        api.review_cards(run, "ada")
        api.review_rows(run)
        api.compared(run, arms[0])
    main = "answers" if kind == "answers" else "selections"
    for row in api.rows(run, main)[:2]:
        api.item(run, row["instruction"])


RENAMED = "20200101-000000-abcdef"


def test_an_export_is_read_by_every_page_under_another_id(
    exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    for kind in ("answers", "selection"):
        original = import_run(exports / kind)["run"]
        folder = shutil.copytree(exports / kind, tmp_path / kind)
        for name in ("spec.json", "done.json", "manifest.json"):
            if name == "manifest.json":
                sealed(folder)
            document = json.loads((folder / name).read_text())
            (folder / name).write_text(json.dumps({**document, "run": RENAMED}))
        pages_read(import_run(folder)["run"], original)
        api.remove_run(RENAMED)


def test_a_run_is_removed_with_its_reviews_and_audited(
    exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    run = import_run(exports / "answers")["run"]
    reviews = config.reviews_folder(run)
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


@pytest.mark.parametrize("damage", ["gone", "cut"])
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
    if damage == "cut":
        damaged.spec.write_text(text[: len(text) // 2])
    assert set(api.damaged_runs()) == {damaged.id, known.id}
    removed = api.remove_cohort("ward", runs=True)
    assert (removed["runs"], removed["damaged_runs"]) == (2, [damaged.id])
    assert not whole_run.path.exists() and not known.path.exists()
    assert api.remove_run(damaged.id)["files"] and not run_ids()
