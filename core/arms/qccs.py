"""QCCS: the sentences that the trained gate scores highest (paper, QCCS; docs/methods.md, Arms)."""

from __future__ import annotations

from pathlib import Path

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, ScoredArm, Scores, Trace
from midchart.core.errors import InputError, MissingModel
from midchart.core.gate.checkpoint import CARD, gate_folders, load_gate
from midchart.core.gate.examples import hashing_of
from midchart.core.gate.scoring import Parts, Scorer, explain
from midchart.core.named_files import place_of
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
        if not gate:
            raise MissingModel(
                "the arm 'qccs' needs a trained gate: name its folder with the option 'gate', or "
                "train one with: midchart train-gate DATA"
            )
        self.folder = place_of(gate)
        self.scorers = [self._scorer(folder) for folder in gate_folders(self.folder)]

    def _scorer(self, folder: Path) -> Scorer:
        """The gate of a folder, loaded once in each state of its card."""
        card = folder / CARD
        changed = card.stat().st_mtime_ns if card.exists() else 0

        def make() -> Scorer:
            n = load_gate(folder).config.hashing.n
            gate = load_gate(folder, hashing_of(self.protocol, n))
            return Scorer(gate, hashing_of(self.protocol, n, scoring=True))

        hashing = hashing_of(self.protocol, scoring=True)
        return _scorers.get((str(folder.resolve()), changed, hashing), make)

    def scorer_of(self, record_id: str) -> Scorer:
        """The gate that scores a patient's record; raises InputError where a cross-fitted one has
        none that was not trained on the patient."""
        if len(self.scorers) == 1:
            return self.scorers[0]
        for one in self.scorers:
            if record_id in one.gate.split.test:
                return one
        raise InputError(
            f"{self.folder}: this cross-fitted gate has no part that was tested on this patient — "
            "use it on the cohort that it was trained on, or train one gate"
        )

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
