"""An arm as a run holds it: its budget, its options, and the label its rows carry.

Readers and judges have theirs in :mod:`core.run.members`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.types import Budget

UNLIMITED = 10**9
"""A k that takes all there are."""
BUFFER_ALONE = "recency"
"""The arm that has no picks of its own: all it keeps is the recency buffer."""
READER = "reader"
"""The constructor argument of an arm that works with a reader (a name or a table in a spec)."""


@dataclass(frozen=True, slots=True)
class ArmEntry:
    """One entry of a spec's arms: the arm, its budget, its options, and its label.

    ``label`` tells entries of one run apart: the arm's name, and what differs from the protocol.
    """

    name: str
    k: int
    recency: int
    tokens: int | None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    label: str = ""

    @property
    def budget(self) -> Budget:
        """What the arm may keep."""
        return Budget(self.k, self.recency, self.tokens)

    @property
    def shown_k(self) -> int | None:
        """``k`` as tables show it: None where it takes all there are."""
        return None if self.k >= UNLIMITED else self.k

    @property
    def shown_budget(self) -> str:
        """The budget in words: "k=20", "600 tokens", "k=20, 600 tokens" or "all"."""
        words = [] if self.shown_k is None else [f"k={self.k}"]
        words += [f"{self.tokens} tokens"] if self.tokens is not None else []
        return ", ".join(words) or "all"
