"""QCCS: the sentences that the trained gate scores highest (paper, QCCS; docs/methods.md, Arms)."""

from __future__ import annotations

from pathlib import Path

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, ScoredArm, Scores, Trace
from midchart.core.gate.checkpoint import CARD, gates_of, load_gate, not_held_out
from midchart.core.gate.examples import hashing_of
from midchart.core.gate.scoring import Parts, Scorer, explain
from midchart.core.options import CheckpointPath
from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.types import Explanation, Instruction, Record

_scorers: LRU[Scorer] = LRU(8)
_parts: LRU[Parts] = LRU(32, lambda parts: len(parts.row_of))


@ARMS.register("qccs")
class Qccs(ScoredArm):
    """The k sentences of highest gate score.

    ``gate``: the folder of a trained gate, or of a cross-fitted one, where each patient is scored
    by the gate that was not trained on them; where the program builds the arm and none is named,
    it trains one on the demo cohort, once. Raises MissingModel without one, DataError for one
    that was trained with another hash or text limit than the protocol's.
    """

    name, title = "qccs", "QCCS gate"
    titled = False  # keeps less evidence with titles, also when trained with them (docs/log.md)

    def __init__(self, protocol: Protocol, gate: CheckpointPath = "") -> None:
        super().__init__(protocol)
        hashing = hashing_of(protocol, scoring=True)

        def scorer(folder: Path, changed: int) -> Scorer:
            def make() -> Scorer:
                gate = load_gate(folder)
                wanted = hashing_of(protocol, gate.config.hashing.n)
                scoring = hashing_of(protocol, wanted.n, scoring=True)
                return Scorer(load_gate(folder, wanted), scoring)

            return _scorers.get((str(folder.resolve()), changed, hashing), make)

        self.folder, self.scorers = gates_of(self.name, gate, CARD, scorer)

    def scorer_of(self, record_id: str) -> Scorer:
        """The gate that scores a patient's record; raises InputError where a cross-fitted one has
        none that was not trained on the patient."""
        if len(self.scorers) == 1:
            return self.scorers[0]
        for one in self.scorers:
            if record_id in one.gate.split.test:
                return one
        raise not_held_out(self.folder)

    def _parts(self, pool: Candidates, scorer: Scorer) -> Parts:
        key = (scorer.gate.digest, scorer.hashing, pool.key)
        return _parts.get(key, lambda: scorer.parts([s.text for s in pool.sentences]))

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        scorer = self.scorer_of(instruction.record_id)
        return scorer.scores(self._parts(pool, scorer), instruction.question)

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        gate = self.scorer_of(instruction.record_id).gate
        part = gate.split.part_of(instruction.record_id)
        status = f"in its {part} part" if part else "not among its patients"
        return (("gate", gate.digest[:12]), ("this patient", status))

    def explain(self, record: Record, instruction: Instruction, sentence_id: str) -> Explanation:
        """Each n-gram's part of a sentence's score; raises UnknownName for a sentence that the
        arm does not rank."""
        pool, place = self.ranked(record, instruction, sentence_id)
        scorer = self.scorer_of(record.id)
        return explain(scorer, instruction.question, pool.sentences[place].text)
