"""QCCS plus: BM25, MiniLM and learned similarity of words, weighted by training on true evidence
(core.gate.plus)."""

from __future__ import annotations

from core.arms import ARMS
from core.arms.base import Candidates, Scores, Trace
from core.arms.semantic import LexicalArm
from core.embedding.embedder import Embedder
from core.errors import MissingModel
from core.gate.plus import STEM, Plus, PlusRecord, explain, load_plus, ready, scores
from core.parsing import user_path
from core.protocol import Protocol
from core.storage.lru import LRU
from core.storage.vectors import Progress
from core.types import Explanation, Instruction, Record

_gates: LRU[Plus] = LRU(4)
_records: LRU[PlusRecord] = LRU(32)


@ARMS.register("qccs_plus")
class QccsPlus(LexicalArm):
    """The k sentences of highest score.

    ``gate``: the folder of a trained QCCS plus; where the program builds the arm and none is
    named, the included one. Raises MissingModel without one, or without MiniLM.
    """

    name, title = "qccs_plus", "QCCS plus"

    def __init__(
        self,
        protocol: Protocol,
        gate: str = "",
        progress: Progress | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        super().__init__(protocol, progress, embedder)
        if not gate:
            raise MissingModel(
                "the arm 'qccs_plus' needs a trained gate: name its folder with the option 'gate', "
                "or train one with: python -m core train-gate DATA --plus"
            )
        folder = user_path(gate)
        card = folder / f"{STEM}.json"
        state = card.stat().st_mtime_ns if card.exists() else 0
        self.gate = _gates.get((str(folder.resolve()), state), lambda: load_plus(folder))

    def _record(self, pool: Candidates) -> PlusRecord:
        key = (self.gate.digest, pool.key)
        return _records.get(
            key, lambda: ready(self.gate.weights, [s.scored_text for s in pool.sentences])
        )

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        cosine = self.cosines(pool, instruction.question)
        return scores(self.gate.weights, self._record(pool), instruction.question, cosine)

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        trained = instruction.record_id in self.gate.patients
        status = "in its training part" if trained else "not among its patients"
        gate = (("gate", self.gate.digest[:12]), ("this patient", status))
        return gate + super().trace(pool, instruction, scores)

    def explain(self, record: Record, instruction: Instruction, sentence_id: str) -> Explanation:
        """Each word's part of a sentence's score; raises UnknownName for a sentence that the arm
        does not rank."""
        pool, place = self.ranked(record, instruction, sentence_id)
        question, text = instruction.question, pool.sentences[place].text
        cosine = self.cosines(pool, question)
        return explain(self.gate.weights, self._record(pool), question, cosine, place, text)
