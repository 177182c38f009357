"""What a cohort's pages need of all its records is made once, by a process where it is large."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.loaders import open as opening
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import close_cohorts, open_cohort, read_cohort
from tests.support.run_helpers import until


@pytest.fixture
def demo(elsewhere: Path) -> Path:
    """A cohort whose questions have exact spans, some of several pieces."""
    api.prepare_demo(elsewhere / "cohort", patients=6, events_per_patient=40)
    return elsewhere / "cohort"


def test_check_and_curve_of_the_store_are_those_of_the_files(demo: Path) -> None:
    plain, stored = read_cohort(demo), open_cohort(demo)
    counts = ("records", "events", "tokens", "undated", "positions")
    assert [check_cohort(plain)[name] for name in counts] == [api.check(demo)[n] for n in counts]
    for of in (api.curve_locations, api.curve_choices):
        assert of(plain) == of(stored)


@pytest.mark.slow
def test_a_large_cohort_is_analysed_by_a_process_that_says_how_far_it_is(
    demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "ANALYSED_AT_ONCE", 0)
    close_cohorts()
    assert api.reading_progress(demo) == api.ReadingProgress(0, 6)
    until(lambda: api.reading_progress(demo) is None, "the records are read")
