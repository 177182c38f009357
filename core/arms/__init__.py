"""Arms: ways to select the sentences that a reader sees, one file each."""

from __future__ import annotations

from midchart.core.interfaces import Arm
from midchart.core.registry import Registry

ARMS: Registry[Arm] = Registry(
    "arm",
    "midchart.core.arms",
    left={"qccs_plus": "use hybrid: no gain over it was shown, and it needs no training"},
)
