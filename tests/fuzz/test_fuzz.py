"""A first few of the cases that `make fuzz` runs by the ten thousand, of every target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.run import case
from tests.fuzz.targets import TARGETS
from tests.support.run_helpers import set_workspace

CASES = 8


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty workspace with a home of its own."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        set_workspace(patch, folder)
        for name in ("data", "home"):
            (folder / name).mkdir(exist_ok=True)
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("MIDCHART_SECRETS", str(folder / "secrets.toml"))
        yield folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("target", TARGETS)
def test_every_input_ends_in_a_result_or_in_one_line(target: str, place: Path) -> None:
    faults = {number: case(target, 1, number, place) for number in range(CASES)}
    assert not {number: fault for number, fault in faults.items() if fault}
