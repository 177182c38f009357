"""A removal or an import that a kill ends at any of its file operations: the next start ends it,
and nothing of a removed cohort is left anywhere."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midchart.core import api, config
from midchart.core.egress import audit
from midchart.core.errors import DataError, DataUseError, InputError, MidchartError, WorkFailed
from midchart.core.gate.checkpoint import load_arrays, save_arrays
from midchart.core.results import importing
from midchart.core.results.reviews import reviews_folder
from midchart.core.runs import process
from midchart.core.runs.directory import RunDirectory, find_run, make_run
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from midchart.core.services import import_results
from midchart.core.services.removal import Removal, recover
from midchart.core.storage import lock, staging
from midchart.core.storage.rows import close
from tests.support.kills import REFUSED, obey_modes
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
    reviews_folder(run).mkdir(parents=True)
    (reviews_folder(run) / "ann.jsonl").write_text(f'{{"comment": "{CANARY}"}}\n')
    (config.cache_folder() / "kept").mkdir(parents=True, exist_ok=True)
    (config.cache_folder() / "kept" / "text").write_text(CANARY)


def refused_under_modes(work: Callable[[], object]) -> bool:
    """Whether a child, for whom the modes of folders hold, is refused ``work`` in a line."""
    close()
    child = os.fork()
    if not child:
        obey_modes()
        try:
            work()
        except MidchartError as error:
            os._exit(REFUSED if "\n" not in str(error) else 1)
        except BaseException:  # noqa: BLE001 - told by the status alone
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, REFUSED)
    return status == REFUSED


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
        audit.downloaded("report")  # completes a line that was begun
        audited = [line["event"] for line in api.audit_lines()].count("removed")
        gone = not (config.cohorts_folder() / "ward").exists()
        assert audited == gone, (step, audited, gone)
        if audited:
            assert holding(CANARY) == []
        else:  # nothing was begun
            assert api.open_data("ward").records
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


def removal_with_each_folder_read_only(place: Path) -> int:
    """Remove the cohort while one folder cannot be written, each in turn: refused in a line, and
    ended by the start after its repair; gives how many removals were refused."""
    saved, refused = place / "saved", 0
    roots = {config.data_folder(): saved / "data", config.cache_folder(): saved / "cache"}
    for folder, copy in roots.items():
        shutil.copytree(folder, copy)
    folders = [one for root in roots for one in (root, *root.rglob("*")) if one.is_dir()]
    for read_only in folders:
        read_only.chmod(0o500)
        refused += refused_under_modes(lambda: api.remove_cohort("ward", runs=True))
        if read_only.exists():
            read_only.chmod(0o700)
        for hidden_folder in (one for root in roots for one in root.rglob("*") if one.is_dir()):
            hidden_folder.chmod(0o700)
        assert recover() == []
        assert not hidden(), (read_only, hidden())
        if (config.cohorts_folder() / "ward").exists():
            assert api.open_data("ward").records and api.status()
        else:
            assert holding(CANARY) == [], read_only
        for folder, copy in roots.items():
            shutil.rmtree(folder)
            shutil.copytree(copy, folder)
    return refused


def import_with_each_folder_read_only(place: Path) -> int:
    """Import a cohort while the folder of cohorts, of data or of caches cannot be written."""
    api.import_cohort("first", [("notes.csv", io.BytesIO(NOTES.encode()))])
    refused = 0
    folders = (config.cohorts_folder(), config.data_folder(), config.cache_folder())
    for name in ("second", "third", "fourth", "fifth", "sixth"):
        for read_only in folders:
            read_only.chmod(0o500)
            files = [("notes.csv", io.BytesIO(NOTES.encode()))]
            this = refused_under_modes(
                lambda name=name, files=files: api.import_cohort(name, files)
            )
            read_only.chmod(0o700)
            assert recover() == [] and hidden() == []
            there = (config.cohorts_folder() / name).exists()
            assert there is not this, read_only
            refused += this
            if there:
                api.remove_cohort(name)
    return refused


def prepare_export(place: Path) -> None:
    """The export of a run with a review, and nothing else of it."""
    prepare(place)
    (run,) = [row["run"] for row in api.status()]
    review = {"time": "2026-01-01T00:00:00+00:00", "card": "0" * 32, "outcome": "correct"}
    (reviews_folder(run) / "ann.jsonl").write_text(json.dumps(review) + "\n")
    api.export_run(run, place / "run.zip", False)
    api.remove_cohort("ward", runs=True)


def run_import_at_every_step(place: Path) -> int:
    """Import a run with a kill at each step, once its files are copied and held to their models: it
    is there with its reviews, or neither is."""
    step, enter = 0, importing._enter

    def work() -> None:
        def entering(*arguments: Any) -> list[str]:
            kill_at(step)
            return enter(*arguments)

        importing._enter = entering  # in a fork alone
        api.import_run(place / "run.zip")

    while not ends_whole(work, NEVER):
        assert recover() == []
        assert hidden() == []
        runs = [row["run"] for row in api.status()]
        folders = (config.data_folder() / "reviews").glob("*-*")
        reviews = [path for folder in folders for path in (folder, *folder.iterdir())]
        if runs:
            assert [p.name for p in reviews if p.is_file()] == ["ann.jsonl"], step
            assert api.reviewers(runs[0]) == ["ann"] and api.report(runs[0])["tables"]
            api.remove_run(runs[0])
        else:
            assert not reviews, (step, reviews)
        step += 1
    return step


def prepare_log(place: Path) -> None:
    """A table of another system's answers."""
    place.mkdir(exist_ok=True)
    (place / "log.csv").write_text(f"question,answer,target,patient\nIs {CANARY}?,yes,yes,p1\n")


