"""The chance level of recall: what random sentences of as many tokens would hit.

Random sentences stand for the arm ``random`` without a recency buffer: of the sentences that the
question's cutoff allows, a number drawn without replacement, each equally likely, so large that
their expected tokens are those of the context compared. The probability that one of them is a hit
is exact; nothing is drawn. A context of the whole record has the chance 1 wherever one sentence of
it is a hit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from core.arms.bm25_family import index_of
from core.arms.candidates import Candidates, candidates
from core.protocol import Protocol
from core.text import content_words
from core.text.evidence import chance_of_hit
from core.types import Instruction, Record


@dataclass(frozen=True)
class RandomSentences:
    """Chances of a hit by random sentences for one question.

    ``evidence``: ids of the sentences that hold evidence (empty where it is unlocated);
    ``answer``: the reference answer, "" without one. The record is read on first use; what the
    loader raises is raised then.
    """

    records: Mapping[str, Record]
    instruction: Instruction
    protocol: Protocol
    evidence: Collection[str]
    answer: str

    def lexical(self, tokens: float) -> float | None:
        """Chance that a sentence holds a content word of the answer; None without an answer."""
        return self._chance(self._lexical_hits, tokens) if self.answer else None

    def located(self, tokens: float) -> float | None:
        """Chance that a sentence holds evidence; None where the evidence is unlocated."""
        return self._chance(self._evidence_hits, tokens) if self.evidence else None

    def _chance(self, hits: int, tokens: float) -> float:
        n = len(self._pool.sentences)
        return chance_of_hit(n, hits, n * tokens / self._tokens) if n else 0.0

    @cached_property
    def _pool(self) -> Candidates:
        record = self.records[self.instruction.record_id]
        return candidates(record, self.instruction.cutoff, self.protocol)

    @cached_property
    def _tokens(self) -> int:
        """Tokens of all candidates, at least 1."""
        return max(1, sum(sentence.tokens for sentence in self._pool.sentences))

    @cached_property
    def _evidence_hits(self) -> int:
        return sum(sentence.id in self.evidence for sentence in self._pool.sentences)

    @cached_property
    def _lexical_hits(self) -> int:
        return len(index_of(self._pool).holding(content_words(self.answer)))
