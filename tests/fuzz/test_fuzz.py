"""A first few of the cases that `make fuzz` runs by the ten thousand, of every target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import run
from tests.fuzz.mutate import MOST_BYTES
from tests.fuzz.run import MOST_S, case
from tests.fuzz.targets import TARGETS, change
from tests.support.run_helpers import set_workspace

pytestmark = pytest.mark.slow
CASES = {"run_folder": 3, "run_import": 6, "spec": 6, "omop_csv": 6, "manifest": 8}
USUAL_CASES = 12


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty workspace with a home and a current folder of its own."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        set_workspace(patch, folder)
        for name in ("data", "home", "work"):
            (folder / name).mkdir()
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("MIDCHART_SECRETS", str(folder / "secrets.toml"))
        patch.chdir(folder / "work")
        yield folder


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("target", TARGETS)
def test_every_input_ends_in_a_result_or_in_one_line(target: str, place: Path) -> None:
    faults = {}
    for number in range(CASES.get(target, USUAL_CASES)):
        fault, seconds, _ = case(target, 1, number, place)
        if fault or seconds > MOST_S:
            faults[number] = fault or f"took {seconds:.0f} s"
    assert not faults


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.toml", "a.tsv", "a.xml", "a.parquet"])
def test_a_damaged_file_is_changed_too_and_no_input_is_larger_than_the_suite_says(
    name: str,
) -> None:
    rows = b"[" + b"[1, 2], " * 50 + b"\xff"
    footer = b"PAR1" + b"\xff" * 20 + (20).to_bytes(4, "little") + b"PAR1"
    for seed in range(60):
        data = (rows, b"a\tb\n" + b"x" * 40_000 + b"\ty\n", footer)[seed % 3]
        assert len(change(np.random.default_rng(seed), name, data)) <= MOST_BYTES


def test_a_case_that_was_slow_once_is_repeated_in_a_new_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    processes = iter([
        [(0, "", 0.1, 1), (2, "took 9 s", 9.0, 1), (4, "raised", 0.1, 1),
         (6, "ran for more than 20 s", 20.0, 0)],
        [(2, "took 8 s", 8.0, 1)], [(6, "", 0.1, 1)], [(8, "", 0.1, 1)],
    ])  # fmt: skip
    started = []
    monkeypatch.setattr(
        run, "_in_process", lambda *place: started.append(place[2:]) or iter(next(processes))
    )
    faults = {number: fault for number, fault, *_ in run._results("x", 1, 0, 2, 10)}
    assert started == [(0, 2, 10), (2, 1, 3), (6, 1, 7), (8, 2, 10)]
    assert faults == {
        0: "", 2: "took 9 s; in a new process: took 8 s", 4: "raised",
        6: "ran for more than 20 s; in a new process: no fault", 8: "",
    }  # fmt: skip
    assert len(capsys.readouterr().err.splitlines()) == 3
