"""Readers of on-disk formats, one file each; the registry scans this folder."""

from __future__ import annotations

from core.registry import Registry
from core.seams import Loader

LOADERS: Registry[Loader] = Registry("loader", "core.loaders")
