"""The benchmark against released packages: its slope, and one row."""

from __future__ import annotations

import pytest

from tests.bench import peers


@pytest.mark.parametrize("power", [0, 1, 2])
def test_the_exponent_is_the_power_of_the_size(power: int) -> None:
    sizes = (10, 40, 160)
    assert peers.exponent(sizes, [3e-6 * size**power for size in sizes]) == pytest.approx(power)


def test_a_row_names_package_and_ratio() -> None:
    def work(times: int) -> peers.Work:
        return lambda: sum(range(times * 2_000))

    pairs = [peers.Pair(size, work(10 * size), work(size)) for size in (1, 4)]
    row = peers.measure(peers.Peer("sums", "numpy", lambda: pairs))
    assert row["package"].startswith("numpy ") and row["size"] == 4
    assert 3 < row["ratio"] < 30
