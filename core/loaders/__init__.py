"""Readers of on-disk formats, one file each; the registry scans this folder."""

from __future__ import annotations

from core.interfaces import Loader
from core.registry import Registry

LOADERS: Registry[Loader] = Registry("loader", "core.loaders")
