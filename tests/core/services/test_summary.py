"""A cohort's summary gives what reading every record gives, and is made again for changed files."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core import api, config
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import close_cohorts, open_cohort
from midchart.core.protocol import Protocol
from midchart.core.services import summary
from tests.support.run_helpers import until


@pytest.fixture
def demo(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cohort whose questions have exact spans, some of several pieces."""
    monkeypatch.setattr(summary, "_known", {})
    api.prepare_demo(elsewhere / "cohort", patients=6, events_per_patient=40)
    return elsewhere / "cohort"


def forget() -> None:
    """As in a process that has not opened the cohort."""
    close_cohorts()
    summary._known.clear()


def test_check_and_curve_are_those_of_a_complete_reading(demo: Path) -> None:
    fresh = open_cohort(demo)
    checked = check_cohort(fresh)
    tables = api.curve(fresh, snippets="all", resamples=50, protocol=Protocol())
    locations = api.curve_locations(fresh, "token", Protocol())
    choices = api.curve_choices(fresh, Protocol())
    for _ in range(2):  # made, then read from the cache
        forget()
        assert api.reading_progress(demo) is None
        cohort = api.open_data(demo)
        assert summary.known_summary(cohort) is not None
        assert api.check(demo) == checked
        assert api.curve(cohort, snippets="all", resamples=50) == tables
        assert api.curve_locations(cohort, "token") == locations
        assert api.curve_choices(cohort) == choices


def test_a_changed_file_makes_a_new_summary_and_removes_the_old(demo: Path) -> None:
    assert api.reading_progress(demo) is None
    before = api.check(demo)
    sorted((demo / "ehrs").iterdir())[0].unlink()
    assert summary.known_summary(api.open_data(demo)) is None
    assert api.reading_progress(demo) is None
    assert api.check(demo)["records"] == before["records"] - 1
    assert len(list((config.cache_folder() / summary.FOLDER).glob("*.json"))) == 1


@pytest.mark.slow
def test_a_large_cohort_is_read_by_a_process_that_says_how_far_it_is(
    demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "AT_ONCE", 0)
    assert api.reading_progress(demo) == api.ReadingProgress(0, 6)
    until(lambda: api.reading_progress(demo) is None, "the records are read")
    assert api.check(demo) == check_cohort(open_cohort(demo))


def problem(path: Path) -> str:
    """Why the process that reads a cohort stopped."""
    progress = api.reading_progress(path)
    return progress.problem if progress else ""
