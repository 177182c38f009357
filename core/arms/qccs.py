"""QCCS: the sentences that the trained gate scores highest (paper, QCCS; PROTOCOL, Arms)."""

from __future__ import annotations

from core.arms import ARMS
from core.arms.base import Candidates, ScoredArm, Scores, Trace
from core.errors import MissingModel
from core.gate.checkpoint import CARD, Gate, load_gate
from core.gate.examples import hashing_of
from core.gate.scoring import Parts, Scorer, explain
from core.parsing import user_path
from core.protocol import Protocol
from core.storage.lru import LRU
from core.types import Explanation, Instruction, Record

_scorers: LRU[Scorer] = LRU(8)
_parts: LRU[Parts] = LRU(32)


@ARMS.register("qccs")
class Qccs(ScoredArm):
    """The k sentences of highest gate score.

    ``gate``: the folder of a trained gate; where the program builds the arm and none is named,
    it trains one on the demo cohort, once. Raises MissingModel without one, DataError for one
    that was trained with another hash or text limit than the protocol's.
    """

    name, title = "qccs", "QCCS gate"
    titled = False  # keeps less evidence with titles, also when trained with them (docs/log.md)

    def __init__(self, protocol: Protocol, gate: str = "") -> None:
        super().__init__(protocol)
        if not gate:
            raise MissingModel(
                "the arm 'qccs' needs a trained gate: name its folder with the option 'gate', or "
                "train one with: python -m core train-gate DATA"
            )
        folder = user_path(gate)
        card = folder / CARD
        state = card.stat().st_mtime_ns if card.exists() else 0
        hashing = hashing_of(protocol, scoring=True)

        def make() -> Scorer:
            gate = load_gate(folder)
            wanted = hashing_of(protocol, gate.config.hashing.n)
            return Scorer(load_gate(folder, wanted), hashing_of(protocol, wanted.n, scoring=True))

        self.scorer = _scorers.get((str(folder.resolve()), state, hashing), make)

    @property
    def gate(self) -> Gate:
        """The trained gate."""
        return self.scorer.gate

    def _parts(self, pool: Candidates) -> Parts:
        key = (self.gate.digest, self.scorer.hashing, pool.key)
        return _parts.get(key, lambda: self.scorer.parts([s.text for s in pool.sentences]))

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return self.scorer.scores(self._parts(pool), instruction.question)

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        part = self.gate.split.part_of(instruction.record_id)
        status = f"in its {part} part" if part else "not among its patients"
        return (("gate", self.gate.digest[:12]), ("this patient", status))

    def explain(self, record: Record, instruction: Instruction, sentence_id: str) -> Explanation:
        """Each n-gram's part of a sentence's score; raises UnknownName for a sentence that the
        arm does not rank."""
        pool, place = self.ranked(record, instruction, sentence_id)
        return explain(self.scorer, instruction.question, pool.sentences[place].text)
