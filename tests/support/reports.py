"""Status and report of a run as the engine gives them, around tables made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from midchart.core import api


def show_run(
    patch: pytest.MonkeyPatch,
    status: dict[str, Any],
    report: Callable[[str], dict[str, Any]],
) -> None:
    """The pages show one run: of this status, this report and a methods paragraph."""
    patch.setattr(api, "status", lambda run=None: [status] if run is None else status)
    patch.setattr(api, "any_active", lambda: status["status"] in ("queued", "running"))
    patch.setattr(api, "report", report)
    patch.setattr(api, "methods", lambda run: f"Methods of {run}.")


def run_status(
    kind: str, run: str, planned: int, done: int, name: str = "", **more: Any
) -> dict[str, Any]:
    """The status of a run that is done unless ``status`` says otherwise."""
    return {
        "run": run, "name": name or kind, "kind": kind, "status": "done", "planned": planned,
        "group": "",
        "done": done, "failed": 0, "folder": "", "data": "", "created": "", "reason": "",
        "imported": False, "seconds_left": None, "queue_number": None, "slot": "",
        "note": "", "cohort_here": "", "warnings": [], "unreachable": True,
    } | more  # fmt: skip


def run_report(
    status: dict[str, Any], tables: dict[str, Any], warnings: list[str]
) -> dict[str, Any]:
    """The report of a run with these tables."""
    counts = {"planned": status["planned"], "done": status["done"], "failed": 0}
    return {name: status[name] for name in ("run", "name", "kind", "status")} | {
        "protocol": {"preset": "corrected"}, "position": None, "items": counts,
        "warnings": warnings, "tables": tables, "origin": "synthetic records", "primary_judge": "",
        "judge_agreement": {"words": "", "short": ""},
    }  # fmt: skip
