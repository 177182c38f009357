"""A removal or an import that a kill ends at any of its file operations: the next start ends it,
and nothing of a removed cohort is left anywhere."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from midchart.core import api, config
from midchart.core.errors import MidchartError
from midchart.core.results.reviews import reviews_folder
from midchart.core.services.removal import recover
from midchart.core.storage import lock, staging
from tests.support.run_helpers import ROOT, finished_run

CANARY = "Zebrafish-7431"
NOTES = f"patient_id,time,text\np1,2020-01-01,{CANARY} was seen. No fever.\n"
QUESTIONS = (
    "instruction_id\tfilename\tquestion\tevidence\tclinician_response\n"
    f"q1\tp1\tWas {CANARY} seen?\t{CANARY} was seen.\tyes\n"
)
STEPS = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "shutil.rmtree")
KILLED = 9


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


def removal_at_every_step(place: Path) -> int:
    """Remove the cohort with a kill at each step, on a copy each; gives the number of steps."""
    saved = place / "saved"
    data, cache = config.data_folder(), config.cache_folder()
    shutil.copytree(data, saved / "data")
    shutil.copytree(cache, saved / "cache")
    step = 0
    while not ends_whole(lambda: api.remove_cohort("ward", runs=True), step):
        audited = "removed" in [line["event"] for line in api.audit_lines()]
        assert recover() == []
        assert not hidden(), (step, hidden())
        if audited and not (config.cohorts_folder() / "ward").exists():
            assert holding(CANARY) == []
        else:  # nothing was begun
            assert api.open_data("ward").records
        step += 1
        for folder, copy in ((data, saved / "data"), (cache, saved / "cache")):
            shutil.rmtree(folder)
            # inodes change with a copy; the removal reads them anew
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


@pytest.mark.slow
@pytest.mark.parametrize("work", ["removal", "import"])
def test_a_kill_at_any_step_leaves_nothing_after_the_next_start(tmp_path: Path, work: str) -> None:
    # In a process of its own: a child that is forked beside other threads can wait forever.
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.core.services import test_removal as t\n"
        f"place = Path({str(tmp_path)!r})\n"
        + (
            "t.prepare(place)\nprint(t.removal_at_every_step(place))"
            if work == "removal"
            else "print(t.import_at_every_step(place))"
        )
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
    assert int(done.stdout.split()[-1]) >= 8


@pytest.mark.usefixtures("elsewhere")
def test_a_cohort_that_took_the_name_since_is_not_removed() -> None:
    api.import_cohort("ward", [("notes.csv", io.BytesIO(NOTES.encode()))])
    note = config.data_folder() / ".removal-0.json"
    note.write_text('{"cohort": "ward", "inode": 1, "runs": []}')
    assert recover() == [] and not note.exists()
    assert [card.name for card in api.cohorts()] == ["ward"]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"cohort": "../x", "inode": 1, "runs": []}',
     '{"cohort": "", "inode": 1, "runs": ["../cohorts"]}', '{"cohort": "ward"}',
     '{"cohort": "", "inode": 1, "runs": [3]}', '{"cohort": 3, "inode": 1, "runs": []}'],
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
        patch.setattr("midchart.core.services.removal.delete", refuse)
        with pytest.raises(MidchartError, match="Permission denied"):
            api.remove_cohort("ward")
        (problem,) = recover()
        assert "is not ended" in problem and "\n" not in problem
    assert recover() == [] and hidden() == [] and not api.cohorts()
