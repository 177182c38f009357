"""Files are converted in a process that is confined: what exceeds a limit is left out by name."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from midchart.core import charts, confinement
from midchart.core import config as settings
from midchart.core.charts.convert import FOLDER
from midchart.core.errors import DataError
from midchart.core.loaders import worker
from midchart.core.loaders.open import open_cohort
from midchart.core.types import Cohort
from tests.support.fhir import patient, reading


def a_long_note(folder: Path) -> str:
    (folder / "big.txt").write_text("No fever. " * 12_000_000)
    (folder / "small.txt").write_text("No fever.")
    return "big.txt"


def a_bundle_of_many_objects(folder: Path) -> str:
    entries = ",".join(['{"resource":{"resourceType":"Basic","code":{"text":"x"}}}'] * 900_000)
    (folder / "big.json").write_text(f'{{"resourceType":"Bundle","entry":[{entries}]}}')
    lines = [patient("small"), reading("r", "Potassium", "Patient/small")]
    (folder / "small.ndjson").write_text("\n".join(map(json.dumps, lines)))
    return "big.json"


def a_packed_note(folder: Path) -> str:
    note = b"patient_id,time,text\nbig,2020-01-01," + b"No fever. " * 30_000_000
    (folder / "big.csv.gz").write_bytes(gzip.compress(note, 1))
    (folder / "small.csv").write_text("patient_id,time,text\nsmall,2020-01-01,No fever.\n")
    return "big.csv.gz"


@pytest.mark.parametrize(
    ("attack", "seconds", "memory"),
    [
        (a_packed_note, 60, 100 << 20),
        (a_bundle_of_many_objects, 1, confinement.MEMORY),
        (a_long_note, 60, 100 << 20),
        (a_bundle_of_many_objects, 60, 100 << 20),
    ],
)
def test_what_exceeds_a_limit_is_left_out_by_name_and_the_rest_loads(
    attack: Callable[[Path], str],
    seconds: int,
    memory: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confinement, "SECONDS", seconds)
    monkeypatch.setattr(confinement, "SECONDS_PER_MB", 0)
    monkeypatch.setattr(confinement, "MEMORY", memory)
    monkeypatch.setattr(confinement, "MEMORY_PER_BYTE", 0)
    name = attack(tmp_path)
    cohort = open_cohort(tmp_path)
    assert list(cohort.records) == ["small"]
    assert len(cohort.records["small"].events) == 1
    (skipped,) = [one for one in cohort.skipped if one.file == name]
    assert skipped.reason == f"{confinement.OVER_LIMIT} — split it"


def test_a_cohort_of_one_file_over_a_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "MEMORY", 100 << 20)
    monkeypatch.setattr(confinement, "MEMORY_PER_BYTE", 0)
    name = a_long_note(tmp_path)
    (tmp_path / "small.txt").unlink()
    with pytest.raises(DataError, match=name):
        open_cohort(tmp_path)


@pytest.mark.parametrize("threads", [0, 1])
def test_a_conversion_that_is_cancelled_leaves_nothing_with_threads_and_without(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_QUIET_S", 0.0)
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text("No fever.")

    def left(what: str, done: int, planned: int) -> None:
        if done:
            raise KeyboardInterrupt

    def call(reading: Callable[[str, int, int], object]) -> Cohort:
        charts.reading.set(reading)
        return open_cohort(tmp_path)

    def run(reading: Callable[[str, int, int], object]) -> Cohort:
        if not threads:
            return copy_context().run(call, reading)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call, reading).result()

    before = stores()
    with pytest.raises(KeyboardInterrupt):
        run(left)
    assert stores() == before
    assert len(run(lambda *_: None).records) == 9


def test_who_waits_for_a_conversion_gets_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_QUIET_S", 0.0)
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text("No fever.")
    converting, waiting, steps = Event(), Event(), list[tuple[str, int, int]]()

    def first(*step: str | int) -> None:
        if step[1]:
            converting.set()
            waiting.wait(20)

    def second(*step: Any) -> None:
        steps.append(step)
        waiting.set()

    def call(reading: Callable[..., None]) -> list[str]:
        charts.reading.set(reading)
        return list(open_cohort(tmp_path).records)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(call, first)
        assert converting.wait(20)
        assert pool.submit(call, second).result() == one.result()
    assert steps[0] == ("files", 1, 9) and steps[-1] == ("records", 9, 9)


def stores() -> list[Path]:
    """The folders of chart stores, unfinished ones too."""
    return sorted(filter(Path.is_dir, (settings.cache_folder() / FOLDER).glob("*")))


TRIES = """
import json, os, socket, sys
from pathlib import Path
from midchart.core.confinement import confine
inside, outside = Path(sys.argv[1]), Path(sys.argv[2])
reading = [inside, Path(sys.prefix), Path("/usr"), Path("/etc")]
missing = confine(64 << 20, 1 << 20, reading, [inside])
address = ("127.0.0.1", int(sys.argv[3]))
tries = {
    "network": lambda: socket.socket().connect(address),
    "programs": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
    "files": lambda: (outside / "secret").read_text(),
    "written": lambda: (outside / "new").write_text("x"),
    "memory": lambda: bytearray(200 << 20),
    "output": lambda: (inside / "large").write_bytes(b"x" * (2 << 20)),
    "allowed": lambda: (inside / "small").write_text("x"),
}
failed = {}
for name, attempt in tries.items():
    try:
        attempt()
    except (OSError, MemoryError) as error:
        failed[name] = type(error).__name__
print(json.dumps([missing, failed]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limits alone are there")
def test_a_confined_process_reaches_nothing_but_its_files(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("Nell Quarrie")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-c", TRIES, str(inside), str(outside), port],
            capture_output=True,
            text=True,
            check=True,
        )
    missing, failed = json.loads(done.stdout)
    of = {"network": ("network",), "programs": ("programs",), "files": ("files", "written")}
    tried = {"memory", "output", *(one for of_it in of.values() for one in of_it)}
    assert set(failed) >= tried - {one for lack in missing for one in of[lack]}
    assert "allowed" not in failed
    assert failed["memory"] == "MemoryError"


def test_a_confined_process_has_no_keys() -> None:
    plain = {"PATH": "/bin", "MIDCHART_DATA": "data"}
    keys = {"ANTHROPIC_API_KEY": "k", "MIDCHART_SERVED_KEY": "k", "aws_secret_x": "k"}
    assert confinement.without_secrets(plain | keys | {"HF_TOKEN": "t"}) == plain
