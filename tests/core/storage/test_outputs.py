"""Files that a person names for a result: never waited for, followed or written over half."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from midchart.core import config as settings
from midchart.core.cli import main
from midchart.core.errors import InputError
from midchart.core.results.report import write_tables
from midchart.core.storage import outputs
from tests.support.run_helpers import finished_run, write_cohort

TABLES = {"first": [{"a": 1}], "second": [{"b": 2}]}


def in_place(place: Path, kind: str) -> Path:
    """Something in the place of ``second.csv``, and the file that a link there leads to."""
    target, other = place / "second.csv", place / "other"
    other.write_text("other")
    if kind == "link":
        target.symlink_to(other)
    elif kind == "dangling link":
        target.symlink_to(place / "nothing")
    elif kind == "pipe":
        os.mkfifo(target)
    else:
        target.mkdir()
    return other


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_is_no_regular_file_is_refused_before_anything_is_written(
    tmp_path: Path, kind: str
) -> None:
    other = in_place(tmp_path, kind)
    with pytest.raises(InputError, match=r"second\.csv: is a link, folder, pipe or device"):
        write_tables(TABLES, tmp_path)
    assert other.read_text() == "other"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other", "second.csv"]


def test_a_table_that_cannot_be_written_to_its_end_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tables(TABLES, tmp_path)
    before = (tmp_path / "second.csv").read_bytes()

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("midchart.core.results.report.write_sheet", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_tables({"second": [{"b": 3}]}, tmp_path)
    assert (tmp_path / "second.csv").read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["first.csv", "second.csv"]


def test_a_file_of_the_installation_is_not_written_over(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCHART_SECRETS", str(workspace / "keys.toml"))
    monkeypatch.setenv("MIDCHART_MODELS", str(workspace / "weights"))
    cohort = write_cohort(settings.cohorts_folder() / "ward", records=1)
    settings.audit_file().write_text("")
    calibration = settings.calibrations_folder() / "mine.json"
    for place in (
        next(one for one in cohort.rglob("*") if one.is_file()),
        settings.runs_folder() / "x" / "spec.json",
        settings.audit_file(),
        settings.state_folder() / "audit" / "x.json",
        settings.cache_folder() / "vectors" / "x",
        settings.data_folder() / "reviews" / "x.csv",
        settings.data_folder() / ".import-begun-x",
        workspace / "keys.toml",
        workspace / "weights" / "small" / "config.json",
    ):
        with pytest.raises(InputError, match="lies where Midchart stores its data"):
            outputs.output_path(place)
    free = workspace / "desk" / "a.csv"
    assert outputs.output_path(free) == free
    assert outputs.output_path(calibration) == calibration
    result = settings.data_folder() / "benchmarks" / "x.json"
    assert outputs.output_path(result) == result


@pytest.fixture
def run(workspace: Path) -> str:
    cohort = write_cohort(settings.cohorts_folder() / "ward", records=1)
    spec = {"kind": "answers", "data": str(cohort), "arms": ["bm25"], "readers": ["extractive"]}
    return finished_run(spec | {"judges": ["exact"]})


COMMANDS: dict[str, Callable[[str, Path], list[str]]] = {
    "html": lambda run, file: ["export", run, "--out", f"{file}.zip", "--html", str(file)],
    "tables": lambda run, file: ["report", run, "--csv", str(file.parent)],
    "calibration": lambda run, file: [
        "calibrate",
        str(settings.cohorts_folder() / "ward"),
        "--out",
        str(file),
    ],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_refuses_a_pipe_at_once(
    run: str, name: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = workspace / "desk"
    desk.mkdir()
    pipe = desk / ("accuracy.csv" if name == "tables" else "out")
    os.mkfifo(pipe)
    assert main(COMMANDS[name](run, pipe)) != 0
    assert "is a link, folder, pipe or device" in capsys.readouterr().err
    assert pipe.is_fifo()
