"""Kinds of run, one file each; the registry scans this folder."""

from __future__ import annotations

from core.registry import Registry
from core.run.kind import Kind

KINDS: Registry[Kind] = Registry("kind of run", "core.run.kinds")
