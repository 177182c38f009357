"""Oracle: the sentences with the located evidence, an upper bound of every other arm.

Arms never see gold: whoever builds this one hands it ``pinned``, a function from an instruction
to spans of the record. Rank is by characters of evidence held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Mask, Positions, ScoredArm, Scores, candidates
from midchart.core.arms.bm25 import BM25
from midchart.core.errors import InputError
from midchart.core.protocol import Protocol
from midchart.core.types import Budget, Instruction, Record, Selection, Span


@ARMS.register("oracle")
class Oracle(ScoredArm):
    """Evidence and the recency buffer.

    ``pinned`` gives the spans of an instruction's evidence. ``fill``: what the evidence leaves of k
    goes to BM25's best other sentences. ``evidence`` False: the same context without the evidence,
    as a control of what readers do when it is absent. Raises InputError when ``pinned`` is missing,
    and on selecting when an instruction has no spans or none that may be shown.
    """

    name, title = "oracle", "Oracle (evidence)"

    def __init__(
        self,
        protocol: Protocol,
        pinned: Callable[[Instruction], tuple[Span, ...]] | None = None,
        fill: bool = False,
        evidence: bool = True,
    ) -> None:
        super().__init__(protocol)
        if pinned is None:
            raise InputError(
                "the arm 'oracle' shows located evidence: it takes a cohort whose questions "
                "have gold evidence, not a question alone"
            )
        self.pinned, self.evidence = pinned, evidence
        # A context of k units is what a control of readers is for, whatever they have to do with
        # the question.
        self.filler = BM25(replace(protocol, unmatched="kept")) if fill else None

    @classmethod
    def check(cls, protocol: Protocol, **options: bool) -> None:
        """Any two flags are valid; a spec cannot build the arm, which needs the cohort's gold."""

    def select(self, record: Record, instruction: Instruction, budget: Budget) -> Selection:
        spans = self.pinned(instruction)
        if not spans:
            raise InputError(
                f"instruction {instruction.id!r} has no located evidence; the arm 'oracle' "
                "cannot select for it"
            )
        everything = candidates(record, instruction.cutoff, self.protocol)
        if not np.any(self._held(everything, instruction)):
            raise InputError(
                f"the evidence of instruction {instruction.id!r} is outside the permitted "
                "sentences (after the cutoff, or in dropped events)"
            )
        selection = super().select(record, instruction, budget)
        if self.evidence:
            return selection
        without = tuple(
            k for k in selection.kept if not any(k.sentence.span.overlaps(span) for span in spans)
        )
        tokens = sum(one.sentence.tokens for one in without)
        return replace(selection, kept=without, tokens=tokens)

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return self._held(pool, instruction)

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        if self.filler is not None:
            return super().reasons(pool, instruction)
        return self._held(pool, instruction) > 0

    def rank(self, pool: Candidates, instruction: Instruction, k: int) -> tuple[Positions, Scores]:
        best, scores = super().rank(pool, instruction, k)
        best, scores = best[scores > 0], scores[scores > 0]
        if self.filler is None:
            return best, scores
        others = np.where(
            self._held(pool, instruction) > 0, -np.inf, self.filler.score(pool, instruction)
        )
        filling = self.filler.best(pool, instruction, others, k - len(best))
        return np.concatenate([best, filling]), np.concatenate([scores, np.zeros(len(filling))])

    def _held(self, pool: Candidates, instruction: Instruction) -> Scores:
        """Characters of evidence in each sentence, float64 [n]."""
        spans = self.pinned(instruction)
        held = [
            sum(
                max(0, min(one.span.end, span.end) - max(one.span.start, span.start))
                for span in spans
                if one.span.event == span.event
            )
            for one in pool.sentences
        ]
        return np.array(held, dtype=np.float64)
