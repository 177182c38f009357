"""Readers of on-disk formats, one file each; the registry scans this folder."""

from __future__ import annotations

from midchart.core.interfaces import Loader
from midchart.core.registry import Registry

LOADERS: Registry[Loader] = Registry("loader", "midchart.core.loaders")
