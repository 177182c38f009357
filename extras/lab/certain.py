"""Certain: the fewest sentences that keep all pieces of the evidence with a chosen probability.

Split conformal prediction: a sentence is kept where its rank, the geometric mean of those by BM25
and by MiniLM embeddings, is within a threshold. A question's score is the rank of the sentence with
evidence that ranks last, so that all pieces are kept where it is. Scores come from questions of
other patients, grouped by patient (Lee, Barber and Willett 2023,
:func:`midchart.core.stats.ranking.hierarchical_quantile`): questions of a patient need not be
independent. The threshold is the largest of their quantile and those of two groupings (Mondrian
categories, Vovk et al. 2005): the position band of the sentence that ranks last, and evidence in
one sentence or in several. For a new patient who is exchangeable with those of the calibration, all
pieces of the evidence of a question, and of a question of each group of 19 patients or more, are
kept with probability at least 1 − alpha.

The promise costs tokens. On 480 questions about case notes (``docs/certain.toml``) all pieces are
kept of 94.8 %, any piece of 99.2 %, in a mean of 358 tokens; as many tokens of random sentences
keep all of 89.1 %.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from midchart.core import config as settings
from midchart.core.arms.base import (
    Candidates,
    Mask,
    Positions,
    ScoredArm,
    Scores,
    Trace,
    candidates,
    index_of,
)
from midchart.core.arms.semantic import DECIMALS, SemanticArm
from midchart.core.cohorts.gold import gold_under
from midchart.core.embedding.embedder import Embedder
from midchart.core.errors import DataError, InputError, MissingModel
from midchart.core.format import percent
from midchart.core.loaders.open import content_digest
from midchart.core.named_files import place_of
from midchart.core.options import CheckpointPath
from midchart.core.parsing import read_document, read_named
from midchart.core.protocol import BEFORE, Protocol
from midchart.core.provenance import digest
from midchart.core.stats.ranking import hierarchical_quantile, patients_needed, ranks
from midchart.core.storage.files import replacing
from midchart.core.storage.lock import exclusive
from midchart.core.storage.lru import LRU
from midchart.core.storage.vectors import Progress
from midchart.core.text import words
from midchart.core.text.evidence import band_of, evidence_parts, is_middle
from midchart.core.types import BANDS, Budget, Cohort, Instruction, Record, Selection
from midchart.core.weights import locate

_ALPHA = 0.1
"""Largest probability of losing a piece of the evidence, unless the option ``alpha`` says
otherwise."""
_PATIENTS = 19
"""Fewest patients of a group that has a separate quantile, which then covers at most 1 / (19 + 1) =
5 points more than 1 − alpha (scores without ties)."""
FIELDS = ("unit", "sentence_tokens", "interval_events", "scored_text", "bm25_idf")
"""Fields of a protocol that a calibration depends on."""


class CalibrationQuestion(TypedDict):
    """A question with located evidence: its patient (the record's digest), the ranks of the
    sentences with evidence, of those that its cutoff allows, that rank first and last, the
    ``position`` in [0, 1] of the one that ranks last, the ``best`` cosine of a sentence with the
    question, and the ``best_without`` the sentences that hold evidence (None without others).
    ``sentences``: how many hold evidence."""

    patient: str
    position: float
    sentences: int
    first_rank: float
    last_rank: float
    best: float
    best_without: float | None


class Calibration(TypedDict):
    """A calibration file: the cohort's name, what it depends on, and its questions."""

    format: int
    cohort: str
    model: str
    protocol: dict[str, Any]
    questions: list[CalibrationQuestion]


FORMAT = 2
_MODEL = TypeAdapter(Calibration)
_calibrations: LRU[Calibration] = LRU(4)


def read_calibration(path: Path) -> Calibration:
    """A calibration file; raises MissingModel where there is none, DataError for a damaged one."""
    remedy = "make it again with: midchart calibrate DATA --out FILE"
    try:
        data = read_named(path)
    except FileNotFoundError:
        raise MissingModel(
            f"there is no calibration for the arm 'certain' at {path}; {remedy}"
        ) from None
    except OSError as error:
        raise DataError(str(path), None, f"cannot be read ({error.strerror})", remedy) from None

    def read() -> Calibration:
        return read_document(data, str(path), _MODEL, remedy)

    return _calibrations.get(blake2b(data).digest(), read)


def token_positions(pool: Candidates) -> NDArray[np.float64]:
    """Share of the candidates' tokens before each of them, float64 [n] in [0, 1)."""
    tokens = np.array([sentence.tokens for sentence in pool.sentences], dtype=np.float64)
    return (np.cumsum(tokens) - tokens) / max(1.0, tokens.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Threshold:
    """What ``questions`` of other patients say at ``alpha``.

    Bands are the six of the position curve where each has :data:`_PATIENTS` patients, else middle
    and edge, else one for all of the record. Evidence in several sentences is a group where it has
    as many.
    """

    questions: Sequence[CalibrationQuestion]
    alpha: float

    @cached_property
    def patients(self) -> int:
        """Number of patients."""
        return len({question["patient"] for question in self.questions})

    @cached_property
    def by_band(self) -> tuple[str, Mapping[str, float]]:
        """Kind of band ("band", "middle or edge", "record") and the quantile of each."""
        kinds = (k for k in _CATEGORIES if all(map(self._many, self._groups(k).values())))
        kind = next(kinds, "record")
        return kind, {
            name: self._quantile(questions, "last_rank", 1)
            for name, questions in self._groups(kind).items()
        }

    @cached_property
    def largest_rank(self) -> float:
        """The largest rank of a sentence that is kept: the largest quantile, of all questions, of
        those of a band, of those with evidence in one sentence and in several."""
        groups = [self.questions, *filter(self._many, self.by_sentences.values())]
        quantiles = [self._quantile(group, "last_rank", 1) for group in groups]
        return max(*quantiles, *self.by_band[1].values())

    @property
    def covers_several(self) -> bool:
        """Whether evidence in several sentences has enough patients for a separate quantile."""
        return self._many(self.by_sentences["several"])

    @cached_property
    def by_sentences(self) -> Mapping[str, Sequence[CalibrationQuestion]]:
        """The questions with evidence in "one" sentence, and in "several"."""
        one = [question for question in self.questions if question["sentences"] == 1]
        several = [question for question in self.questions if question["sentences"] > 1]
        return {"one": one, "several": several}

    def keeps(self, question: CalibrationQuestion) -> tuple[bool, bool]:
        """Whether all pieces of the evidence of a question of another patient are kept, and whether
        any is."""
        largest = self.largest_rank
        return question["last_rank"] <= largest, question["first_rank"] <= largest

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
        category, names = _CATEGORIES[kind]
        groups: dict[str, list[CalibrationQuestion]] = {name: [] for name in names}
        for question in self.questions:
            groups[category(question["position"])].append(question)
        return groups

    def _many(self, group: Sequence[CalibrationQuestion]) -> bool:
        """Whether a group has enough patients for a separate quantile."""
        return len({q["patient"] for q in group}) >= max(_PATIENTS, patients_needed(self.alpha))

    def _quantile(self, questions: Sequence[CalibrationQuestion], name: str, sign: int) -> float:
        patients = [q["patient"] for q in questions]
        return hierarchical_quantile([sign * q[name] for q in questions], patients, self.alpha)


_CATEGORIES: Mapping[str, tuple[Callable[[float], str], Sequence[str]]] = {
    "band": (band_of, [name for name, _, _ in BANDS]),
    "middle or edge": (lambda p: "middle" if is_middle(p) else "edge", ["middle", "edge"]),
    "record": (lambda p: "record", ["record"]),
}


class _RankedByBoth(SemanticArm):
    """Sentences by the geometric mean of their ranks by BM25 and by MiniLM."""

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        """Minus the geometric mean of the ranks; equal scores have equal ranks."""
        lexical = index_of(pool, self.protocol).scores(words(instruction.question))
        semantic = self.cosines(pool, instruction.question)
        mean: Scores = np.sqrt(ranks(lexical) * ranks(semantic))
        return -np.round(mean, DECIMALS)

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        """All: the threshold, which the guarantee is of, decides which sentences are kept."""
        return ScoredArm.reasons(self, pool, instruction)


class Certain(_RankedByBoth):
    """Every sentence whose rank is within the threshold; ``k`` is ignored.

    ``calibration``: a file of ``midchart calibrate``; where the program builds the arm and
    none is named, it uses the questions of the cohort's other patients. ``alpha``: largest
    probability of losing a piece of the evidence. ``withdrawn``: why there is no guarantee. Raises
    MissingModel without a calibration, InputError where it does not fit or has too few patients.
    """

    name, title = "certain", "Certain (conformal, promised by patient)"
    filled = False
    pinned = "calibration"

    def __init__(
        self,
        protocol: Protocol,
        calibration: CheckpointPath = "",
        alpha: float = _ALPHA,
        withdrawn: str = "",
        progress: Progress | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._check_alpha(alpha)
        super().__init__(protocol, progress, embedder)
        if not calibration:
            raise MissingModel(
                "the arm 'certain' needs a calibration: name its file with the option "
                "'calibration', or make one with: midchart calibrate DATA --out FILE"
            )
        self.calibration = read_calibration(place_of(calibration))
        self.alpha, self.withdrawn = alpha, withdrawn
        self._thresholds: LRU[Threshold] = LRU(8)
        made_with = {**BEFORE, **self.calibration["protocol"]}
        written = {f: made_with.get(f) for f in FIELDS}
        fit = {
            "model": (self.calibration["model"], self.embedder.id),
            "protocol": (written, {f: getattr(self.protocol, f) for f in FIELDS}),
        }
        for field, (before, now) in fit.items():
            if before != now:
                raise InputError(
                    f"the calibration of the arm 'certain' was made with another {field}; make it "
                    "again with: midchart calibrate DATA --out FILE"
                )

    @classmethod
    def check(
        cls, protocol: Protocol, calibration: CheckpointPath = "", alpha: float = _ALPHA
    ) -> None:
        """Raise what the constructor raises for these options, before a default calibration."""
        cls._check_alpha(alpha)
        locate(cls.needs)
        if calibration:
            cls(protocol, calibration, alpha)

    @classmethod
    def prepared(
        cls, protocol: Protocol, options: Mapping[str, Any], cohort: Cohort
    ) -> dict[str, Any]:
        """The options with the cohort's own calibration where none is named; a named one's
        guarantee is checked on the cohort."""
        if not options.get("calibration"):
            return {**options, "calibration": str(own_calibration(cohort, protocol))}
        path = place_of(options["calibration"])
        return {**options, "withdrawn": withdrawn(cohort, protocol, path)}

    @classmethod
    def mark(cls, calibration: Path) -> str:
        """A hash of a calibration; raises DataError for a damaged one."""
        return digest(json.dumps(read_calibration(calibration)))

    @staticmethod
    def _check_alpha(alpha: float) -> None:
        if not isinstance(alpha, float) or not 0 < alpha < 1:
            raise InputError(f"the arm 'certain' has alpha {alpha!r}; it is between 0 and 1")

    def threshold(self, pool: Candidates) -> Threshold:
        """The threshold from all patients but the one whose candidates these are."""
        digest = pool.key[0]

        def make() -> Threshold:
            others = [q for q in self.calibration["questions"] if q["patient"] != digest]
            threshold = Threshold(others, self.alpha)
            if threshold.patients < patients_needed(self.alpha):
                raise InputError(
                    f"the calibration of the arm 'certain' has {threshold.patients} other "
                    f"patients with located evidence; alpha {self.alpha:g} needs "
                    f"{patients_needed(self.alpha)}"
                )
            return threshold

        return self._thresholds.get(digest, make)

    def rank(self, pool: Candidates, instruction: Instruction, k: int) -> tuple[Positions, Scores]:
        scores = self.score(pool, instruction)
        best = self.best(pool, instruction, scores, len(scores))
        ranked = best[-scores[best] <= self.threshold(pool).largest_rank]
        return ranked, scores[ranked]

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        if not pool.sentences:
            return super().trace(pool, instruction, scores)
        threshold = self.threshold(pool)
        best = float(self.cosines(pool, instruction.question).max())
        missed = "unknown" if threshold.missed is None else percent(threshold.missed)
        alarm = (
            f"{'yes' if best < threshold.least_best else 'no'}: best cosine {best:.2f}, least "
            f"{threshold.least_best:.2f}; said of at most {percent(self.alpha)} of questions "
            f"whose evidence is there, not said of {missed} of those without it"
        )
        calibrated = (
            f"{len(threshold.questions)} questions of {threshold.patients} other patients of "
            f"{self.calibration['cohort']!r}, a quantile per {threshold.by_band[0]}"
            + (", one of evidence in several sentences" if threshold.covers_several else "")
        )
        return (
            *super().trace(pool, instruction, scores),
            ("calibrated on", calibrated),
            ("record may not hold it", alarm),
        )

    def select(self, record: Record, instruction: Instruction, budget: Budget) -> Selection:
        """The sentences within the threshold and ``budget.tokens``; the trace says what is
        guaranteed."""
        selection = super().select(record, instruction, budget)
        everything = candidates(record, instruction.cutoff, self.protocol)
        share = selection.tokens / max(1, sum(s.tokens for s in everything.sentences))
        promise = (
            "all pieces of the evidence are kept with probability "
            f"{percent(1 - self.alpha)} or more, over patients and not for each record; of this "
            f"one {percent(share)} of the tokens are kept"
        )
        if self.withdrawn:
            promise = f"withdrawn: {self.withdrawn}"
        elif selection.cut:
            promise = f"withdrawn: the token budget left out {selection.cut} sentences"
        return dataclasses.replace(selection, trace=(*selection.trace, ("guarantee", promise)))


_UNLIKE = 0.01
"""Patients differ from those of a calibration where the test's p is below this."""
_TESTED = 200
"""Most patients of a cohort whose best cosine is compared with a calibration's."""
_SPLITS = 500
"""Random halves of the patients for which coverage is computed."""
_VERSION = "certain-2"
"""Changed whenever a calibration would hold other numbers."""


def calibrate(
    cohort: Cohort,
    protocol: Protocol,
    path: Path,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Write a calibration file from a cohort's questions with located evidence.

    It holds numbers and hashes of records, no text. A record that cannot be read is left out.
    Raises InputError where there is no question with located evidence, MissingModel without MiniLM,
    OSError where ``path`` cannot be written.
    """
    arm = _RankedByBoth(protocol)
    questions: list[CalibrationQuestion] = []
    for done, (instruction, evidence, pool) in enumerate(_located(cohort, protocol)):
        rank = -arm.score(pool, instruction)[evidence]
        cosine = arm.cosines(pool, instruction.question)
        others = np.delete(cosine, evidence)
        questions.append(
            {
                "patient": pool.key[0],
                "position": float(token_positions(pool)[evidence[int(rank.argmax())]]),
                "sentences": len(evidence),
                "first_rank": float(rank.min()),
                "last_rank": float(rank.max()),
                "best": float(cosine.max()),
                "best_without": float(others.max()) if len(others) else None,
            }
        )
        if progress is not None:
            progress(done + 1, len(cohort.instructions))
    if not questions:
        raise InputError(
            f"{cohort.path}: no question has located evidence; mark the evidence of questions on "
            "page Patient first"
        )
    calibration: Calibration = {
        "format": FORMAT,
        "cohort": cohort.manifest.name,
        "model": arm.embedder.id,
        "protocol": {field: getattr(protocol, field) for field in FIELDS},
        "questions": questions,
    }
    with replacing(path) as fresh:
        fresh.write_text(json.dumps(calibration, indent=1), "utf-8")
    return calibration


def _located(
    cohort: Cohort, protocol: Protocol
) -> Iterator[tuple[Instruction, list[int], Candidates]]:
    """Each question with located evidence: the places of its evidence sentences among its
    candidates, in reading order."""
    cohort = gold_under(cohort, protocol)
    for instruction in cohort.instructions:
        try:
            gold = cohort.gold.get(instruction.id)
            record = cohort.records[instruction.record_id] if gold and gold.spans else None
        except DataError:
            continue
        if record is None or gold is None:
            continue
        pool = candidates(record, instruction.cutoff, protocol)
        ids = evidence_parts(pool.sentences, gold.spans).keys()
        places = [i for i, sentence in enumerate(pool.sentences) if sentence.id in ids]
        if places:
            yield instruction, places, pool


def split_coverage(
    calibration: Calibration, alpha: float = _ALPHA, splits: int = _SPLITS, seed: int = 42
) -> dict[str, Any]:
    """How often all pieces of the evidence are kept where half of the patients calibrate and half
    are asked.

    One question of each asked patient is drawn, so that the asked questions are independent.
    ``coverage`` is the mean over ``splits`` random halves; ``low`` and ``high`` are the exact
    binomial 95 % interval (Clopper and Pearson) of a share of the whole numbers nearest to the
    mean. ``any_piece`` is how often at least one is kept. Null where half of the patients are too
    few for a threshold.
    """
    by_patient: dict[str, list[CalibrationQuestion]] = {}
    for question in calibration["questions"]:
        by_patient.setdefault(question["patient"], []).append(question)
    patients = list(by_patient)
    facts: dict[str, Any] = {
        "questions": len(calibration["questions"]),
        "patients": len(patients),
        "alpha": alpha,
        "splits": splits,
        "coverage": None,
        "any_piece": None,
    }
    half, asked = len(patients) // 2, len(patients) - len(patients) // 2
    if half < patients_needed(alpha):
        return facts
    from scipy.stats import binomtest

    rng = np.random.default_rng(seed)
    covered = np.zeros(2, dtype=np.int64)
    for _ in range(splits):
        order = rng.permutation(len(patients))
        calibrating = [q for i in order[:half] for q in by_patient[patients[i]]]
        threshold = Threshold(calibrating, alpha)
        for i in order[half:]:
            questions = by_patient[patients[i]]
            covered += threshold.keeps(questions[rng.integers(len(questions))])
    coverage, any_piece = (float(share) for share in covered / (splits * asked))
    interval = binomtest(round(coverage * asked), asked).proportion_ci(0.95, "exact")
    return facts | {
        "coverage": coverage,
        "any_piece": any_piece,
        "low": float(interval.low),
        "high": float(interval.high),
    }


def own_calibration(cohort: Cohort, protocol: Protocol) -> Path:
    """The calibration file of a cohort in the cache, made once for its files and protocol."""
    values = repr([getattr(protocol, field) for field in (*FIELDS, "locate", "locate_threshold")])
    name = digest(_VERSION, values, content_digest(Path(cohort.path)))[:16]
    path = settings.calibrations_folder() / f"{name}.json"
    if not path.exists():
        with exclusive(path.with_suffix(".lock")):
            if not path.exists():
                calibrate(cohort, protocol, path)
    return path


def withdrawn(cohort: Cohort, protocol: Protocol, path: Path) -> str:
    """Why a calibration's guarantee does not hold for a cohort; "" where nothing speaks against it.

    The best cosine of the first question of each patient is compared with the calibration's
    (Kolmogorov and Smirnov's test for two samples), for up to :data:`_TESTED` patients who are not
    among the calibration's.
    """
    calibration = read_calibration(path)
    known: dict[str, float] = {}
    for question in calibration["questions"]:
        known.setdefault(question["patient"], question["best"])
    arm, new = _RankedByBoth(protocol), dict[str, float]()
    for instruction in cohort.instructions:
        if len(new) == _TESTED:
            break
        try:
            record = cohort.records[instruction.record_id]
        except DataError:
            continue
        pool = candidates(record, instruction.cutoff, protocol)
        if record.digest not in known and record.digest not in new and pool.sentences:
            new[record.digest] = float(arm.cosines(pool, instruction.question).max())
    if not new:
        return ""
    from scipy.stats import ks_2samp

    compared: Any = ks_2samp(list(known.values()), list(new.values()))
    p = float(compared.pvalue)
    if p >= _UNLIKE:
        return ""
    return (
        f"the best cosine of {len(new)} patients is unlike that of the {len(known)} of the "
        f"calibration (Kolmogorov-Smirnov p = {p:.1g})"
    )
