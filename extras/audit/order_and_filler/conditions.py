"""Conditions of one question: the prompt again, its lines in other orders, and filler among them.

Each question, condition and repeat is an instruction of the run's cohort; all instructions of a
question are about its own record. An arm selects once for a question, and each condition arranges
that selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from midchart.core.arms.hits import Question, question_of
from midchart.core.cohorts.gold import LazyValues, gold_under
from midchart.core.errors import SpecError, WorkFailed
from midchart.core.protocol import Protocol
from midchart.core.provenance import seeded
from midchart.core.runs.answering import select
from midchart.core.runs.job import Job, Row, outcome
from midchart.core.runs.plan import ArmConfig
from midchart.core.runs.schemas import kept_rows
from midchart.core.storage.rows import Schema
from midchart.core.types import Cohort, Gold, Instruction, Kept, Selection, Sentence
from midchart.extras.audit.order_and_filler.filler import FillerSource

Factor = Literal["base", "again", "order", "filler"]
ORDERS = ("reversed", "shuffled", "evidence_first", "evidence_middle", "evidence_last")
SITE: Schema = {
    **dict.fromkeys(("own_question", "condition", "factor", "level", "words"), "VARCHAR"),
    **dict.fromkeys(("filler_tokens", "draw"), "BIGINT"),
}
"""``own_question``: the cohort's question that a row asks; ``condition``: its name, ``factor``:
"base", "again", "order" or "filler", ``level``: which order or kind of filler, ``words`` and
``filler_tokens`` those of the filler; ``draw``: number of the repeat, 0 for the base."""

ADDED: Schema = dict.fromkeys(("added_tokens", "question_words"), "BIGINT")
"""Of an answer's filler: its tokens, dates included, and how many of its words are the
question's."""


@dataclass(frozen=True, slots=True)
class PromptCondition:
    """What of the base prompt is changed; ``level``, ``words``, ``tokens`` as :data:`SITE`."""

    factor: Factor
    level: str = ""
    words: str = ""
    tokens: int = 0

    @property
    def name(self) -> str:
        """In words, unique in a run."""
        if self.factor == "filler":
            return f"{_plain(self.level)}, {self.tokens} tokens, words {self.words}"
        return _plain(self.level) or {"base": "base", "again": "same prompt again"}[self.factor]

    @property
    def slug(self) -> str:
        """As part of an instruction's id."""
        parts = (self.factor, self.level, self.words, str(self.tokens or ""))
        return "-".join(filter(None, parts))


def _plain(name: str) -> str:
    return name.replace("_", " ")


BASE = PromptCondition("base")


def conditions(options: Mapping[str, Any]) -> list[PromptCondition]:
    """The conditions of a run's options, without the base."""
    filled = product(options["fillers"], options["filler_tokens"], options["words"])
    return [
        PromptCondition("again"),
        *(PromptCondition("order", order) for order in options["orders"]),
        *(PromptCondition("filler", kind, words, tokens) for kind, tokens, words in filled),
    ]


@dataclass(frozen=True, slots=True)
class VariedQuestion:
    """A question under a condition; ``draw`` counts its repeats from 1."""

    asked: Instruction
    condition: PromptCondition
    draw: int = 0

    @property
    def id(self) -> str:
        """Of its instruction."""
        return f"{self.asked.id}/{self.condition.slug}/{self.draw}"

    @property
    def base(self) -> str:
        """Id of the base's instruction."""
        return VariedQuestion(self.asked, BASE).id

    def columns(self) -> dict[str, Any]:
        """The columns of :data:`SITE`."""
        one = self.condition
        return {
            "own_question": self.asked.id,
            "condition": one.name,
            "factor": one.factor,
            "level": one.level or None,
            "words": one.words or None,
            "filler_tokens": one.tokens or None,
            "draw": self.draw,
        }


@dataclass(frozen=True)
class VariedCohort(Cohort):
    """``cases``: that of each instruction; ``unmoved``: questions whose evidence is not located, so
    that it is not moved."""

    cases: Mapping[str, VariedQuestion] = field(default_factory=dict[str, VariedQuestion])
    unmoved: int = 0


def varied_cohort(
    cohort: Cohort, asked: Sequence[Instruction], options: Mapping[str, Any], protocol: Protocol
) -> VariedCohort:
    """The cohort whose instructions are the questions ``asked`` under each condition.

    Raises SpecError for lines of other patients in a cohort of one.
    """
    if "other_patients" in options["fillers"] and len(cohort.records) < 2:
        raise SpecError(
            f"{cohort.path} holds one record; leave 'other_patients' out of 'fillers' of the spec"
        )
    gold = gold_under(cohort, protocol).gold
    moves = any(order.startswith("evidence") for order in options["orders"])
    cases: list[VariedQuestion] = []
    unmoved = 0
    for one in asked:
        located = moves and one.id in gold and bool(gold[one.id].spans)
        unmoved += moves and not located
        cases.append(VariedQuestion(one, BASE))
        for condition in conditions(options):
            if located or not condition.level.startswith("evidence"):
                cases += [VariedQuestion(one, condition, n + 1) for n in range(options["repeats"])]
    by_id = {case.id: case for case in cases}

    def gold_of(id: str) -> Gold:
        return replace(gold[by_id[id].asked.id], instruction_id=id)

    inherited = {one.name: getattr(cohort, one.name) for one in fields(Cohort)}
    varied: dict[str, Any] = inherited | {
        "instructions": tuple(replace(case.asked, id=id) for id, case in by_id.items()),
        "gold": LazyValues([id for id in by_id if by_id[id].asked.id in gold], gold_of),
        "responses": (),
    }
    return VariedCohort(**varied, cases=by_id, unmoved=unmoved)


