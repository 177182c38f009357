"""The folder of a storage test."""

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder in the test's own: who opens a table holds the folder around it from then on, which
    must not be that of all tests."""
    folder = tmp_path / "run"
    folder.mkdir()
    return folder
