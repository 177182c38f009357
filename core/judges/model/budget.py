"""What a judge of a run has spent, and the hard stop before it would spend more than it may.

Before each call the most it can cost is reserved, after it what it did cost is noted; both are
lines of a file in the run's folder, so a killed worker's calls count (at their most) when the run
is taken up again. A call is only made when what is spent, what is reserved and the most it can
cost stay within the budget together.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Container
from pathlib import Path
from typing import Any

from core.client.calls import CallFailed
from core.storage.jsonl import add_line, read_lines


class BudgetSpent(CallFailed):
    """The next call could cost more than the budget leaves."""


class JudgeBudget:
    """The money of one judge in one run, safe between threads.

    ``file``: its lines (None: it remembers in this process alone). ``budget_usd``: US dollars it
    may spend in this run, resumes included; 0 is no limit, and nothing is reserved then.
    """

    def __init__(self, file: Path | None, budget_usd: float = 0.0) -> None:
        self.file, self.limit = file, budget_usd
        self.spent = 0.0
        self._reserved: dict[str, float] = {}
        self._charged: set[str] = set()
        self._changed = threading.Condition()
        for line in read_lines(file) if file is not None else ():
            if line.get("event") == "reserved":
                self._reserved[line["id"]] = line["usd"]
            elif line.get("event") == "spent":
                self._reserved.pop(line["id"], None)
                self._charged.add(line["id"])
                self.spent += line["usd"]
            elif line.get("event") == "budget" and self.limit:
                self.limit = line["usd"]  # raised when the run was taken up again

    @property
    def reserved(self) -> float:
        """US dollars reserved for calls whose cost is not known yet, or never will be."""
        with self._changed:
            return sum(self._reserved.values())

    def charge_lost(self, kept: Container[str] = ()) -> None:
        """Count what a killed worker had reserved as spent, but for the claims in ``kept``."""
        with self._changed:
            lost = [claim for claim in self._reserved if claim not in kept]
        for claim in lost:
            self.charge(claim)

    @property
    def left(self) -> float:
        """US dollars that nothing has a claim on; infinite without a budget."""
        with self._changed:
            return self._left()

    def _left(self) -> float:
        if not self.limit:
            return float("inf")
        return self.limit - self.spent - sum(self._reserved.values())

    def reserve(self, most: float) -> str:
        """Reserve the most a call can cost; gives the claim's id.

        Waits while calls under way may give something back. Raises BudgetSpent.
        """
        claim = secrets.token_hex(8)
        with self._changed:
            while most > self._left() and self._reserved and most <= self.limit - self.spent:
                self._changed.wait()
            if most > self._left():
                raise BudgetSpent(
                    f"the budget of ${self.limit:.4f} for this judge is used up: "
                    f"${self.spent:.4f} spent, and this call could cost ${most:.4f}; resume the "
                    "run with a larger --budget to go on"
                )
            self._reserved[claim] = most
        if self.limit:
            self._note("reserved", id=claim, usd=most)
        return claim

    def charge(self, claim: str, cost: float | None = None) -> None:
        """Note, once, what a claim's call did cost; None leaves it at its most."""
        with self._changed:
            if claim in self._charged:
                return
            self._charged.add(claim)
            usd = self._reserved.get(claim, 0.0) if cost is None else cost
        self._note("spent", id=claim, usd=usd)
        with self._changed:
            self._reserved.pop(claim, None)
            self.spent += usd
            self._changed.notify_all()

    def _note(self, event: str, **facts: Any) -> None:
        if self.file is not None:
            add_line(self.file, {"event": event, **facts})