class Arrangement:
    """Selections of a run's instructions: an arm's own for the question, arranged as the condition
    says. The arm selects once for the conditions of a question."""

    def __init__(self, cohort: VariedCohort, protocol: Protocol) -> None:
        self.cohort, self.protocol = cohort, protocol
        self.source = FillerSource(cohort, protocol)
        self._base: dict[str, tuple[str, tuple[Selection | None, Row]]] = {}

    def question(self, instruction: Instruction) -> Question:
        """An instruction's question, without the chance level of recall."""
        plain = question_of(self.cohort, instruction, self.protocol)
        site = self.cohort.cases[instruction.id].columns()
        patient = {"record": self.cohort.patient_of(instruction)}
        return replace(plain, chance=None, check=None, site=site | patient)

    def select(
        self, job: Job, entry: ArmConfig, question: Question
    ) -> tuple[Selection | None, Row]:
        """As :func:`midchart.core.runs.answering.select`; hits are those of the arm's selection."""
        case = self.cohort.cases[question.instruction.id]
        base, columns = self._selected(job, entry, case, question)
        row = columns | question.columns() | dict.fromkeys(ADDED)
        if base is None:
            return None, row
        arranged: list[Selection] = []
        row |= {"selection": None}
        with outcome(row):
            selection, added = self._arranged(base, question, case)
            row |= {"selection": kept_rows(selection), "selection_tokens": selection.tokens}
            row |= added
            arranged.append(selection)
        return (arranged[0] if arranged else None), row

    def _selected(
        self, job: Job, entry: ArmConfig, case: VariedQuestion, question: Question
    ) -> tuple[Selection | None, Row]:
        if self._base.get(entry.label, ("",))[0] != case.base:
            asked = replace(question.instruction, id=case.base)
            self._base[entry.label] = case.base, select(job, entry, self.question(asked))
        return self._base[entry.label][1]

    def _arranged(
        self, base: Selection, question: Question, case: VariedQuestion
    ) -> tuple[Selection, dict[str, int]]:
        """The selection of a condition, and the columns of its filler."""
        if base.lines is not None:
            raise WorkFailed("the arm writes its own context, which has no lines to arrange")
        condition, seed = case.condition, (case.asked.id, str(case.draw))
        lines, tokens = base.kept, base.tokens
        added = dict.fromkeys(ADDED, 0)
        if condition.factor == "order":
            rng = seeded(self.protocol.seed, "order", *seed)
            lines = ordered(condition.level, lines, question.parts, rng)
        if condition.factor == "filler":
            of = (condition.level, condition.words, condition.tokens)
            filler = self.source.draw(question, lines, of, seed)
            # The same places for every kind of filler.
            rng = seeded(self.protocol.seed, "places", *seed)
            lines = spread(lines, filler.lines, rng, condition.level == "neutral")
            added = {"added_tokens": filler.tokens, "question_words": filler.question_words}
            tokens += sum(line.tokens for line in filler.lines)
        return replace(base, kept=lines, tokens=tokens), added


def ordered(
    order: str, lines: Sequence[Kept], evidence: Mapping[str, Any], rng: np.random.Generator
) -> tuple[Kept, ...]:
    """The lines in an order of :data:`ORDERS`; ``evidence``: by id of the sentences that hold it.
    Without a line with evidence nothing is moved, and the prompt is the base's."""
    if order == "reversed":
        return tuple(lines[::-1])
    if order == "shuffled":
        return tuple(lines[i] for i in rng.permutation(len(lines)).tolist())
    moved = [line for line in lines if line.sentence.id in evidence]
    if not moved:
        return tuple(lines)
    rest = [line for line in lines if line.sentence.id not in evidence]
    before = {"evidence_first": 0, "evidence_middle": len(rest) // 2, "evidence_last": len(rest)}
    at = before[order]
    return (*rest[:at], *moved, *rest[at:])


def spread(
    lines: Sequence[Kept],
    filler: Sequence[Sentence],
    rng: np.random.Generator,
    with_dates: bool = False,
) -> tuple[Kept, ...]:
    """The lines in their order with filler at random places among them; ``with_dates``: filler gets
    the date of the line before it (of the first, where there is none)."""
    places = np.sort(rng.integers(0, len(lines) + 1, len(filler))).tolist()
    arranged: list[Kept] = []
    last = 0
    for place, sentence in zip(places, filler, strict=True):
        arranged += lines[last:place]
        last = place
        if with_dates and lines:
            sentence = replace(sentence, time=lines[max(0, place - 1)].sentence.time)
        arranged.append(Kept(sentence, None, "filler"))
    return (*arranged, *lines[last:])
