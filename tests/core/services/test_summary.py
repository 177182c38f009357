"""What a cohort's pages need of all its records is that of its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort, read_cohort


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
