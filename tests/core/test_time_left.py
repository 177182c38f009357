"""The time left of a run, from the steps done so far."""

import pytest

from midchart.core.time_left import TimeLeft


def estimates(each: float, waits: list[tuple[int, float]], total: int) -> list[float | None]:
    """The estimate after each of ``waits`` (steps, seconds that they took)."""
    time_left, done, stated = TimeLeft(each), 0, []
    for steps, seconds in waits:
        done += steps
        stated.append(time_left.after(steps, seconds, total - done))
    return stated


def test_start_up_counts_nowhere_and_nothing_is_stated_before_a_tenth():
    stated = estimates(1, [(0, 60.0), (1, 30.0), *[(1, 2.0)] * 99], 100)
    assert stated[:10] == [None] * 10, "nine steps of a hundred are no tenth"
    assert stated[10:] == [pytest.approx(2.0 * (100 - done)) for done in range(10, 101)]


def test_steps_of_a_round_may_differ_in_cost():
    # A patient: 8 cheap items at once, then 2 that take 5 s each; 20 patients, the first slow.
    patient = [(8, 0.1), (1, 5.0), (1, 5.0)]
    stated = estimates(10, [(0, 40.0), (1, 20.0), *patient * 20], 201)
    for patients in range(3, 20):
        left = stated[1 + 3 * patients]
        assert left == pytest.approx(10.1 * (20 - patients), rel=0.05)


def test_the_time_left_of_work_that_waits_grows():
    time_left = TimeLeft()
    for _ in range(20):
        time_left.after(1, 1.0, 20)
    waiting = [time_left.after(0, 10.0, 20) for _ in range(3)]
    assert waiting == sorted(waiting) and waiting[0] > 20.0
