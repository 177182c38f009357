"""Workspaces that tests of audits share."""

from tests.core.conftest import cohort, place

__all__ = ["cohort", "place"]
