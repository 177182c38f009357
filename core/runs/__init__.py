"""Runs: plan a spec, execute it in a worker process, queue it, resume it, state its status."""

from __future__ import annotations
