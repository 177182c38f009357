"""EHRSHOT's chest X-ray labels: fourteen findings in one number, read as fourteen tasks.

Bit 13 (8192) of a value is the first finding and bit 0 the last, in the order of the release's own
``CHEXPERT_LABELS`` and ``process_chexpert_labels`` (som-shahlab/ehrshot-benchmark,
``ehrshot/utils.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from core.sequences import LabelRows
from core.types import Skip

TASK = "chexpert"
FINDINGS = (
    "no_finding", "enlarged_cardiomediastinum", "cardiomegaly", "lung_lesion", "lung_opacity",
    "edema", "consolidation", "pneumonia", "atelectasis", "pneumothorax", "pleural_effusion",
    "pleural_other", "fracture", "support_devices",
)  # fmt: skip
Read = Callable[[list[Skip], list[str]], LabelRows]


class _Masks:
    """The labels as the file has them, read once for all findings."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._rows: LabelRows | None = None

    def rows(self, skipped: list[Skip], warnings: list[str]) -> LabelRows:
        """Labels whose value is a mask of fourteen bits; others are skipped and counted."""
        if self._rows is None:
            rows = self._read(skipped, warnings)
            good = (rows.value >= 0) & (rows.value < 1 << len(FINDINGS))
            if not good.all():
                reason = (
                    f"{int((~good).sum()):,} labels are no mask of {len(FINDINGS)} findings, "
                    f"0 to {(1 << len(FINDINGS)) - 1} — left out"
                )
                skipped.append(Skip(f"labels of {TASK}", None, reason))
            self._rows = LabelRows(rows.patient[good], rows.time[good], rows.value[good])
        return self._rows


def _finding(masks: _Masks, at: int, skipped: list[Skip], warnings: list[str]) -> LabelRows:
    rows = masks.rows(skipped, warnings)
    bit = (rows.value >> (len(FINDINGS) - 1 - at)) & 1
    return LabelRows(rows.patient, rows.time, bit.astype(np.int32))


def with_findings(tasks: Mapping[str, Read]) -> dict[str, Read]:
    """``tasks`` (name → reads its labels) with one task a finding in place of ``chexpert``."""
    found = dict(tasks)
    read = found.pop(TASK, None)
    if read is not None:
        masks = _Masks(read)
        found |= {f"{TASK}_{name}": partial(_finding, masks, i) for i, name in enumerate(FINDINGS)}
    return found
