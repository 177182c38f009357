"""The names of core.api: what type checkers read and what is imported on first use are the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from midchart.core import api

ROOT = Path(__file__).parents[2]


def test_every_name_can_be_imported():
    assert all(getattr(api, name) is not None for name in dir(api))


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match=r"'midchart\.core\.api' has no attribute 'nothing'"):
        _ = api.nothing  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow
def test_a_command_loads_what_it_uses_and_no_more():
    code = "import sys; from midchart.core import api; api.select; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "midchart.core.services.questions" in loaded
    assert not loaded & {
        "midchart.core.services.curve",
        "midchart.core.stats",
        "midchart.core.results.report",
        "midchart.extras.lab.synthetic",
    }
