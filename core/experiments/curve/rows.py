"""A cohort's model responses as columns, by the position of their evidence.

Built once for a cohort; every choice of score, position, stratum and snippets is then a few sums
over arrays. Responses that were not used in the evaluation are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from midchart.core.cohorts.gold import gold_under
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.judges.exact import Exact, reference_polarity
from midchart.core.judges.rules import reference_of
from midchart.core.judges.values import quantities, take_dates
from midchart.core.protocol import Protocol
from midchart.core.stats.positions import Responses, assemble, hashed
from midchart.core.text import words
from midchart.core.text.evidence import RelativePosition, place_of
from midchart.core.types import Answer, Cohort, Gold, Instruction, Response

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SCORES = ("clinician", "exact", "jaccard", "exact_or_jaccard")
MEANS = ("jaccard", "exact_or_jaccard")
"""Scores between 0 and 1, whose curve is of means and not of shares."""
POSITIONS = ("order", "time", "token")
SNIPPETS = ("best", "all")
STRATA = ("all", "model", "specialty", "domain", "task_type")
NOT_STATED = "not stated"
"""The value of an instruction whose source does not give it."""


def scored(
    name: str,
    cohort: Cohort,
    asked: Sequence[tuple[Instruction, Response]],
    protocol: Protocol,
) -> Floats:
    """The score ``name`` of each response to its instruction, float64, nan where it has none.

    ``clinician``: 1 or 0, nan where the clinicians' verdict is neither. ``exact``: the exact
    judge's verdict where the reference is a structured value (:func:`structured`), nan where it
    is not, or where the answer to a yes/no question says neither. ``jaccard``: shared over all
    distinct words of answer and reference, nan without a reference. ``exact_or_jaccard``: the
    paper's single score, ``exact`` where the reference is a structured value, else ``jaccard``
    (paper, Experiment 1).
    """
    if name == "clinician":
        return np.array([response.correct for _, response in asked], dtype=np.float64)

    @cache
    def reference(id: str) -> tuple[Gold, str] | None:
        gold = cohort.gold.get(id)
        text = reference_of(gold) if gold else ""
        usable = words(text) and (name != "exact" or structured(text))
        return (gold, text) if gold and usable else None

    scores = np.full(len(asked), np.nan)
    exact = Exact(protocol)
    cut = protocol.response_characters or None
    for i, (instruction, response) in enumerate(asked):
        compared = reference(instruction.id)
        if compared and (name == "jaccard" or (name != "exact" and not structured(compared[1]))):
            scores[i] = jaccard(compared[1], response.text[:cut])
        elif compared:
            outcome = exact.judge(instruction, compared[0], Answer(response.text)).outcome
            if outcome in ("correct", "incorrect"):
                scores[i] = outcome == "correct"
    return scores


def structured(reference: str) -> bool:
    """Whether a reference is a structured value, not free text: it holds a date or a number, or
    begins with yes or no."""
    days, rest = take_dates(reference)
    return bool(days or quantities(rest) or reference_polarity(reference))


def jaccard(reference: str, answer: str) -> float:
    """Distinct lower-cased words in both over those in either; 0 for an answer without words."""
    one, other = set(words(reference)), set(words(answer))
    return len(one & other) / len(one | other) if one else float("nan")


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """Positions of the located pieces of each instruction's evidence, of one kind of position.

    ``best`` float64 [q], nan where unlocated; ``at`` float64, the pieces of all instructions one
    after another, ``count`` int64 [q] of each instruction; ``missing`` int64 [q], pieces that were
    not located (all of an unlocated instruction count as one).
    """

    best: Floats
    at: Floats
    count: Ints
    missing: Ints


@dataclass(frozen=True, slots=True)
class CurveChoice:
    """Which responses a curve takes; raises UnknownName, and InputError for ``least_score``.

    ``least_score`` in [0, 1]: questions whose evidence was located by its text with a lower score
    are left out. Evidence whose source gives its spans has no score and stays.
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

    Of each response, sorted by instruction, int64 [n]: index of its ``instruction`` in ``asked``,
    of its ``model`` in ``models``, of the ``response`` in the cohort. Of each instruction:
    ``cluster`` int64 [q], ascending, the (patient, question); ``groups``, for each stratum but
    model its values and int64 [q]; ``pieces`` by kind of position; ``location`` float64 [q], the
    score of the best-located piece, nan where its source gives spans or nothing was located.
    ``unused``: number of responses that were not part of the evaluation.
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
    simulated: Bools
    unused: int = 0
    protocol: Protocol = field(default_factory=Protocol)
    _scores: dict[str, Floats] = field(default_factory=dict[str, Floats])

    def score(self, name: str) -> Floats:
        """A score of every response, float64 [n], nan where it has none; cached."""
        if name not in self._scores:
            asked = [
                (self.asked[q], self.cohort.responses[r])
                for q, r in zip(self.instruction.tolist(), self.response.tolist(), strict=True)
            ]
            self._scores[name] = scored(name, self.cohort, asked, self.protocol)
        return self._scores[name]

    def values(self, stratum: str) -> tuple[str, ...]:
        """The values of a stratum among the used responses, sorted."""
        if stratum in ("all", "model"):
            return self.models if stratum == "model" else ("",)
        return self.groups[stratum][0]

    def within(self, choice: CurveChoice) -> Bools | None:
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
class Selected:
    """The responses of one curve: ``responses`` by position (None where there are none), the
    numbers of those ``unlocated`` (a score, but evidence without a position), ``unscored`` (no
    score) and left out for a ``weak`` location, and whether any is ``simulated``."""

    responses: Responses | None
    unlocated: int
    unscored: int
    weak: int
    simulated: bool


