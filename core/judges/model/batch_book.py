"""What is known of a judge's batches, kept in the run's folder so that a killed worker loses none.

Lines of a ledger: ``asking`` (the intent), ``asked`` (the batch's id; ``found`` where it was looked
for and may be another run's), ``mistaken`` (it is), ``taken`` (a result whose verdict is written),
``collected`` and ``dropped`` (nothing more to expect).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from core.ledger import add_line, read_lines


class BatchBook:
    """Batches by what is known of them.

    open: batch id → its ``asked`` line, for batches not collected to the end. lost: claim → its
    ``asking`` line, for intents whose batch's id is not known. known: ids of all batches. mistaken:
    (claim, batch) that do not belong together. taken: ``custom_id`` of every result whose verdict
    is written.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.open: dict[str, dict[str, Any]] = {}
        self.lost: dict[str, dict[str, Any]] = {}
        self.known: set[str] = set()
        self.mistaken: set[tuple[str, str]] = set()
        self._intents: dict[str, dict[str, Any]] = {}
        self.taken: set[str] = set()
        for line in read_lines(file) if file is not None else ():
            self._hear(line)

    def _hear(self, line: dict[str, Any]) -> None:
        event = line.get("event")
        if event == "asking":
            self.lost[line["claim"]] = self._intents[line["claim"]] = line
        elif event == "asked":
            self.lost.pop(line["claim"], None)
            self.open[line["batch"]] = line
            self.known.add(line["batch"])
        elif event == "mistaken":
            self.open.pop(line["batch"], None)
            self.known.discard(line["batch"])
            self.mistaken.add((line["claim"], line["batch"]))
            self.lost[line["claim"]] = self._intents[line["claim"]]
        elif event == "dropped":
            self.lost.pop(line["claim"], None)
        elif event == "collected":
            self.open.pop(line["batch"], None)
        elif event == "taken":
            self.taken.add(line["id"])

    def _note(self, event: str, lasting: bool = False, **facts: Any) -> None:
        line: dict[str, Any] = {"event": event, **facts}
        if self.file is not None:
            add_line(self.file, line, lasting)
        self._hear(line)

    def claims(self) -> set[str]:
        """Claims on the purse of all that is under way."""
        return {line["claim"] for line in (*self.open.values(), *self.lost.values())}

    def asking(self, claim: str, n: int) -> None:
        """A batch of ``n`` prompts is about to be asked for."""
        self._note("asking", lasting=True, claim=claim, n=n, at=time.time())

    def asked(self, claim: str, batch: str, n: int, tempered: bool, found: bool = False) -> None:
        """It is under way; ``tempered``: at temperature 0; ``found``: by size and time alone."""
        told = {"claim": claim, "batch": batch, "n": n, "tempered": tempered, "found": found}
        self._note("asked", lasting=True, **told)

    def not_ours(self, claim: str, batch: str) -> None:
        """A batch that was found is not the one of this claim, which is lost again."""
        self._note("mistaken", claim=claim, batch=batch)

    def dropped(self, claim: str) -> None:
        """It was never made."""
        self._note("dropped", claim=claim)

    def take(self, id: str) -> None:
        """The verdict of this result is written."""
        self._note("taken", id=id)

    def collected(self, claim: str, batch: str) -> None:
        """Everything that is wanted of it was taken."""
        self._note("collected", claim=claim, batch=batch)
