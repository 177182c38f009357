"""A cohort's model responses as a table, by the position of their evidence.

Built once for a cohort; every choice of score, position, stratum and snippets is then a few
sums. Responses that were not used in the evaluation are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pandas import DataFrame

Floats = NDArray[np.float64]

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


@dataclass(frozen=True, slots=True)
class CurveChoice:
    """Which responses a curve takes; raises UnknownName, and InputError for ``least_score``.
    ``least_score`` in [0, 1]: questions whose evidence was located by its text with a lower score
    are left out. Evidence whose source gives its spans has no score and stays."""

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
    """The used responses of a cohort to the questions ``asked``.

    ``responses``: a row each, sorted by question: number of its ``question`` in ``asked``, its
    ``response`` in the cohort, its ``cluster`` (patient and question), the strata, whether it is
    ``simulated``, and ``location``, the score of the best-located piece of evidence (nan where its
    source gives spans or nothing was located). ``places``: by kind of position and snippets,
    ``question`` and ``at`` of the evidence, by question, and ``missing`` [q], how many pieces of it
    have no position (all of an unlocated question count as one).
    """

    cohort: Cohort
    asked: tuple[Instruction, ...]
    responses: DataFrame
    places: Mapping[tuple[str, str], tuple[DataFrame, Floats]]
    protocol: Protocol = field(default_factory=Protocol)
    _scores: dict[str, Floats] = field(default_factory=dict[str, Floats])

    def score(self, name: str) -> Floats:
        """A score of every response, float64 [n], nan where it has none; cached."""
        if name not in self._scores:
            pairs = self.responses[["question", "response"]].to_numpy().tolist()
            asked = [(self.asked[q], self.cohort.responses[r]) for q, r in pairs]
            self._scores[name] = scored(name, self.cohort, asked, self.protocol)
        return self._scores[name]

    def values(self, stratum: str) -> tuple[str, ...]:
        """The values of a stratum among the used responses, sorted."""
        return tuple(sorted(self.responses[stratum].unique()))

    def chosen(self, choice: CurveChoice) -> tuple[DataFrame, int, int]:
        """The responses of a choice with their ``score``; how many of its stratum lack it, and how
        many that have it are left out for a weak location. Raises UnknownName for the value."""
        valid = self.values(choice.stratum)
        if choice.value not in valid:
            raise UnknownName(choice.stratum.replace("_", " "), choice.value, valid)
        rows: Any = self.responses.assign(score=self.score(choice.score))
        rows = rows[rows[choice.stratum] == choice.value]
        known = rows[rows["score"].notna()]
        weak = known["location"] < choice.least_score
        return known[~weak], len(rows) - len(known), int(weak.sum())


def select(observed: Observed, choice: CurveChoice) -> tuple[Responses | None, dict[str, Any]]:
    """The responses of a choice, summed by position (None where there are none); the numbers of
    those ``unlocated`` (a score, but evidence without a position), ``unscored`` (no score) and left
    out for a ``weak`` location, and whether any is ``simulated``.

    With ``snippets`` "best" a response counts at the best-located piece of its evidence; with
    "all" it counts at every located piece, in the same cluster, and each piece that was not
    located counts as one more unlocated response.
    """
    rows, unscored, weak = observed.chosen(choice)
    codes = {model: i for i, model in enumerate(observed.values("model"))}
    models = hashed([codes[model] for model in rows["model"]])
    sums = (
        rows.assign(models=models)
        .groupby("question")
        .agg(
            cluster=("cluster", "first"),
            right=("score", "sum"),
            n=("score", "size"),
            models=("models", "sum"),
        )
    )
    places, missing = observed.places[choice.position, choice.snippets]
    counts = {"unlocated": int(np.sum(np.asarray(sums["n"]) * missing[sums.index]))}
    counts |= {"unscored": unscored, "weak": weak, "simulated": bool(rows["simulated"].any())}
    at = places.join(sums, on="question", how="inner")
    return assemble(*(at[name] for name in SUMMED)) if len(at) else None, counts


SUMMED = ("cluster", "right", "n", "at", "models")


def points(observed: Observed, choice: CurveChoice) -> DataFrame:
    """The responses that :func:`select` sums, one by one, with their ``score`` and the position of
    the evidence, ``at``."""
    places, _ = observed.places[choice.position, choice.snippets]
    return observed.chosen(choice)[0].merge(places, on="question")


def observe(
    cohort: Cohort,
    instructions: Sequence[Instruction],
    protocol: Protocol,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> Observed:
    """The used responses to ``instructions``; ``report`` is called with the numbers of questions
    located and in all. Raises InputError where the cohort has none."""
    from pandas import DataFrame

    by_id = {instruction.id: instruction for instruction in instructions}
    used = [(i, r) for i, r in enumerate(cohort.responses) if r.used and r.instruction_id in by_id]
    if not used:
        raise InputError(no_responses(cohort))
    answered = {r.instruction_id for _, r in used}
    asked = sorted((by_id[id] for id in answered), key=lambda i: (i.record_id, i.question, i.id))
    located = gold_under(cohort, protocol)
    golds = [located.gold.get(instruction.id) for instruction in asked]
    clusters = {
        pair: c for c, pair in enumerate(dict.fromkeys((i.record_id, i.question) for i in asked))
    }
    questions = DataFrame(
        {
            "question": range(len(asked)),
            "cluster": [clusters[i.record_id, i.question] for i in asked],
            "all": "",
            **{name: [getattr(i, name) or NOT_STATED for i in asked] for name in STRATA[2:]},
            "location": np.array([gold.score if gold else None for gold in golds], dtype=float),
        },
        index=[instruction.id for instruction in asked],
    )
    columns = {
        "response": [i for i, _ in used],
        "model": [r.model for _, r in used],
        "simulated": [r.simulated for _, r in used],
    }
    ids = [r.instruction_id for _, r in used]
    responses = DataFrame(columns, index=ids).join(questions)
    responses = responses.sort_values("question", kind="stable", ignore_index=True)
    places = _places(located, asked, golds, report)
    return Observed(cohort, tuple(asked), responses, places, protocol)


def no_responses(cohort: Cohort) -> str:
    """Error text for a cohort without model responses."""
    return (
        f"{cohort.path} holds no model responses used in an evaluation; the curve needs those of "
        "clinician-reviewed-model-responses.tsv to the questions asked"
    )


def _places(
    cohort: Cohort,
    asked: Sequence[Instruction],
    golds: Sequence[Gold | None],
    report: Callable[[int, int], None],
) -> dict[tuple[str, str], tuple[DataFrame, Floats]]:
    """The places of the evidence of questions sorted by record, in every kind of position."""
    from pandas import DataFrame

    kinds: list[tuple[str, str]] = list(product(POSITIONS, SNIPPETS))
    at: dict[tuple[str, str], list[tuple[int, float]]] = {kind: [] for kind in kinds}
    missing = {kind: np.ones(len(asked)) for kind in kinds}
    record_id = ""
    for q, (instruction, gold) in enumerate(zip(asked, golds, strict=True)):
        if record_id != instruction.record_id:
            record_id = instruction.record_id
            report(q, len(asked))
        if gold is None:
            continue
        every, pieces = (
            _pieces(cohort, record_id, gold),
            max(len(set(gold.snippets)), len(gold.spans)),
        )
        for (position, snippets), of in zip(kinds, at.values(), strict=True):
            best, many = ([gold], 1) if snippets == "best" else (every, pieces)
            known = [getattr(place, position) for place in best]
            known = [float(place) for place in known if place is not None]
            of += [(q, place) for place in known]
            if known:
                missing[position, snippets][q] = max(0, many - len(known))
    return {
        kind: (DataFrame(of, columns=["question", "at"]), missing[kind]) for kind, of in at.items()
    }


def _pieces(cohort: Cohort, record_id: str, gold: Gold) -> Sequence[RelativePosition | Gold]:
    """Positions of the located pieces of evidence, in record order; that of the best piece alone
    where the record cannot be read (named in the cohort's ``skipped``)."""
    if len(gold.spans) < 2:
        return [gold]
    try:
        record = cohort.records[record_id]
    except (DataError, UnknownName):
        return [gold]
    return [place_of(record, span) for span in gold.spans]
