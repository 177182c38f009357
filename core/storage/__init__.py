"""Rows of a run on disk: appended line by line, read by any number of processes at once."""

from __future__ import annotations