def select(observed: Observed, choice: CurveChoice) -> Selected:
    """The responses of a choice, summed by position.

    With ``snippets`` "best" a response counts at the best-located piece of its evidence; with
    "all" it counts at every located piece, in the same cluster, and each piece that was not
    located counts as one more unlocated response.
    """
    count = len(observed.asked)
    rows, unscored, weak = _rows(observed, choice)
    asked = observed.instruction[rows]
    right = np.bincount(asked, weights=observed.score(choice.score)[rows], minlength=count)
    n = np.bincount(asked, minlength=count)
    models = np.zeros(count, dtype=np.uint64)
    np.add.at(models, asked, hashed(np.arange(len(observed.models)))[observed.model[rows]])
    pieces = observed.pieces[choice.position]
    if choice.snippets == "best":
        unlocated = int(n[np.isnan(pieces.best)].sum())
        entries = np.flatnonzero((n > 0) & ~np.isnan(pieces.best))
        at = pieces.best[entries]
    else:
        unlocated = int((n * pieces.missing).sum())
        entries = np.repeat(np.arange(count), np.where(n > 0, pieces.count, 0))
        at = pieces.at[np.repeat(n > 0, pieces.count)]
    responses = None
    if entries.size:
        cluster = observed.cluster[entries]
        responses = assemble(cluster, right[entries], n[entries], at, models[entries])
    simulated = bool(observed.simulated[rows].any())
    return Selected(responses, unlocated, unscored, weak, simulated)


def points(observed: Observed, choice: CurveChoice) -> tuple[Ints, Floats]:
    """The responses that :func:`select` sums, one by one: row int64 [m], position float64 [m]."""
    selected, _, _ = _rows(observed, choice)
    rows = np.arange(len(observed.instruction))[selected]
    pieces = observed.pieces[choice.position]
    if choice.snippets == "best":
        at = pieces.best[observed.instruction[rows]]
        located = ~np.isnan(at)
        return rows[located], at[located]
    many = pieces.count[observed.instruction[rows]]
    first = np.cumsum(pieces.count) - pieces.count
    offset = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    index = np.repeat(first[observed.instruction[rows]], many) + offset
    return np.repeat(rows, many), pieces.at[index]


