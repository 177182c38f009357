"""Runs: plan a spec, do it in a worker process, take it up again, and tell what came out.

A page or the command line starts a run and then only reads. What a run leaves on disk is told in
:mod:`core.run.folder`, what is in its rows in :mod:`core.run.rows`.
"""

from __future__ import annotations

# Loaded first, or the module would hide the function of its name.
import core.run.rows  # noqa: F401 # pyright: ignore[reportUnusedImport]
from core.run.compare import (
    answer,
    asked_of,
    compared,
    different_only,
    disagreements,
    item,
    outcomes,
    rows,
)
from core.run.comparing import compare_runs
from core.run.compose.considering import consider
from core.run.compose.estimating import estimate
from core.run.compose.presets import Preset, kinds, presets, read_toml, value_toml, write_toml
from core.run.control import cancel, resume, start, wait
from core.run.export.exporting import export_run, html_of
from core.run.export.importing import import_run
from core.run.needle.items import needle_items
from core.run.queue import enqueue, status
from core.run.report import failed_in_words, report, report_csv, write_tables
from core.run.watching import failed_items, log_tail

__all__ = [
    "Preset",
    "answer",
    "asked_of",
    "cancel",
    "compare_runs",
    "compared",
    "consider",
    "different_only",
    "disagreements",
    "enqueue",
    "estimate",
    "export_run",
    "failed_in_words",
    "failed_items",
    "html_of",
    "import_run",
    "item",
    "kinds",
    "log_tail",
    "needle_items",
    "outcomes",
    "presets",
    "read_toml",
    "report",
    "report_csv",
    "resume",
    "rows",
    "start",
    "status",
    "value_toml",
    "wait",
    "write_tables",
    "write_toml",
]
