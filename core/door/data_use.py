"""What a cohort may be used for, and what left this machine: its data-use tag, the audit file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.door.cohorts import open_data
from core.egress import audit
from core.loaders import data_use
from core.types import Manifest


def set_data_use(data: str | Path, field: str, value: bool, reason: str) -> Manifest:
    """Set ``external_services_allowed`` or ``training_allowed`` of a cohort, by path or name.

    The reason goes to the audit file first. Raises InputErrors, each one line.
    """
    return data_use.set_data_use(open_data(data).path, field, value, reason)


def audit_lines() -> list[dict[str, Any]]:
    """The audit file, oldest first: what left or was let leave, and which tags were changed."""
    return audit.lines()
