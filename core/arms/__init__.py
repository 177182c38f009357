"""Ways to select what a reader sees, one file each; the registry scans this folder."""

from __future__ import annotations

from core.interfaces import Arm
from core.registry import Registry

ARMS: Registry[Arm] = Registry("arm", "core.arms")
