"""The workspace and the cohort that the tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import run_members
from tests.support.run_helpers import members_place, write_cohort


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A workspace with the tests' own readers and judges; a file may name ``MEMBERS`` of its own
    and an ``ENVIRONMENT``."""
    folder = tmp_path_factory.mktemp("runs")
    members = getattr(request.module, "MEMBERS", run_members)
    with members_place(folder, members, **getattr(request.module, "ENVIRONMENT", {})):
        yield folder


@pytest.fixture(scope="module")
def cohort(place: Path, request: pytest.FixtureRequest) -> Path:
    """The tests' cohort; a file may choose its ``RECORDS``."""
    return write_cohort(
        place / "data" / "cohorts" / "tiny", records=getattr(request.module, "RECORDS", 3)
    )
