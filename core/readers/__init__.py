"""What answers a prompt, one file each; the registry scans this folder."""

from __future__ import annotations

from midchart.core.interfaces import Reader
from midchart.core.registry import Registry

READERS: Registry[Reader] = Registry("reader", "midchart.core.readers")
