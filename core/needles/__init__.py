"""Needles: made-up facts placed at chosen depths of a record, so that only position changes.

Pure: records in, records out. A needle speaks of something its record does not mention; it is a
line of its own, dated like its neighbours (PROTOCOL, Experiment 1: controlled
needle runs).
"""

from __future__ import annotations

from core.needles.facts import Needle, make_needles
from core.needles.haystack import Cut, Haystack, Measured, Refused
from core.needles.placing import Placed, place

__all__ = [
    "Cut",
    "Haystack",
    "Measured",
    "Needle",
    "Placed",
    "Refused",
    "make_needles",
    "place",
]
