"""Numbers as text: what is not estimable is said so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midchart.core.cli import cell
from midchart.core.format import decimals, interval, p_number, p_value, percent, points, signed

NAN = float("nan")


@pytest.mark.parametrize("text", [cell, decimals, p_number, percent, points, signed])
def test_a_number_that_is_nan_is_not_estimable(text: Callable[[float], str]) -> None:
    assert text(NAN) == "not estimable"
    assert text(0.25) != "not estimable"


def test_a_p_that_is_nan_is_not_estimable_and_an_interval_of_nan_is_none() -> None:
    assert (p_value(NAN), p_value(0.25), p_value(0.0001)) == (
        "p not estimable",
        "p = 0.250",
        "p < 0.001",
    )
    assert interval(NAN, NAN, percent) == interval(0.1, NAN, percent) == ""
    assert interval(0.1, 0.2, percent) == " [10.0 %, 20.0 %]"
