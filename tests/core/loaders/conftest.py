"""Each test of a loader has its own cache."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path.with_name(f"{tmp_path.name}-cache")
    monkeypatch.setenv("MIDCHART_CACHE", str(cache))
    return cache
