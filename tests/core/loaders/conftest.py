"""Each test of a loader has its own cache."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