def log_import_at_every_step(place: Path) -> int:
    """Import a log with a kill at each step: a finished run, or nothing."""
    step = 0
    while not ends_whole(lambda: api.import_results(place / "log.csv"), step):
        assert recover() == []
        assert hidden() == []
        for row in api.status():
            assert row["status"] == "done", step
            api.remove_run(row["run"])
        assert api.damaged_runs() == {}
        assert holding(CANARY) == []
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


def gate_saved_at_every_step(place: Path) -> int:
    """Save a gate over another with a kill at each step: the former, the new one or none."""
    former, new = ({"w": np.full(3, value, np.float32)} for value in (1, 2))
    place.mkdir(exist_ok=True)
    step = 0
    while True:
        save_arrays(place, "gate", "format", former, {"of": 1})
        finished = ends_whole(lambda: save_arrays(place, "gate", "format", new, {"of": 2}), step)
        try:
            arrays, card, _ = load_arrays(place, "gate", "format")
        except DataError:
            assert not finished
        else:
            assert set(arrays["w"]) == {card["of"]}, step
        if finished:
            return step
        step += 1


WORKS = {
    "removal": (prepare, removal_at_every_step),
    "removal with a folder read-only": (prepare, removal_with_each_folder_read_only),
    "import with a folder read-only": (lambda place: None, import_with_each_folder_read_only),
    "import of a cohort": (lambda place: None, import_at_every_step),
    "import of a run": (prepare_export, run_import_at_every_step),
    "import of a log": (prepare_log, log_import_at_every_step),
    "start of a run": (prepare, run_made_at_every_step),
    "gate": (lambda place: None, gate_saved_at_every_step),
}
LEAST_STEPS = 5
NOTE = {"cohort": "ward", "runs": [], "facts": {}, "who": "ann", "cache": "/nowhere"}


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
def test_a_cohort_that_took_the_name_since_is_not_removed() -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])
    note = config.data_folder() / ".removal-0.json"
    note.write_text(json.dumps(asdict(Removal("ward"))))
    assert recover() == [] and not note.exists()
    assert [card.name for card in api.cohorts()] == ["ward"]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"cohort": "ward"}', *(
        json.dumps(NOTE | change) for change in (
            {"cohort": "../x"}, {"cohort": "", "runs": ["../cohorts"]}, {"runs": [3]},
            {"runs": "x"}, {"cohort": 3}, {"cohort": ""}, {"who": 3}, {"facts": {"text": "x"}},
            {"facts": {"files": [1]}},
        )
    )],
)  # fmt: skip
def test_a_note_that_this_program_did_not_write_removes_nothing(text: str) -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])
    note = config.data_folder() / ".removal-0.json"
    note.write_text(text)
    (problem,) = recover()
    assert ".removal-0.json" in problem and "\n" not in problem
    assert [card.name for card in api.cohorts()] == ["ward"] and note.exists()


