"""Runs of kind forecast: what a spec may say, the work, its rows, tables and verdict."""

from __future__ import annotations
