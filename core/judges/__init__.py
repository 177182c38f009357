"""Judges: whether an answer is correct. One file each; the registry scans this folder."""

from __future__ import annotations

from midchart.core.interfaces import Judge
from midchart.core.registry import Registry

JUDGES: Registry[Judge] = Registry("judge", "midchart.core.judges")
