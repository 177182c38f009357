"""Runs: plan a spec, do it in a worker process, take it up again, and tell what came out."""

from __future__ import annotations