@pytest.mark.usefixtures("elsewhere")
def test_nothing_is_swept_while_an_import_is_at_work() -> None:
    config.runs_folder().mkdir(parents=True)
    with staging.incoming(config.runs_folder(), config.imports_lock()) as folder:
        (folder / "rows").write_text("rows")
        assert recover() == [] and (folder / "rows").exists()
    assert hidden() == []
    with lock.exclusive(config.imports_lock()):
        (config.runs_folder() / ".outgoing-x").mkdir()
        assert recover() == [] and hidden() == [".outgoing-x"]
    assert recover() == [] and hidden() == []


def test_a_cache_that_cannot_be_written_stops_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "file" / "cache"))
    assert recover() == []


@pytest.mark.usefixtures("elsewhere")
def test_a_folder_that_cannot_be_deleted_is_named_and_the_removal_stays_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])

    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr("midchart.core.storage.staging.delete_tree", refuse)
        with pytest.raises(MidchartError, match="Permission denied"):
            api.remove_cohort("ward")
        (problem,) = recover()
        assert "is not ended" in problem and "\n" not in problem
    assert recover() == [] and hidden() == [] and not api.cohorts()


@pytest.mark.usefixtures("elsewhere")
def test_a_removal_that_has_begun_deletes_nothing_that_took_a_name_since(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(tmp_path / "place")
    (run,) = [row["run"] for row in api.status()]

    def end(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr("midchart.core.storage.staging.delete_tree", end)
        with pytest.raises(MidchartError, match="Permission denied"):
            api.remove_cohort("ward", runs=True)
    assert not api.cohorts() and not api.status()
    later = [config.cohorts_folder() / "ward", config.runs_folder() / run, reviews_folder(run)]
    for folder in later:
        folder.mkdir(parents=True)
        (folder / "file").write_text("of somebody else")
    assert recover() == [] and hidden() == []
    assert holding(CANARY) == [] and all((folder / "file").exists() for folder in later)


@pytest.mark.usefixtures("elsewhere")
def test_a_removal_that_cannot_be_audited_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])

    def refuse(event: str, **facts: Any) -> None:
        raise WorkFailed("audit.jsonl: cannot be written")

    monkeypatch.setattr("midchart.core.egress.audit.removed", refuse)
    with pytest.raises(WorkFailed):
        api.remove_cohort("ward")
    assert hidden() == [] and api.open_data("ward").records


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("kind", ["logs", "run"])
def test_what_lies_elsewhere_by_a_link_is_named_before_anything_is_removed(
    tmp_path: Path, kind: str
) -> None:
    prepare(tmp_path / "place")
    (run,) = [row["run"] for row in api.status()]
    places = {"logs": config.received_folder() / "ward", "run": config.runs_folder() / run}
    link, outside = places[kind], tmp_path / "outside"
    (outside if kind == "logs" else link.parent).mkdir(parents=True, exist_ok=True)
    if kind == "run":
        link.rename(outside)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside)
    with pytest.raises(InputError, match=f"/{link.name} is a link"):
        api.remove_cohort("ward", runs=True)
    assert "removed" not in [line["event"] for line in api.audit_lines()]
    assert recover() == [] and hidden() == [] and api.open_data("ward").records
    link.unlink()
    outside.rename(link)
    api.remove_cohort("ward", runs=True)
    assert holding(CANARY) == []


@pytest.mark.usefixtures("elsewhere")
def test_a_run_on_a_part_of_a_cohort_goes_with_it() -> None:
    files = [(f"{one}/p1.txt", io.BytesIO(CANARY.encode())) for one in ("first", "second")]
    api.import_cohort("ward", files)
    part = str(config.cohorts_folder() / "ward" / "first")
    questions = ["Was it seen?"]
    table = {"kind": "answers", "arms": ["recency"], "readers": ["extractive"]}
    finished_run({**table, "questions": questions, "data": part})
    assert api.remove_cohort("ward", runs=True)["runs"] == 1
    assert holding(CANARY) == []


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


