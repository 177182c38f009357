"""Kinds of run, one file each; :data:`core.runs.experiment.KINDS` scans this folder."""

from __future__ import annotations
