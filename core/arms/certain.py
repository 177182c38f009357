"""Certain: the fewest sentences that keep the evidence with a chosen probability.

Split conformal prediction with one threshold per position band (Mondrian categories, Vovk et al.
2005): a sentence is kept where its rank is at most the threshold of its band; its rank is the
geometric mean of those by BM25 and by MiniLM embeddings. Thresholds come from questions with
located evidence of other patients (:mod:`core.arms.calibration`). For a new patient who is
exchangeable with those, the evidence of a question is kept with probability at least 1 − alpha,
wherever in the record it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from core.arms import ARMS
from core.arms.base import Scores, Trace, top_k
from core.arms.bm25_family import index_of
from core.arms.candidates import Candidates, Positions
from core.arms.semantic import DECIMALS, SemanticArm
from core.embedding.embedder import Embedder
from core.errors import InputError, MissingModel
from core.format import percent
from core.parsing import read_document, user_path
from core.protocol import Protocol
from core.stats.ranking import hierarchical_quantile, patients_needed, ranks
from core.storage.lru import LRU
from core.storage.vectors import Progress
from core.text import words
from core.text.evidence import band_of, is_middle
from core.types import BANDS, Budget, Instruction, Record, Selection
from core.weights import locate

ALPHA = 0.1
"""Largest probability of losing the evidence, unless the option ``alpha`` says otherwise."""
PATIENTS = 19
"""Fewest patients of a band that has a separate threshold: then the probability of keeping the
evidence is at most 1 / (19 + 1) = 5 points above 1 − alpha (scores without ties)."""
FIELDS = ("unit", "sentence_tokens", "interval_events")
"""Fields of a protocol that a calibration depends on."""


class CalibrationQuestion(TypedDict):
    """A question with located evidence: its patient (the record's digest), the ``position`` of the
    evidence in [0, 1], the ``rank`` of the evidence, the ``best`` cosine of a sentence with the
    question, and the ``best_without`` the sentences that hold evidence (None without others)."""

    patient: str
    position: float
    rank: float
    best: float
    best_without: float | None


class Calibration(TypedDict):
    """A calibration file: the cohort's name, what it depends on, and its questions."""

    format: int
    cohort: str
    model: str
    protocol: dict[str, Any]
    questions: list[CalibrationQuestion]


FORMAT = 1
_MODEL = TypeAdapter(Calibration)
_calibrations: LRU[Calibration] = LRU(4)


def read_calibration(path: Path) -> Calibration:
    """A calibration file; raises MissingModel where there is none, DataError for a damaged one."""
    remedy = "make it again with: python -m core calibrate DATA --out FILE"
    try:
        state = path.stat().st_mtime_ns
    except OSError:
        raise MissingModel(
            f"there is no calibration for the arm 'certain' at {path}; {remedy}"
        ) from None

    def read() -> Calibration:
        return read_document(path.read_bytes(), str(path), _MODEL, remedy)

    return _calibrations.get((str(path.resolve()), str(state)), read)


def token_positions(pool: Candidates) -> NDArray[np.float64]:
    """Share of the candidates' tokens before each of them, float64 [n] in [0, 1)."""
    tokens = np.array([sentence.tokens for sentence in pool.sentences], dtype=np.float64)
    return (np.cumsum(tokens) - tokens) / max(1.0, tokens.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Thresholds:
    """What ``questions`` of other patients say at ``alpha``.

    Bands are the six of the position curve where each has :data:`PATIENTS` patients, else middle
    and edge, else one for all of the record.
    """

    questions: Sequence[CalibrationQuestion]
    alpha: float

    @cached_property
    def patients(self) -> int:
        """Number of patients."""
        return len({question["patient"] for question in self.questions})

    @cached_property
    def by_band(self) -> tuple[str, Mapping[str, float]]:
        """Kind of band ("band", "middle or edge", "record") and largest rank kept in each."""
        kind = next((kind for kind in CATEGORIES if self._enough(kind)), "record")
        return kind, {
            name: self._quantile(questions, "rank", 1)
            for name, questions in self._groups(kind).items()
        }

    def keeps(self, question: CalibrationQuestion) -> bool:
        """Whether the evidence of a question of another patient is kept."""
        kind, largest = self.by_band
        return question["rank"] <= largest[CATEGORIES[kind][0](question["position"])]

    @cached_property
    def least_best(self) -> float:
        """The best cosine of a record falls below this with probability at most alpha where the
        evidence is there."""
        return -self._quantile(self.questions, "best", -1)

    @cached_property
    def missed(self) -> float | None:
        """Share of records without their evidence sentences whose best cosine does not fall
        below :attr:`least_best`; None where no record has other sentences."""
        without = [q["best_without"] for q in self.questions if q["best_without"] is not None]
        return float(np.mean(np.array(without) >= self.least_best)) if without else None

    def _groups(self, kind: str) -> Mapping[str, list[CalibrationQuestion]]:
        category, names = CATEGORIES[kind]
        groups: dict[str, list[CalibrationQuestion]] = {name: [] for name in names}
        for question in self.questions:
            groups[category(question["position"])].append(question)
        return groups

    def _enough(self, kind: str) -> bool:
        patients = [len({q["patient"] for q in group}) for group in self._groups(kind).values()]
        return min(patients) >= max(PATIENTS, patients_needed(self.alpha))

    def _quantile(self, questions: Sequence[CalibrationQuestion], name: str, sign: int) -> float:
        patients = [q["patient"] for q in questions]
        return hierarchical_quantile([sign * q[name] for q in questions], patients, self.alpha)


CATEGORIES: Mapping[str, tuple[Callable[[float], str], Sequence[str]]] = {
    "band": (band_of, [name for name, _, _ in BANDS]),
    "middle or edge": (lambda p: "middle" if is_middle(p) else "edge", ["middle", "edge"]),
    "record": (lambda p: "record", ["record"]),
}


class RankedByBoth(SemanticArm):
    """Sentences by the geometric mean of their ranks by BM25 and by MiniLM."""

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        """Minus the geometric mean of the ranks; equal scores have equal ranks."""
        lexical = index_of(pool).scores(words(instruction.question))
        semantic = self.cosines(pool, instruction.question)
        mean: Scores = np.sqrt(ranks(lexical) * ranks(semantic))
        return -np.round(mean, DECIMALS)


@ARMS.register("certain")
class Certain(RankedByBoth):
    """Every sentence whose rank is within the threshold of its band; ``k`` is ignored.

    ``calibration``: a file of ``python -m core calibrate``; where the program builds the arm and
    none is named, it uses the questions of the cohort's other patients. ``alpha``: largest
    probability of losing the evidence. ``withdrawn``: why there is no guarantee. Raises
    MissingModel without a calibration, InputError where it does not fit or has too few patients.
    """

    name, title = "certain", "Certain (conformal)"

    def __init__(
        self,
        protocol: Protocol,
        calibration: str = "",
        alpha: float = ALPHA,
        withdrawn: str = "",
        progress: Progress | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._check_alpha(alpha)
        super().__init__(protocol, progress, embedder)
        if not calibration:
            raise MissingModel(
                "the arm 'certain' needs a calibration: name its file with the option "
                "'calibration', or make one with: python -m core calibrate DATA --out FILE"
            )
        self.calibration = read_calibration(user_path(calibration))
        self.alpha, self.withdrawn = alpha, withdrawn
        self._thresholds: LRU[Thresholds] = LRU(8)
        fit = {"model": self.embedder.id, "protocol": {f: getattr(protocol, f) for f in FIELDS}}
        for field, value in fit.items():
            if self.calibration[field] != value:
                raise InputError(
                    f"the calibration of the arm 'certain' was made with another {field}; make it "
                    "again with: python -m core calibrate DATA --out FILE"
                )

    @classmethod
    def check(cls, protocol: Protocol, calibration: str = "", alpha: float = ALPHA) -> None:
        """Raise what the constructor raises for these options, before a default calibration."""
        cls._check_alpha(alpha)
        locate(cls.needs)
        if calibration:
            cls(protocol, calibration, alpha)

    @staticmethod
    def _check_alpha(alpha: float) -> None:
        if not isinstance(alpha, float) or not 0 < alpha < 1:
            raise InputError(f"the arm 'certain' has alpha {alpha!r}; it is between 0 and 1")

    def thresholds(self, pool: Candidates) -> Thresholds:
        """The thresholds from all patients but the one whose candidates these are."""
        digest = pool.key[0]

        def make() -> Thresholds:
            others = [q for q in self.calibration["questions"] if q["patient"] != digest]
            thresholds = Thresholds(others, self.alpha)
            if thresholds.patients < patients_needed(self.alpha):
                raise InputError(
                    f"the calibration of the arm 'certain' has {thresholds.patients} other "
                    f"patients with located evidence; alpha {self.alpha:g} needs "
                    f"{patients_needed(self.alpha)}"
                )
            return thresholds

        return self._thresholds.get(digest, make)

    def rank(self, pool: Candidates, instruction: Instruction, k: int) -> tuple[Positions, Scores]:
        scores = self.score(pool, instruction)
        kind, largest = self.thresholds(pool).by_band
        category, _ = CATEGORIES[kind]
        allowed = np.array([largest[category(place)] for place in token_positions(pool)])
        best = top_k(scores, len(scores))
        ranked = best[-scores[best] <= allowed[best]]
        return ranked, scores[ranked]

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        if not pool.sentences:
            return super().trace(pool, instruction, scores)
        thresholds = self.thresholds(pool)
        best = float(self.cosines(pool, instruction.question).max())
        missed = "unknown" if thresholds.missed is None else percent(thresholds.missed)
        alarm = (
            f"{'yes' if best < thresholds.least_best else 'no'}: best cosine {best:.2f}, least "
            f"{thresholds.least_best:.2f}; said of at most {percent(self.alpha)} of questions "
            f"whose evidence is there, not said of {missed} of those without it"
        )
        calibrated = (
            f"{len(thresholds.questions)} questions of {thresholds.patients} other patients of "
            f"{self.calibration['cohort']!r}, a threshold per {thresholds.by_band[0]}"
        )
        return (
            *super().trace(pool, instruction, scores),
            ("calibrated on", calibrated),
            ("record may not hold it", alarm),
        )

    def select(self, record: Record, instruction: Instruction, budget: Budget) -> Selection:
        """The sentences that reach their thresholds, within ``budget.tokens``; the trace says what
        is guaranteed."""
        selection = super().select(record, instruction, budget)
        promise = f"the evidence is kept with probability {percent(1 - self.alpha)} or more"
        if self.withdrawn:
            promise = f"withdrawn: {self.withdrawn}"
        elif selection.cut:
            promise = f"withdrawn: the token budget left out {selection.cut} sentences"
        return dataclasses.replace(selection, trace=(*selection.trace, ("guarantee", promise)))
