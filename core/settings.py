"""Where things are: the only reader of environment variables and the only decider of paths.

``MIDCHART_DATA`` (default ``data/``), ``MIDCHART_CACHE`` (default ``cache/``) and
``MIDCHART_MODELS`` (default ``cache/models/``). Read afresh at each call, so tests and
worker processes need no reload. Nothing is made here; writers make their folders.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds app.py."""


def _folder(variable: str, default: Path) -> Path:
    value = os.environ.get(variable, "").strip()
    return Path(value).expanduser().resolve() if value else default


def data_folder() -> Path:
    """Root of all data."""
    return _folder("MIDCHART_DATA", ROOT / "data")


def cohorts_folder() -> Path:
    """Where cohorts lie, a folder each."""
    return data_folder() / "cohorts"


def runs_folder() -> Path:
    """Where runs lie, a folder each; the program never deletes one."""
    return data_folder() / "runs"


def published_folder() -> Path:
    """The paper's figures, which come with the program."""
    return ROOT / "data" / "published"


def cache_folder() -> Path:
    """What can be made again; deleting it costs time, never results."""
    return _folder("MIDCHART_CACHE", ROOT / "cache")


def models_folder() -> Path:
    """Where weights that the user brought are looked for first."""
    return _folder("MIDCHART_MODELS", cache_folder() / "models")


def worker_environment() -> dict[str, str]:
    """Environment for a worker process: this one's, with the folders pinned."""
    return {
        **os.environ,
        "MIDCHART_DATA": str(data_folder()),
        "MIDCHART_CACHE": str(cache_folder()),
        "MIDCHART_MODELS": str(models_folder()),
        "PYTHONUNBUFFERED": "1",
    }