def test_a_removal_with_another_cache_folder_waits_and_leaves_its_caches_to_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "place")

    def end() -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("midchart.core.services.removal._caches", list)
        patch.setattr("midchart.core.services.removal.close_cohorts", end)
        with pytest.raises(MidchartError, match="Permission denied"):
            api.remove_cohort("ward", runs=True)
    with monkeypatch.context() as patch:
        patch.setenv("MIDCHART_CACHE", str(tmp_path / "other"))
        with Path(config.imports_lock()).open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert recover() == []  # another cache, the same lock
        (problem,) = recover()
        assert "MIDCHART_CACHE" in problem
    assert holding(CANARY)
    assert recover() == [] and holding(CANARY) == [] and hidden() == []


@pytest.mark.usefixtures("elsewhere")
def test_temporary_folders_of_killed_processes_are_swept() -> None:
    config.data_folder().mkdir(parents=True)
    lost = [
        config.data_folder() / ".incoming-probe" / "files" / "runs",
        config.cache_folder() / "temporary" / ".incoming-zip" / "files",
    ]
    for folder in lost:
        folder.mkdir(parents=True)
        (folder / "rows").write_text(CANARY)
    with staging.temporary_folder() as at_work:
        (at_work / "rows").write_text("rows")
        assert recover() == [] and (at_work / "rows").exists()
    assert holding(CANARY) == [] and hidden() == []


def export_of_a_killed_process(desk: Path) -> Path:
    child = os.fork()
    if child == 0:
        try:
            begun = staging.folder_at(desk)  # held, so that nothing ends its body
            place = begun.__enter__()
            (place / "rows").write_text(CANARY)
        finally:
            os._exit(1)  # as after a kill: nothing that follows the body is done
    os.waitpid(child, 0)
    (left,) = desk.glob(".export-*[0-9a-f]")
    return left


def refuse_to_delete(monkeypatch: pytest.MonkeyPatch, *parts: str) -> None:
    """Refuse to delete folders and files whose path has one of these parts."""
    ordinary = staging.delete_tree

    def delete(folder: Path) -> None:
        if any(part in str(folder) for part in parts):
            raise PermissionError(13, "Permission denied", str(folder))
        ordinary(folder)

    monkeypatch.setattr(staging, "delete_tree", delete)


@pytest.mark.usefixtures("elsewhere")
def test_what_cannot_be_deleted_is_named_at_each_start_and_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])
    (tmp_path / "desk").mkdir()
    left = export_of_a_killed_process(tmp_path / "desk")
    stuck = [
        config.data_folder() / "..removal-1.json.x",
        config.data_folder() / "..import-begun-1.json.x",
        config.data_folder() / ".outgoing-a",
        config.cache_folder() / "temporary" / ".incoming-a",
    ]
    lost = [
        config.runs_folder() / ".outgoing-b" / "rows",
        config.cache_folder() / "temporary" / ".incoming-b" / "rows",
    ]
    for file in (*stuck[:2], *(folder / "rows" for folder in stuck[2:]), *lost):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    with monkeypatch.context() as patch:
        refuse_to_delete(patch, *map(str, (left, *stuck)))
        for _ in range(2):
            problems = recover()
            places = sorted(line.split(": ")[0] for line in problems)
            assert places == sorted(map(str, (left, *stuck)))
            assert not any("\n" in line for line in problems)
        assert left.exists() and not any(file.exists() for file in lost)
        undeleted = api.remove_cohort("ward")["undeleted"]
        assert any(line.startswith(f"{left}: cannot be deleted") for line in undeleted)
        assert not api.cohorts() and sorted(hidden()) == sorted(one.name for one in stuck[:3])
    assert recover() == [] and hidden() == [] and holding(CANARY) == []
    assert not any(one.exists() for one in (left, *stuck))


@pytest.mark.usefixtures("elsewhere")
def test_a_folder_of_a_removal_that_cannot_be_deleted_stops_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "place")
    (run,) = [row["run"] for row in api.status()]
    with monkeypatch.context() as patch:
        refuse_to_delete(patch, "reviews/.outgoing-")
        with pytest.raises(InputError, match=f"-{run}: cannot be deleted"):
            api.remove_cohort("ward", runs=True)
        assert all("reviews/" in path for path in holding(CANARY))
        (problem,) = recover()
        assert f"-{run}: cannot be deleted" in problem
    assert recover() == [] and hidden() == []


