"""The paper's tables beside this installation's, and its faults taken away one at a time."""

from __future__ import annotations
