"""Finished runs: report, tables, comparison of arms and runs, reviews, export and import."""

from __future__ import annotations