def test_all_else_of_a_folder_is_deleted_where_a_part_of_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / "folder" / name).mkdir(parents=True)
        (tmp_path / "folder" / name / f"{name}.txt").write_text(CANARY)
    ordinary = os.unlink

    def unlink(path: str, *, dir_fd: int | None = None) -> None:
        if str(path).endswith("b.txt"):
            raise PermissionError(13, "Permission denied", path)
        ordinary(path, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        with pytest.raises(PermissionError):
            staging.delete_tree(tmp_path / "folder")
    assert [one.name for one in (tmp_path / "folder").iterdir()] == ["b"]


@pytest.mark.usefixtures("elsewhere")
def test_an_export_that_cannot_be_deleted_when_it_ends_stays_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = shutil.rmtree

    def rmtree(folder: Path, ignore_errors: bool = False) -> None:
        if not folder.name.startswith(staging.EXPORTED):
            ordinary(folder, ignore_errors)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(staging.shutil, "rmtree", rmtree)
        with staging.folder_at(tmp_path) as left:
            raise OSError(28, "No space left on device")
    assert left.exists()
    assert recover() == [] and not left.exists()
    assert not list((config.cache_folder() / "temporary").glob(".*"))


@pytest.mark.usefixtures("elsewhere")
def test_an_export_of_a_killed_process_is_deleted_where_it_was_written(tmp_path: Path) -> None:
    config.data_folder().mkdir(parents=True)
    desk = tmp_path / "desk"
    (desk / ".export-of-others").mkdir(parents=True)
    left = export_of_a_killed_process(desk)
    assert (left / "rows").read_text() == CANARY
    with staging.folder_at(desk) as at_work:
        assert recover() == [] and at_work.is_dir()
    assert [one.name for one in desk.iterdir()] == [".export-of-others"]
    # A note that names any other folder deletes nothing.
    lost = config.cache_folder() / "temporary" / ".incoming-note" / "files"
    lost.mkdir(parents=True)
    (lost / "elsewhere").write_text(str(desk))
    assert recover() == [] and desk.is_dir() and not lost.exists()


@pytest.mark.usefixtures("elsewhere")
def test_caches_that_lie_elsewhere_by_a_link_are_named(tmp_path: Path) -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "text").write_text(CANARY)
    cache = config.cache_folder()
    (cache / "kept").mkdir()
    (cache / "kept" / "part").symlink_to(outside)
    (cache / "texts").symlink_to(outside)
    (cache / "models").symlink_to(outside)
    removed = api.remove_cohort("ward")
    assert removed["linked_caches"] == ["cache/kept/part", "cache/texts"]
    assert (outside / "text").exists() and not (cache / "kept").exists()


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
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])
    for folder in ("a/texts", "a/b/texts", "texts"):
        (cache / folder).mkdir()
        (cache / folder / "text").write_text(CANARY)
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
    shutil.rmtree(reviews_folder(run))
    api.export_run(run, tmp_path / "run.zip", with_text)
    api.remove_run(run)
    api.keep_question("ward", "p1", "Something new?")
    assert api.import_run(tmp_path / "run.zip")["cohort"] == "other"
    assert api.remove_cohort("ward", runs=True)["runs"] == with_text
    assert len(api.status()) == (not with_text)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("claim", [False, None])
def test_an_imported_run_with_text_goes_whatever_its_manifest_says(
    tmp_path: Path, claim: bool | None
) -> None:
    prepare(tmp_path / "place")
    api.set_data_use("ward", "external_services_allowed", True, "agreement number 12")
    (run,) = [row["run"] for row in api.status()]
    shutil.rmtree(reviews_folder(run))
    api.export_run(run, tmp_path / "out", True)
    api.remove_run(run)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    del manifest["with_text"]
    if claim is not None:
        manifest["with_text"] = claim
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    api.keep_question("ward", "p1", "Something new?")
    assert api.import_run(tmp_path / "out")["cohort"] == "other"
    assert api.remove_cohort("ward", runs=True)["runs"] == 1 and not api.status()


@pytest.mark.usefixtures("elsewhere")
def test_runs_go_with_their_cohort_where_the_data_folder_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "place")
    config.data_folder().rename(tmp_path / "moved")
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "moved"))
    assert api.remove_cohort("ward", runs=True)["runs"] == 1
    assert not api.status() and holding(CANARY) == []


