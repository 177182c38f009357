"""Numbers as text: what is not estimable is said so."""

from __future__ import annotations

from midchart.core.format import interval, p_value, percent, time_left

NAN = float("nan")


def test_a_p_that_is_nan_is_not_estimable_and_an_interval_of_nan_is_none() -> None:
    assert (p_value(NAN), p_value(0.25), p_value(0.0001)) == (
        "p not estimable",
        "p = 0.250",
        "p < 0.001",
    )
    assert interval(NAN, NAN, percent) == interval(0.1, NAN, percent) == ""
    assert interval(0.1, 0.2, percent) == " [10.0 %, 20.0 %]"


def test_a_time_left_is_the_mean_pace_from_a_tenth_on() -> None:
    assert [time_left(done, 2.0 * done, 100 - done) for done in (0, 9, 10, 99, 100)] == [
        None, None, 180.0, 2.0, 0.0,
    ]  # fmt: skip
