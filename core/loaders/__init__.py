"""Readers of on-disk formats, one file each; the registry scans this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midchart.core.registry import Registry

if TYPE_CHECKING:
    from midchart.core.cohorts.base import CohortLoader

LOADERS: Registry[CohortLoader] = Registry("loader", "midchart.core.loaders")