def _rows(observed: Observed, choice: CurveChoice) -> tuple[Bools | slice, int, int]:
    """The responses of a choice, bool [n] or all as a slice; how many of its stratum lack its
    score, and how many that have it are left out for a weak location."""
    usable, inside = ~np.isnan(observed.score(choice.score)), observed.within(choice)
    lacking = ~usable
    if inside is not None:
        usable, lacking = usable & inside, lacking & inside
    weak = (observed.location < choice.least_score)[observed.instruction]
    rows = usable & ~weak
    # A slice copies no column of a million responses.
    return slice(None) if rows.all() else rows, int(lacking.sum()), int((usable & weak).sum())


def observe(
    cohort: Cohort,
    instructions: Sequence[Instruction],
    protocol: Protocol,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> Observed:
    """The used responses to ``instructions``; ``report`` is called with the numbers of questions
    located and in all. Raises InputError where the cohort has none."""
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
    golds = [located.gold.get(instruction.id) for instruction in asked]
    return Observed(
        cohort,
        tuple(asked),
        np.array([number[r.instruction_id] for _, r in used], dtype=np.int64),
        np.array([codes[r.model] for _, r in used], dtype=np.int64),
        np.array([i for i, _ in used], dtype=np.int64),
        models,
        np.array([clusters[pair] for pair in pairs], dtype=np.int64),
        {name: _coded([getattr(i, name) or NOT_STATED for i in asked]) for name in STRATA[2:]},
        _pieces(located, asked, report),
        np.array([gold.score if gold else None for gold in golds], dtype=np.float64),
        np.array([r.simulated for _, r in used], dtype=np.bool_),
        sum(not r.used and r.instruction_id in by_id for r in cohort.responses),
        protocol,
    )


def no_responses(cohort: Cohort) -> str:
    """Error text for a cohort without model responses."""
    return (
        f"{cohort.path} holds no model responses used in an evaluation; the curve needs those of "
        "clinician-reviewed-model-responses.tsv to the questions asked"
    )


def _coded(values: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    names, codes = np.unique(np.array(values, dtype=object), return_inverse=True)
    return tuple(names.tolist()), codes.astype(np.int64)


def _pieces(
    cohort: Cohort, asked: Sequence[Instruction], report: Callable[[int, int], None]
) -> dict[str, Pieces]:
    """Located pieces of the evidence of instructions, sorted by record, in every position."""
    by_kind: dict[str, list[tuple[float | None, list[float], int]]] = {k: [] for k in POSITIONS}
    record_id = ""
    for q, instruction in enumerate(asked):
        if record_id != instruction.record_id:
            record_id = instruction.record_id
            report(q, len(asked))
        gold = cohort.gold.get(instruction.id)
        places = () if gold is None else _places(cohort, record_id, gold)
        pieces = 0 if gold is None else max(len(set(gold.snippets)), len(gold.spans))
        for kind, of in by_kind.items():
            values = [getattr(place, kind) for place in places]
            located = [float(value) for value in values if value is not None]
            missing = max(0, pieces - len(located)) if located else 1
            of.append((getattr(gold, kind, None), located, missing))
    return {
        kind: Pieces(
            np.array([best for best, _, _ in of], dtype=np.float64),
            np.array([x for _, located, _ in of for x in located], dtype=np.float64),
            np.array([len(located) for _, located, _ in of], dtype=np.int64),
            np.array([missing for _, _, missing in of], dtype=np.int64),
        )
        for kind, of in by_kind.items()
    }


def _places(cohort: Cohort, record_id: str, gold: Gold) -> Sequence[RelativePosition | Gold]:
    """Positions of the located pieces of evidence, in record order; that of the best piece alone
    where the record cannot be read (named in the cohort's ``skipped``)."""
    if len(gold.spans) < 2:
        return [gold]
    try:
        record = cohort.records[record_id]
    except (DataError, UnknownName):
        return [gold]
    return [place_of(record, span) for span in gold.spans]
