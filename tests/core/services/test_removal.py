"""A removal or an import that a kill ends at any of its file operations, or that a full disk
refuses: the next start ends it, and nothing of a removed cohort is left anywhere."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midchart.core import api, config
from midchart.core.egress import audit
from midchart.core.errors import DataUseError, InputError, WorkFailed
from midchart.core.results import importing
from midchart.core.runs import process
from midchart.core.runs.directory import RunDirectory, find_run, make_run
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from midchart.core.services.removal import recover
from midchart.core.storage import files, lock
from midchart.core.storage.rows import close
from tests.support.run_helpers import ROOT, continue_run, finished_run

CANARY = "Zebrafish-7431"
NOTES = f"patient_id,time,text\np1,2020-01-01,{CANARY} was seen. No fever.\n"
QUESTIONS = (
    "instruction_id\tfilename\tquestion\tevidence\tclinician_response\n"
    f"q1\tp1\tWas {CANARY} seen?\t{CANARY} was seen.\tyes\n"
)
STEPS = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "shutil.rmtree")
KILLED = 9
NEVER = 1 << 30


def kill_at(step: int) -> None:
    """End this process at its ``step``-th change of a folder, from 0, as a kill would."""
    left = [step]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        writes = (
            event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax")
        )
        if event in STEPS or writes:
            left[0] -= 1
            if left[0] < 0:
                os._exit(KILLED)

    sys.addaudithook(hook)


def ends_whole(work: Callable[[], object], step: int) -> bool:
    """Whether a child does ``work`` before its ``step``-th change of a folder."""
    close()  # a fork has the database's memory and not its threads
    child = os.fork()
    if not child:
        kill_at(step)
        try:
            work()
        except BaseException:  # noqa: BLE001 - told by the status alone
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED)
    return status == 0


def holding(word: str) -> list[str]:
    """Files and folders under data and cache with a word in their name or content."""
    roots = (config.data_folder(), config.cache_folder())
    return [
        str(path)
        for root in roots
        for path in root.rglob("*")
        if word in path.name or (path.is_file() and word.encode() in path.read_bytes())
    ]


def hidden() -> list[str]:
    folders = (config.cohorts_folder(), config.runs_folder(), config.data_folder())
    return [p.name for folder in folders if folder.is_dir() for p in folder.glob(".*")]


def prepare(place: Path) -> None:
    """A cohort with a finished run, its reviews and caches."""
    source = place / "source"
    source.mkdir(parents=True)
    (source / "notes.csv").write_text(NOTES)
    (source / "questions.tsv").write_text(QUESTIONS)
    api.import_cohort("ward", source)
    cohort = str(config.cohorts_folder() / "ward")
    run = finished_run({"kind": "selection", "data": cohort, "arms": ["recency"]})
    config.reviews_folder(run).mkdir(parents=True)
    (config.reviews_folder(run) / "ann.jsonl").write_text(f'{{"comment": "{CANARY}"}}\n')
    (config.cache_folder() / "kept").mkdir(parents=True, exist_ok=True)
    (config.cache_folder() / "kept" / "text").write_text(CANARY)


def import_ward() -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])


def removal_at_every_step(place: Path) -> int:
    """Remove the cohort with a kill at each step, on a copy each; gives the number of steps."""
    saved = place / "saved"
    data, cache = config.data_folder(), config.cache_folder()
    shutil.copytree(data, saved / "data")
    shutil.copytree(cache, saved / "cache")
    step = 0
    while not ends_whole(lambda: api.remove_cohort("ward", runs=True), step):
        assert recover() == []
        assert not hidden(), (step, hidden())
        events = [line["event"] for line in api.audit_lines()]
        gone = not (config.cohorts_folder() / "ward").exists()
        assert ("removed" in events) == gone, (step, events)
        if gone:
            assert holding(CANARY) == []
        else:
            assert api.open_data("ward").records
            api.remove_cohort("ward", runs=True)
            assert holding(CANARY) == []
        step += 1
        for folder, copy in ((data, saved / "data"), (cache, saved / "cache")):
            shutil.rmtree(folder)
            shutil.copytree(copy, folder)
    assert holding(CANARY) == [] and hidden() == []
    return step


def import_at_every_step(place: Path) -> int:
    """Import the cohort with a kill at each step; it is there whole or not at all."""
    step = 0
    files = [("notes.csv", NOTES.encode()), ("questions.tsv", QUESTIONS.encode())]

    def work() -> None:
        api.import_cohort("second", [(name, io.BytesIO(data)) for name, data in files])

    while not ends_whole(work, step):
        assert recover() == []
        assert hidden() == []
        folder = config.cohorts_folder() / "second"
        if folder.exists():
            assert len(api.open_data("second").records) == 1
            api.remove_cohort("second")
        assert holding(CANARY) == []
        step += 1
    return step


def prepare_export(place: Path) -> None:
    """The export of a run with a review, and nothing else of it."""
    prepare(place)
    (run,) = [row["run"] for row in api.status()]
    review = {"time": "2026-01-01T00:00:00+00:00", "card": "0" * 32, "outcome": "correct"}
    (config.reviews_folder(run) / "ann.jsonl").write_text(json.dumps(review) + "\n")
    api.export_run(run, place / "run.zip", False)
    api.remove_cohort("ward", runs=True)


def run_import_at_every_step(place: Path) -> int:
    """Import a run with a kill at each step, once its files are copied and held to their models: it
    is there with its reviews, or neither is."""
    step, read_only = 0, importing.make_read_only

    def work() -> None:
        def entering(folder: RunDirectory) -> None:
            kill_at(step)
            read_only(folder)

        importing.make_read_only = entering  # in a fork alone
        api.import_run(place / "run.zip")

    while not ends_whole(work, NEVER):
        assert recover() == []
        assert hidden() == []
        runs = [row["run"] for row in api.status()]
        if runs:
            assert api.reviewers(runs[0]) == ["ann"] and api.report(runs[0])["tables"]
            api.remove_run(runs[0])
        assert not list((config.data_folder() / "reviews").glob("*-*/*.jsonl")), step
        step += 1
    return step


def run_made_at_every_step(place: Path) -> int:
    """Make a run's folder with a kill at each step: a run that can be resumed, or nothing."""
    table = {"kind": "selection", "data": "ward", "arms": ["recency"]}
    document, step = plan(read_spec(table)), 0
    while not ends_whole(lambda: make_run(document), step):
        assert recover() == []
        assert hidden() == []
        assert api.damaged_runs() == {}
        for row in api.status():
            if row["status"] != "done":
                assert continue_run(find_run(row["run"])) == "done"
                api.remove_run(row["run"])
        step += 1
    return step


