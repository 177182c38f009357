"""A cohort's responses as columns, placed by where the record says the answer.

Built once for a cohort; every choice of score, position, stratum and snippets is then a few sums
over arrays. Responses that were not used in the evaluation are left out. What has no position is
counted, and told beside the curve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError, InputError, UnknownName
from core.experiments.curve.study import Placed, assemble, hashed
from core.judges.exact import Exact, reference_polarity
from core.judges.offline import reference_of
from core.judges.values import quantities, take_dates
from core.loaders.gold import gold_under
from core.protocol import Protocol
from core.text import words
from core.text.locating import Place, place_of
from core.types import Answer, Cohort, Gold, Instruction, Response

# The three scores of a cohort's responses: the clinicians' verdict, exact values, token overlap.


SCORES = ("clinician", "exact", "jaccard")
NAN = float("nan")


def scored(
    name: str,
    cohort: Cohort,
    asked: Sequence[tuple[Instruction, Response]],
    protocol: Protocol,
) -> NDArray[np.float64]:
    """The score ``name`` of each response to its instruction, float64, nan where it has none.

    ``clinician``: 1 or 0, nan where the clinicians' verdict is neither. ``exact``: the exact
    judge's verdict where the reference is a structured value (:func:`structured`), nan where it
    is not, or where the answer to a yes/no question says neither. ``jaccard``: shared over all
    distinct words of answer and reference, nan without a reference.
    """
    if name == "clinician":
        verdicts = (response.correct for _, response in asked)
        return np.array([NAN if v is None else float(v) for v in verdicts], dtype=np.float64)
    out = np.full(len(asked), NAN)
    exact = Exact(protocol)
    cut = protocol.response_characters or None
    references: dict[str, tuple[Gold, str] | None] = {}
    for i, (instruction, response) in enumerate(asked):
        if instruction.id not in references:
            references[instruction.id] = _reference(cohort, instruction.id, name)
        found = references[instruction.id]
        if found is None:
            continue
        gold, reference = found
        if name == "exact":
            verdict = exact.judge(instruction, gold, Answer(response.text))
            if verdict.outcome in ("correct", "incorrect"):
                out[i] = float(verdict.outcome == "correct")
        else:
            out[i] = jaccard(reference, response.text[:cut])
    return out


def _reference(cohort: Cohort, id: str, name: str) -> tuple[Gold, str] | None:
    """The reference that a score compares with; None where it has nothing to compare."""
    gold = cohort.gold.get(id)
    if gold is None:
        return None
    reference = reference_of(gold)
    if not words(reference) or (name == "exact" and not structured(reference)):
        return None
    return gold, reference


def structured(reference: str) -> bool:
    """Whether a reference is a structured value: it holds a date or a number, or opens with yes
    or no. Any other is free text, which an exact comparison would fail for its wording."""
    days, rest = take_dates(reference)
    return bool(days or quantities(rest) or reference_polarity(reference))


def jaccard(reference: str, answer: str) -> float:
    """Distinct lower-cased words in both over those in either; 0 for an answer without words."""
    one, other = set(words(reference)), set(words(answer))
    return len(one & other) / len(one | other) if one else NAN


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POSITIONS = ("order", "time", "token")
SNIPPETS = ("best", "all")
STRATA = ("all", "model", "specialty", "domain", "task_type")
NOT_STATED = "not stated"
"""The value of an instruction whose source does not give it."""


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """Where the located pieces of each instruction's evidence lie, by one kind of position.

    ``best`` float64 [q], nan where unlocated; ``at`` float64, the pieces of all instructions one
    after another, ``count`` int64 [q] how many are each one's; ``missing`` int64 [q], pieces
    without a place (all of an unlocated instruction's count as one).
    """

    best: Floats
    at: Floats
    count: Ints
    missing: Ints


@dataclass(frozen=True, slots=True)
class Choice:
    """What a curve is about; raises UnknownName for a name there is not, InputError for a score.

    ``least_score``: questions whose evidence was located by its text with a lower score are left
    out; 0 leaves none out. Evidence whose source gives its spans has no score and stays.
    """

    score: str = "clinician"
    position: str = "order"
    stratum: str = "all"
    value: str = ""
    snippets: str = "best"
    least_score: float = 0.0

    def __post_init__(self) -> None:
        for what, name, valid in (
            ("score", self.score, SCORES),
            ("position", self.position, POSITIONS),
            ("stratum", self.stratum, STRATA),
            ("choice of snippets", self.snippets, SNIPPETS),
        ):
            if name not in valid:
                raise UnknownName(what, str(name), valid)
        if not 0.0 <= self.least_score <= 1.0:
            raise InputError(f"the least score of a location is {self.least_score}; it lies in 0–1")


@dataclass(frozen=True, eq=False)
class Observed:
    """The used responses of a cohort as columns.

    Of each response, sorted by instruction: ``instruction`` int64 [n], its place among
    ``asked``; ``model`` int64 [n], its place among ``models``; ``response`` int64 [n], its place
    in the cohort. Of each instruction: ``cluster`` int64 [q], ascending, the (patient, question);
    ``groups``, for each stratum but model its values and int64 [q]; ``pieces`` by kind of
    position; ``location`` float64 [q], the score of the best-located piece, nan where its source
    gives spans or nothing was located. ``unused`` responses were not part of the evaluation.
    """

    cohort: Cohort
    asked: tuple[Instruction, ...]
    instruction: Ints
    model: Ints
    response: Ints
    models: tuple[str, ...]
    cluster: Ints
    groups: Mapping[str, tuple[tuple[str, ...], Ints]]
    pieces: Mapping[str, Pieces]
    location: Floats
    simulated: NDArray[np.bool_]
    unused: int = 0
    protocol: Protocol = field(default_factory=Protocol)
    _scores: dict[str, Floats] = field(default_factory=dict[str, Floats])

    def score(self, name: str) -> Floats:
        """A score of every response, float64 [n], nan where it has none; worked out once."""
        if name not in self._scores:
            asked = [
                (self.asked[q], self.cohort.responses[r])
                for q, r in zip(self.instruction.tolist(), self.response.tolist(), strict=True)
            ]
            self._scores[name] = scored(name, self.cohort, asked, self.protocol)
        return self._scores[name]

    def values(self, stratum: str) -> tuple[str, ...]:
        """The values a stratum has among the used responses, in the alphabet's order."""
        if stratum == "all":
            return ("",)
        if stratum == "model":
            return self.models
        return self.groups[stratum][0]

    def within(self, choice: Choice) -> NDArray[np.bool_] | None:
        """Which responses belong to a choice's stratum, bool [n]; None is all of them."""
        if choice.stratum == "all":
            return None
        valid = self.values(choice.stratum)
        if choice.value not in valid:
            raise UnknownName(choice.stratum.replace("_", " "), choice.value, valid)
        code = valid.index(choice.value)
        if choice.stratum == "model":
            return self.model == code
        return (self.groups[choice.stratum][1] == code)[self.instruction]


@dataclass(frozen=True, eq=False, slots=True)
class Taken:
    """The answers of one curve: ``placed`` (None where there are none), those with a score whose
    evidence has no position (``unlocated``), those without the score, those left out for a weak
    location, and whether any is simulated."""

    placed: Placed | None
    unlocated: int
    unscored: int
    weak: int
    simulated: bool


def take(observed: Observed, choice: Choice) -> Taken:
    """The answers a choice is about, summed up by place.

    With ``snippets`` "best" an answer stands at the best-matching piece of its evidence; with
    "all" it stands once at every located piece, in the same cluster, and each piece without a
    place counts as one more unlocated answer.
    """
    score = observed.score(choice.score)
    count = len(observed.asked)
    keep, unscored, weak = _kept(observed, choice)
    whole = bool(keep.all())
    where = observed.instruction if whole else observed.instruction[keep]
    right = np.bincount(where, weights=score if whole else score[keep], minlength=count)
    n = np.bincount(where, minlength=count)
    bags = np.zeros(count, dtype=np.uint64)
    by_model = hashed(np.arange(len(observed.models)))
    np.add.at(bags, where, by_model[observed.model if whole else observed.model[keep]])
    simulated = bool(observed.simulated.any() if whole else observed.simulated[keep].any())
    pieces = observed.pieces[choice.position]
    if choice.snippets == "best":
        unlocated = int(n[np.isnan(pieces.best)].sum())
        entries = np.flatnonzero((n > 0) & ~np.isnan(pieces.best))
        at = pieces.best[entries]
    else:
        unlocated = int((n * pieces.missing).sum())
        entries = np.repeat(np.arange(count), np.where(n > 0, pieces.count, 0))
        at = pieces.at[np.repeat(n > 0, pieces.count)]
    placed = None
    if entries.size:
        cluster = observed.cluster[entries]
        placed = assemble(cluster, right[entries], n[entries], at, bags[entries])
    return Taken(placed, unlocated, unscored, weak, simulated)


def points(observed: Observed, choice: Choice) -> tuple[Ints, Floats]:
    """The answers :func:`take` sums up, one by one: row int64 [m] and position float64 [m]."""
    keep, _, _ = _kept(observed, choice)
    pieces = observed.pieces[choice.position]
    if choice.snippets == "best":
        at = pieces.best[observed.instruction]
        rows = np.flatnonzero(keep & ~np.isnan(at))
        return rows, at[rows]
    rows = np.flatnonzero(keep)
    many = pieces.count[observed.instruction[rows]]
    first = np.cumsum(pieces.count) - pieces.count
    offset = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    places = np.repeat(first[observed.instruction[rows]], many) + offset
    return np.repeat(rows, many), pieces.at[places]


def _kept(observed: Observed, choice: Choice) -> tuple[NDArray[np.bool_], int, int]:
    """Which responses a choice takes, bool [n]; how many of its stratum lack its score, and how
    many that have it are left out for a weak location."""
    keep, inside = ~np.isnan(observed.score(choice.score)), observed.within(choice)
    lacking = ~keep
    if inside is not None:
        keep, lacking = keep & inside, inside & lacking
    weak = (observed.location < choice.least_score)[observed.instruction]
    return keep & ~weak, int(lacking.sum()), int((keep & weak).sum())


def observe(
    cohort: Cohort,
    instructions: Sequence[Instruction],
    protocol: Protocol,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> Observed:
    """The used responses to ``instructions``; ``tell`` hears of each record whose evidence was
    located. Raises InputError where the cohort has none."""
    by_id = {instruction.id: instruction for instruction in instructions}
    used = [(i, r) for i, r in enumerate(cohort.responses) if r.used and r.instruction_id in by_id]
    if not used:
        raise InputError(no_responses(cohort))
    answered = {r.instruction_id for _, r in used}
    asked = sorted((by_id[id] for id in answered), key=lambda i: (i.record_id, i.question, i.id))
    number = {instruction.id: q for q, instruction in enumerate(asked)}
    used.sort(key=lambda pair: number[pair[1].instruction_id])
    models = tuple(sorted({r.model for _, r in used}))
    codes = {model: m for m, model in enumerate(models)}
    pairs = [(i.record_id, i.question) for i in asked]
    clusters = {pair: c for c, pair in enumerate(dict.fromkeys(pairs))}
    located = gold_under(cohort, protocol)
    return Observed(
        cohort,
        tuple(asked),
        np.array([number[r.instruction_id] for _, r in used], dtype=np.int64),
        np.array([codes[r.model] for _, r in used], dtype=np.int64),
        np.array([i for i, _ in used], dtype=np.int64),
        models,
        np.array([clusters[pair] for pair in pairs], dtype=np.int64),
        {name: _coded([getattr(i, name) or NOT_STATED for i in asked]) for name in STRATA[2:]},
        _pieces(located, asked, tell),
        _scores_of(located, asked),
        np.array([r.simulated for _, r in used], dtype=np.bool_),
        sum(not r.used and r.instruction_id in by_id for r in cohort.responses),
        protocol,
    )


def _scores_of(cohort: Cohort, asked: Sequence[Instruction]) -> Floats:
    """The score of each question's best-located piece; nan where it has none."""
    golds = [cohort.gold.get(instruction.id) for instruction in asked]
    return np.array([gold.score if gold else None for gold in golds], dtype=np.float64)


def no_responses(cohort: Cohort) -> str:
    """What to say of a cohort without responses to draw a curve of."""
    return (
        f"{cohort.path} holds no model responses used in an evaluation; the curve needs those of "
        "clinician-reviewed-model-responses.tsv to the questions asked"
    )


def _coded(values: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    names = sorted(set(values))
    code = {name: c for c, name in enumerate(names)}
    return tuple(names), np.array([code[value] for value in values], dtype=np.int64)


def _pieces(
    cohort: Cohort, asked: Sequence[Instruction], tell: Callable[[int, int], None]
) -> dict[str, Pieces]:
    """Located pieces of the evidence of instructions, sorted by record, in every position."""
    best: dict[str, list[float]] = {kind: [] for kind in POSITIONS}
    at: dict[str, list[list[float]]] = {kind: [] for kind in POSITIONS}
    missing: dict[str, list[int]] = {kind: [] for kind in POSITIONS}
    record_id = ""
    for q, instruction in enumerate(asked):
        if record_id != instruction.record_id:
            record_id = instruction.record_id
            tell(q, len(asked))
        gold = cohort.gold.get(instruction.id)
        places = [] if gold is None else _places(cohort, record_id, gold)
        for kind in POSITIONS:
            main = None if gold is None else getattr(gold, kind)
            best[kind].append(np.nan if main is None else main)
            values = [getattr(place, kind) for place in places]
            found = [float(value) for value in values if value is not None]
            at[kind].append(found)
            apart = 0 if gold is None else max(len(set(gold.snippets)), len(gold.spans))
            missing[kind].append(max(0, apart - len(found)) if found else 1)
    return {
        kind: Pieces(
            np.array(best[kind], dtype=np.float64),
            np.array([x for found in at[kind] for x in found], dtype=np.float64),
            np.array([len(found) for found in at[kind]], dtype=np.int64),
            np.array(missing[kind], dtype=np.int64),
        )
        for kind in POSITIONS
    }


def _places(cohort: Cohort, record_id: str, gold: Gold) -> Sequence[Place | Gold]:
    """Positions of the located pieces of evidence, in record order; those of the best piece alone
    where the record cannot be read, which the cohort's ``skipped`` says."""
    if len(gold.spans) < 2:
        return [gold]
    try:
        record = cohort.records[record_id]
    except (DataError, UnknownName):
        return [gold]
    return [place_of(record, span) for span in gold.spans]
