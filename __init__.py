"""Midchart: what a language model misses in the middle of a patient's chart."""

from midchart.core import __version__

__all__ = ["__version__"]