WORKS = {
    "removal": (prepare, removal_at_every_step),
    "import of a cohort": (lambda place: None, import_at_every_step),
    "import of a run": (prepare_export, run_import_at_every_step),
    "start of a run": (prepare, run_made_at_every_step),
}
LEAST_STEPS = 5


@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS)
def test_a_kill_at_any_step_leaves_nothing_after_the_next_start(tmp_path: Path, work: str) -> None:
    # In a process of its own: a child that is forked beside other threads can wait forever.
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.core.services import test_removal as t\n"
        f"place = Path({str(tmp_path)!r})\n"
        f"prepare, at_every_step = t.WORKS[{work!r}]\n"
        "prepare(place)\n"
        "print(at_every_step(place))"
    )
    environment = os.environ | {
        "MIDCHART_DATA": str(tmp_path / "data"),
        "MIDCHART_CACHE": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) >= LEAST_STEPS


@pytest.mark.usefixtures("elsewhere")
def test_a_full_disk_stops_no_removal_and_its_line_is_written_once_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "place")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(WorkFailed, match="No space"):
            api.remove_cohort("ward", runs=True)
    assert holding(CANARY) == [] and not api.cohorts() and not api.status()
    assert recover() == [] and hidden() == []
    (line,) = [line for line in audit.lines() if line["event"] == "removed"]
    assert line["cohort"] == "ward" and line["folder"].endswith("cohorts/ward")


@pytest.mark.usefixtures("elsewhere")
def test_nothing_is_swept_while_an_import_is_at_work() -> None:
    config.runs_folder().mkdir(parents=True)
    with files.incoming(config.runs_folder(), config.imports_lock()) as folder:
        (folder / "rows").write_text("rows")
        assert recover() == [] and (folder / "rows").exists()
    assert hidden() == []
    with lock.exclusive(config.imports_lock()):
        (config.runs_folder() / ".outgoing-x-run").mkdir()
        assert recover() == [] and hidden() == [".outgoing-x-run"]
    assert recover() == [] and hidden() == []


@pytest.mark.usefixtures("elsewhere")
def test_what_cannot_be_deleted_is_named_at_each_start_and_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "place")
    (run,) = [row["run"] for row in api.status()]
    ordinary = shutil.rmtree

    def delete(folder: Path, ignore_errors: bool = False) -> None:
        if "reviews/.outgoing-" not in str(folder):
            ordinary(folder, ignore_errors)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", delete)
        with pytest.raises(InputError, match=f"-{run}: cannot be deleted"):
            api.remove_cohort("ward", runs=True)
        assert all("reviews/" in path for path in holding(CANARY))
        (problem,) = recover()
        assert f"-{run}: cannot be deleted" in problem and "\n" not in problem
    later = [
        config.cohorts_folder() / "ward",
        config.runs_folder() / run,
        config.reviews_folder(run),
    ]
    for folder in later:  # what took the names since stays
        folder.mkdir(parents=True)
        (folder / "file").write_text("of somebody else")
    assert recover() == [] and hidden() == []
    assert holding(CANARY) == [] and all((folder / "file").exists() for folder in later)
    assert [line["event"] for line in audit.lines()].count("removed") == 1


