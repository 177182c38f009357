"""Files of the program are readable only by their owner; exports have the person's own mode."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from midchart.core.storage import files
from midchart.core.storage.jsonl import add_line
from midchart.core.storage.lock import Lock, exclusive

ROOT = Path(__file__).parents[2]
SPEC = """name = "modes"
kind = "answers"
data = "{data}"
arms = ["bm25"]
readers = ["extractive"]
judges = ["exact"]
"""
COMMANDS = """
import os, sys
from pathlib import Path
from midchart.core.cli import main
place = Path(sys.argv[1])
data = place / "data"
def core(*arguments):
    assert main(list(map(str, arguments))) == 0, arguments
core("demo", "--patients", 4, "--events-per-patient", 40)
core("run", place / "spec.toml")
(run,) = [one.name for one in (data / "runs").iterdir() if one.is_dir()]
core("export", run, "--out", place / "out.zip")
core("report", run, "--csv", place / "tables")
tag = (data / "cohorts" / "demo", "training_allowed", "no")
core("data-use", *tag, "--reason", "the agreement has ended")
os.environ["MIDCHART_DATA"] = str(data / "elsewhere")
core("import", place / "out.zip")
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(name="data", scope="module")
def data_of_a_run(tmp_path_factory) -> Path:
    """A demo cohort, a finished run and its exports, made by a process with umask 022."""
    place = tmp_path_factory.mktemp("modes")
    data = place / "data"
    (place / "spec.toml").write_text(SPEC.format(data=data / "cohorts" / "demo"))
    environment = os.environ | {"MIDCHART_DATA": str(data), "MIDCHART_CACHE": str(place / "cache")}
    environment["MIDCHART_STATE"] = str(place / "state")
    subprocess.run(
        [sys.executable, "-c", COMMANDS, str(place)],
        cwd=ROOT, env=environment, umask=0o022, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return place


@pytest.mark.slow
def test_cohorts_runs_caches_and_logs_are_their_owner_s(data):
    written = [
        one for root in map(data.joinpath, ("data", "cache", "state"))
        for one in (root, *root.rglob("*")) if one.exists()
    ]  # fmt: skip
    assert {"audit.jsonl", "generated.jsonl", "imported.json"} <= {one.name for one in written}
    open_to_others = {str(one): oct(mode(one)) for one in written if mode(one) & 0o077}
    assert not open_to_others


@pytest.mark.slow
def test_exports_have_the_person_s_own_mode(data):
    assert mode(data / "out.zip") == 0o644
    assert {mode(one) for one in (data / "tables").iterdir()} == {0o644}


def test_a_library_s_files_are_private_without_an_umask(tmp_path):
    with files.replacing(tmp_path / "card.json") as fresh:
        fresh.write_text("{}")
    add_line(tmp_path / "audit.jsonl", {"a": 1})
    lock = Lock.take(tmp_path / "lock")
    assert lock is not None
    lock.release()
    with exclusive(tmp_path / "locked"):
        pass
    assert {mode(tmp_path / name) for name in ("card.json", "audit.jsonl", "lock")} == {0o600}


def test_protecting_twice_keeps_the_person_s_umask(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_ordinary_umask", [])
    before = os.umask(0o027)
    try:
        files.protect_new_files()
        files.protect_new_files()
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "file").touch()
        assert mode(tmp_path / "folder") == 0o700
        assert mode(tmp_path / "folder" / "file") == 0o600
        files.use_ordinary_mode(tmp_path / "folder")
        assert mode(tmp_path / "folder") == 0o750
        assert mode(tmp_path / "folder" / "file") == 0o640
    finally:
        os.umask(before)
