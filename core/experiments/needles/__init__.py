"""Needles: made-up facts placed at chosen depths of a record, so that only position changes."""

from __future__ import annotations