def spec_on_imported_ward() -> dict[str, Any]:
    api.import_cohort("ward", [("p1.txt", io.BytesIO(CANARY.encode()))])
    table = {"kind": "answers", "arms": ["recency"], "readers": ["extractive"]}
    return {**table, "questions": ["Was it seen?"], "data": "ward"}


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("begin", ["start", "enqueue"])
def test_a_run_that_starts_while_its_cohort_is_removed_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    plan_run = process.plan

    def plan_then_remove(*arguments: Any) -> dict[str, Any]:
        document = plan_run(*arguments)
        api.remove_cohort("ward", runs=True)
        return document

    monkeypatch.setattr(process, "plan", plan_then_remove)
    spec = spec_on_imported_ward()
    with pytest.raises(InputError, match="'ward' was removed while the run was planned"):
        getattr(api, begin)(spec)
    assert {one.name for one in config.runs_folder().iterdir()} <= {".queue.lock"}
    assert [line["event"] for line in audit.lines()] == ["imported", "removed"]


@pytest.mark.usefixtures("elsewhere")
def test_a_cohort_is_not_removed_from_under_a_run_that_is_about_to_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[str] = []

    def make_then_remove(*arguments: Any, **named: Any) -> RunDirectory:
        folder = make_run(*arguments, **named)
        with pytest.raises(InputError, match="is active") as error:
            api.remove_cohort("ward", runs=True)
        refused.append(str(error.value))
        return folder

    monkeypatch.setattr(process, "make_run", make_then_remove)
    monkeypatch.setattr(process, "launch", lambda *_: None)
    api.start(spec_on_imported_ward())
    assert len(refused) == 1 and (config.cohorts_folder() / "ward").is_dir()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("name", "folder"),
    [("CACHE", "data"), ("CACHE", "data/cohorts"), ("CACHE", "data/runs/x"), ("CACHE", "state"),
     ("MODELS", "cache")],
)  # fmt: skip
def test_a_cache_that_is_the_folder_of_other_files_is_refused_before_anything_goes(
    monkeypatch: pytest.MonkeyPatch, name: str, folder: str
) -> None:
    for one in ("ward", "other"):
        api.import_cohort(one, [("notes.csv", io.BytesIO(NOTES.encode()))])
    place = {"data": config.data_folder(), "state": config.state_folder(),
             "cache": config.cache_folder()}[folder.split("/")[0]]  # fmt: skip
    monkeypatch.setenv(f"MIDCHART_{name}", str(place / folder.partition("/")[2]))
    with pytest.raises(InputError, match="which a removal empties"):
        api.remove_cohort("ward")
    assert sorted(one.name for one in api.cohorts()) == ["other", "ward"]
    assert hidden() == [] and api.verify_audit()["broken"] is None


@pytest.mark.usefixtures("elsewhere")
def test_weights_and_the_state_folder_inside_the_caches_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = config.cache_folder()
    for name, inside in (("MIDCHART_MODELS", "a/b/models"), ("MIDCHART_STATE", "a/state")):
        (cache / inside).mkdir(parents=True)
        (cache / inside / "file").write_text("weights, or the end of a log")
        monkeypatch.setenv(name, str(cache / inside))
    import_ward()
    (cache / "texts").mkdir()
    (cache / "texts" / "text").write_text(CANARY)
    api.remove_cohort("ward")
    assert holding(CANARY) == [] and api.verify_audit()["broken"] is None
    assert (cache / "a/b/models/file").exists() and (cache / "a/state/file").exists()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("with_text", [True, False])
def test_an_imported_run_with_text_goes_with_the_cohort_that_it_names(
    tmp_path: Path, with_text: bool
) -> None:
    prepare(tmp_path / "place")
    api.set_data_use("ward", "external_services_allowed", True, "agreement number 12")
    (run,) = [row["run"] for row in api.status()]
    shutil.rmtree(config.reviews_folder(run))
    api.export_run(run, tmp_path / "run.zip", with_text)
    api.remove_run(run)
    api.keep_question("ward", "p1", "Something new?")
    assert api.import_run(tmp_path / "run.zip")["cohort"] == "other"
    assert api.remove_cohort("ward", runs=True)["runs"] == with_text
    assert len(api.status()) == (not with_text)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("end", ["renamed", "removed", "imported"])
def test_text_of_a_cohort_that_is_not_here_is_exported_no_more(tmp_path: Path, end: str) -> None:
    prepare(tmp_path / "place")
    api.set_data_use("ward", "external_services_allowed", True, "agreement number 12")
    (run,) = [row["run"] for row in api.status()]
    shutil.rmtree(config.reviews_folder(run))
    assert api.export_run(run, tmp_path / "first", True)["with_text"]
    if end == "renamed":
        (config.cohorts_folder() / "ward").rename(config.cohorts_folder() / "other")
    else:
        api.remove_cohort("ward", runs=end == "imported")
    if end == "imported":
        assert api.import_run(tmp_path / "first")["cohort"] == "absent"
    with pytest.raises(DataUseError):
        api.export_run(run, tmp_path / "second", True)
    assert not api.export_run(run, tmp_path / "third")["with_text"]
