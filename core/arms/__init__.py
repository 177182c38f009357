"""Ways to select what a reader sees, one file each; the registry scans this folder."""

from __future__ import annotations

from core.registry import Registry
from core.seams import Arm

ARMS: Registry[Arm] = Registry("arm", "core.arms")
