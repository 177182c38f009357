"""What answers a prompt, one file each; the registry scans this folder."""

from __future__ import annotations

from core.interfaces import Reader
from core.registry import Registry

READERS: Registry[Reader] = Registry("reader", "core.readers")
