"""What answers a prompt, one file each; the registry scans this folder."""

from __future__ import annotations

from core.registry import Registry
from core.seams import Reader

READERS: Registry[Reader] = Registry("reader", "core.readers")
