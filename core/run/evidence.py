"""A question during a run: its record, its evidence, and what a selection kept of it.

Recall and position always use the real gold; what a protocol's fault does to it touches the
judge alone (:mod:`core.run.judging`). A question whose evidence was not found in its record has
the band "unlocated": it counts in "overall" and in no position band.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from core.evidence import band_of, gold_sentence_ids, is_middle, lexical_hit
from core.protocol import Protocol
from core.text import sentences
from core.types import Cohort, Gold, Instruction, Record, Selection

UNLOCATED = "unlocated"


@dataclass(frozen=True, slots=True)
class Question:
    """An instruction with its gold. ``gold`` is None where the cohort has none; ``problem`` says
    why it could not be read. ``gold_ids`` are the sentences that hold the evidence."""

    instruction: Instruction
    cohort: Cohort
    gold: Gold | None
    gold_ids: frozenset[str]
    position: float | None
    problem: str = ""

    def record(self) -> Record:
        """The record; raises what the loader raises."""
        return self.cohort.records[self.instruction.record_id]

    def columns(self) -> dict[str, Any]:
        """The columns that every row about this question holds."""
        at = self.position
        return {
            "record": self.instruction.record_id,
            "instruction": self.instruction.id,
            "order_position": self.gold.order if self.gold else None,
            "time_position": self.gold.time if self.gold else None,
            "band": UNLOCATED if at is None else band_of(at),
            "middle": None if at is None else is_middle(at),
            "task_type": self.instruction.task_type or None,
            "domain": self.instruction.domain or None,
            "specialty": self.instruction.specialty or None,
        }

    def holds_evidence(self, ids: Iterable[str]) -> bool | None:
        """Whether one of the sentences holds evidence; None where it is unlocated."""
        return not self.gold_ids.isdisjoint(ids) if self.gold_ids else None

    def hits(self, selection: Selection) -> dict[str, Any]:
        """Lexical hit and evidence-id hit of a selection (PROTOCOL, Stage 1)."""
        ids = {kept.sentence.id for kept in selection.kept}
        answer = self.gold.answer if self.gold else ""
        return {
            "lexical": lexical_hit((k.sentence.text for k in selection.kept), answer)
            if answer
            else None,
            "evidence": self.holds_evidence(ids),
            "evidence_share": len(self.gold_ids & ids) / len(self.gold_ids)
            if self.gold_ids
            else None,
        }


def question_of(
    cohort: Cohort,
    instruction: Instruction,
    protocol: Protocol,
    reason_of: Callable[[BaseException], str],
) -> Question:
    """An instruction with its gold; what cannot be read is told in ``problem``, not raised."""
    try:
        gold = cohort.gold.get(instruction.id)
        ids: frozenset[str] = frozenset()
        if gold is not None and gold.spans:
            record = cohort.records[instruction.record_id]
            ids = gold_sentence_ids(sentences(record, protocol), gold.spans)
    except Exception as error:  # noqa: BLE001 - becomes the reason of its rows
        return Question(instruction, cohort, None, frozenset(), None, reason_of(error))
    position = None if gold is None else (gold.order if protocol.position == "order" else gold.time)
    return Question(instruction, cohort, gold, ids, position)