@pytest.mark.usefixtures("elsewhere")
def test_a_log_whose_cohort_is_removed_while_it_is_opened_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])
    row = {"id": "a", "patient": "p1", "question": f"Is {CANARY}?", "answer": "yes", "score": 1}
    log = io.BytesIO(json.dumps(row).encode() + b"\n")
    api.receive_log("ward", [("log.jsonl", log)])
    (file,) = (config.received_folder() / "ward").rglob("log.jsonl")
    make = import_results.make_run

    def remove_first(document: Any, **options: Any) -> RunDirectory:
        api.remove_cohort("ward")
        return make(document, **options)

    monkeypatch.setattr(import_results, "make_run", remove_first)
    with pytest.raises(InputError, match="removed meanwhile"):
        api.import_results(file)
    assert not api.status() and holding(CANARY) == [] and hidden() == []


@pytest.mark.usefixtures("elsewhere")
def test_an_imported_run_on_a_part_of_a_cohort_goes_with_the_cohort(tmp_path: Path) -> None:
    def ward() -> None:
        files = [(f"{one}/p1.txt", io.BytesIO(CANARY.encode())) for one in ("first", "second")]
        tag = {"external_services_allowed": True}
        api.import_cohort("ward", files, allowed=tag, reason="agreement number 12")

    ward()
    part = config.cohorts_folder() / "ward" / "first"
    (part / "midchart.toml").write_text("external_services_allowed = true\n")
    api.set_data_use(str(part), "external_services_allowed", True, "agreement number 12")
    table = {"kind": "answers", "arms": ["recency"], "readers": ["extractive"]}
    run = finished_run({**table, "questions": ["Was it seen?"], "data": str(part)})
    api.export_run(run, tmp_path / "part.zip", True)
    api.remove_cohort("ward", runs=True)
    assert not api.status()
    assert api.import_run(tmp_path / "part.zip")["cohort"] == "absent"
    assert holding(CANARY)
    ward()
    api.remove_cohort("ward", runs=True)
    assert not api.status() and holding(CANARY) == []


@pytest.mark.usefixtures("elsewhere")
def test_a_removal_that_is_taken_back_deletes_nothing_of_a_name_that_was_taken(
    tmp_path: Path,
) -> None:
    prepare(tmp_path / "place")
    (run,) = [row["run"] for row in api.status()]
    removal = Removal("ward", [run], {"cohort": "ward"})
    note = config.data_folder() / ".removal-0.json"
    note.write_text(json.dumps(asdict(removal)))
    reviews = reviews_folder(run)
    reviews.rename(reviews.with_name(f".outgoing-0-{run}"))
    reviews.mkdir()
    (problem,) = recover()
    assert f"reviews/{run}" in problem and "taken since" in problem and "\n" not in problem
    assert len(holding(CANARY)) > 1 and note.exists() and api.open_data("ward").records
    reviews.rmdir()
    assert recover() == [] and not note.exists() and (reviews / "ann.jsonl").exists()


@pytest.mark.usefixtures("elsewhere")
def test_the_folder_of_a_probe_is_one_that_a_start_sweeps_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "place")
    left: list[Path] = []

    def measured(spec: object, folder: Path, enough: int) -> tuple[None, int, float]:
        (folder / "rows").write_text(CANARY)
        assert recover() == [] and (folder / "rows").exists()
        killed = folder.parent.with_name(f"{folder.parent.name}-killed")
        shutil.copytree(folder.parent, killed)
        left.append(killed)
        return None, 0, 0.0

    monkeypatch.setattr("midchart.core.runs.probe._measured", measured)
    api.probe({"kind": "selection", "data": "ward", "arms": ["recency"]})
    assert left[0].exists() and left[0].parent == config.data_folder()
    assert recover() == [] and hidden() == []


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("end", ["renamed", "removed", "imported"])
def test_text_of_a_cohort_that_is_not_here_is_exported_no_more(tmp_path: Path, end: str) -> None:
    prepare(tmp_path / "place")
    api.set_data_use("ward", "external_services_allowed", True, "agreement number 12")
    (run,) = [row["run"] for row in api.status()]
    shutil.rmtree(reviews_folder(run))
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
