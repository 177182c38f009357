"""QCCS plus: BM25, MiniLM and learned similarity of words, weighted by training on true evidence
(midchart.core.gate.plus)."""

from __future__ import annotations

from pathlib import Path

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Scores, Trace
from midchart.core.arms.semantic import LexicalArm
from midchart.core.embedding.embedder import Embedder
from midchart.core.gate.checkpoint import gates_of, not_held_out
from midchart.core.gate.plus import STEM, Plus, PlusRecord, explain, load_plus, ready, scores
from midchart.core.options import CheckpointPath
from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.storage.vectors import Progress
from midchart.core.types import Explanation, Instruction, Record

_gates: LRU[Plus] = LRU(4)
_records: LRU[PlusRecord] = LRU(32, lambda record: record.words.sentences)


@ARMS.register("qccs_plus")
class QccsPlus(LexicalArm):
    """The k sentences of highest score.

    ``gate``: the folder of a trained QCCS plus, or of a cross-fitted one, of which each patient is
    scored by the gate that was not trained on them; where the program builds the arm and none is
    named, the included one. Raises MissingModel without one, or without MiniLM.
    """

    name, title = "qccs_plus", "QCCS plus"

    def __init__(
        self,
        protocol: Protocol,
        gate: CheckpointPath = "",
        progress: Progress | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        super().__init__(protocol, progress, embedder)

        def plus(folder: Path, changed: int) -> Plus:
            return _gates.get((str(folder.resolve()), changed), lambda: load_plus(folder))

        self.folder, self.gates = gates_of(self.name, gate, f"{STEM}.json", plus)

    def gate_of(self, record_id: str) -> Plus:
        """The gate that scores a patient's record; raises InputError where a cross-fitted one has
        none that was not trained on the patient."""
        held_out = [one for one in self.gates if record_id not in one.patients]
        if len(self.gates) == 1:
            return self.gates[0]
        if len(held_out) != 1:
            raise not_held_out(self.folder)
        return held_out[0]

    def _record(self, pool: Candidates, gate: Plus) -> PlusRecord:
        key = (gate.digest, pool.key)
        return _records.get(
            key, lambda: ready(gate.weights, [s.scored_text for s in pool.sentences])
        )

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        gate = self.gate_of(instruction.record_id)
        cosine = self.cosines(pool, instruction.question)
        return scores(gate.weights, self._record(pool, gate), instruction.question, cosine)

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        gate = self.gate_of(instruction.record_id)
        trained = instruction.record_id in gate.patients
        status = "in its training part" if trained else "not among its patients"
        facts = (("gate", gate.digest[:12]), ("this patient", status))
        return facts + super().trace(pool, instruction, scores)

    def explain(self, record: Record, instruction: Instruction, sentence_id: str) -> Explanation:
        """Each word's part of a sentence's score; raises UnknownName for a sentence that the arm
        does not rank."""
        pool, place = self.ranked(record, instruction, sentence_id)
        question, text = instruction.question, pool.sentences[place].text
        cosine = self.cosines(pool, question)
        gate = self.gate_of(record.id)
        return explain(gate.weights, self._record(pool, gate), question, cosine, place, text)
