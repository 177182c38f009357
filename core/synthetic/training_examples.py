"""Training examples for readers: synthetic records and questions used for nothing else.

They have the format of the prompts that the application writes; their patients, values and wordings
are those of no evaluated cohort (training refuses otherwise). Evaluated are the synthetic clinical
cohorts of any seed, needle runs, and the cohorts given. Of the first two the templates are
compared, so no text that they can produce is in a training example.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache, lru_cache
from typing import Literal

import numpy as np

from midchart.core.errors import InputError, WorkFailed
from midchart.core.protocol import Protocol
from midchart.core.synthetic.common import chance, pick, shuffled
from midchart.core.synthetic.facts import series, singles
from midchart.core.synthetic.needles import needle_kinds
from midchart.core.synthetic.training_wordings import (
    DRAWN,
    READINGS,
    Days,
    FactDraft,
    Person,
    filler,
    stated_fact,
    topics,
    vary_question,
)
from midchart.core.text import sentences
from midchart.core.text.prompt import HEAD, MIDDLE, NOT_DOCUMENTED, TAIL, without_date, written
from midchart.core.types import Cohort

_Place = Literal["uniform", "edges"]


@dataclass(frozen=True, slots=True)
class ExamplePlan:
    """How training examples are drawn.

    lines: fewest and most lines of a record (each at least 4). place: evidence position, "uniform"
    over the lines or near the "edges". distractors: most lines a fact has on the same thing with
    another date or value. asked: questions of an example. absent: share of questions whose answer
    the record does not give. facts: share of the lines that facts and distractors take. kinds:
    kinds of facts (empty: all; see :func:`kinds`). invented: share of names that do not
    exist. near: share of facts with another line on their subject that answers nothing.
    withheld: share of facts of which only that line and distractors are in the record. latest:
    share of records that are some earlier lines and one complete latest note.
    """

    lines: tuple[int, int] = (24, 24)
    place: _Place = "uniform"
    distractors: int = 2
    asked: int = 20
    absent: float = 0.2
    facts: float = 0.4
    kinds: tuple[str, ...] = ()
    invented: float = 0.6
    near: float = 0.4
    withheld: float = 0.15
    latest: float = 0.0


@dataclass(frozen=True, slots=True)
class ExampleQuestion:
    """A question; its answer is the text of the answering line without its date, or
    :data:`midchart.core.text.prompt.NOT_DOCUMENTED`.

    ``line`` is the index of the answering line, None where the record has none; ``distractors``
    are lines on the same thing that do not answer it.
    """

    kind: str
    question: str
    answer: str
    line: int | None
    distractors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A record's lines, each with its date as in a prompt, and the questions about them."""

    lines: tuple[str, ...]
    asked: tuple[ExampleQuestion, ...]

    @property
    def opening(self) -> str:
        """Text with which all prompts of the example begin."""
        return HEAD + "\n".join(self.lines)

    @staticmethod
    def ending(question: str) -> str:
        """The rest of a prompt after :attr:`opening`, up to the answer."""
        return MIDDLE + question + TAIL

    def written(self, number: int) -> str:
        """The target output for a question."""
        line = self.asked[number].line
        return written(None if line is None else self.lines[line])

    def prompt(self, number: int) -> str:
        """The prompt of a question, as :func:`midchart.core.text.prompt.build_prompt` writes it."""
        return self.opening + self.ending(self.asked[number].question)


_READING_SHARE = 0.35
"""Share of facts with a value (readings); the others are stated in a sentence."""
_MEDICINES = 3
"""How many times as often as another topic one on a drug is drawn: it has many names."""
_EARLY_FIRST = 0.7
"""Share of records with a latest note in which earlier lines take facts first, as in the contexts
that the application builds."""


@cache
def kinds() -> tuple[str, ...]:
    """Every kind of fact that can be asked for."""
    return (*READINGS, *(topic.key for topic in topics()))


def seeded_example(seed: int, number: int, plan: ExamplePlan | None = None) -> TrainingExample:
    """Example ``number`` of a seed, the same on every machine.

    Raises InputError for a plan that cannot be met.
    """
    return make_example(np.random.default_rng([seed, number]), plan or ExamplePlan())


def make_example(rng: np.random.Generator, plan: ExamplePlan) -> TrainingExample:
    """An example drawn by ``rng``; raises InputError for a plan that cannot be met."""
    low, high = plan.lines
    unknown = sorted(set(plan.kinds).difference(kinds()))
    if low < 4 or high < low or plan.asked < 1 or plan.distractors < 0 or unknown:
        raise InputError(
            "training examples: lines from 4, fewest first; asked ≥ 1; distractors ≥ 0"
            + (f"; no such kind: {', '.join(unknown)}" if unknown else "")
        )
    n = int(rng.integers(low, high + 1))
    p = Person(rng)
    # Nothing is drawn for a latest note that the plan excludes: other examples keep their bytes.
    has_note = plan.latest and chance(rng, plan.latest)
    note = max(1, int(n * rng.uniform(0.01, 0.3))) if has_note else 0
    days = _days(rng, n, note)
    places = _places(rng, n, plan)
    if note and chance(rng, _EARLY_FIRST):
        places.sort(key=lambda line: line >= note)
    texts: dict[int, str] = {}
    facts: list[list[ExampleQuestion]] = []
    used: set[str] = set()

    def free_lines(line: int, count: int) -> list[int]:
        return shuffled(rng, [i for i in range(n) if i != line and i not in texts], count)

    wanted = max(2, round(n * plan.facts / (1 + plan.distractors / 2)))
    for line in places[:wanted]:
        if line in texts:
            continue
        others = free_lines(line, int(rng.integers(0, plan.distractors + 1)))
        fact = _draw(rng, p, plan, tuple(days[i] for i in (line, *others)), used)
        if fact is None:
            break
        if fact.last:
            others = [i for i in others if (days[i], i) < (days[line], line)]
        others = others[: len(fact.distractors)]
        rivals = bool(others) and fact.apart
        can_withhold = rivals or bool(fact.near or fact.same_drug)
        withheld = can_withhold and chance(rng, plan.withheld)
        if not withheld:
            texts[line] = fact.says
        if rivals or not withheld:
            texts |= dict(zip(others, fact.distractors, strict=False))
        unanswering = [fact.same_drug]
        if withheld or chance(rng, plan.near):
            unanswering.insert(0, fact.near)
        for lines in unanswering:
            texts |= dict(zip(free_lines(line, len(lines)), lines, strict=False))
        evidence, distractors = None if withheld else line, tuple(sorted(others))
        facts.append(
            [
                ExampleQuestion(fact.kind, question, NOT_DOCUMENTED, evidence, distractors)
                for question in dict.fromkeys(fact.asks)
            ]
        )
    asked = _questions(rng, p, plan, facts, used, days)
    for i in range(n):
        if i not in texts:
            texts[i] = filler(rng, p)
    shown = tuple(f"[{days[i].isoformat()}] {texts[i]}" for i in range(n))
    answered = (
        replace(
            one,
            question=vary_question(rng, one.question),
            answer=NOT_DOCUMENTED if one.line is None else without_date(shown[one.line]),
        )
        for one in asked
    )
    return TrainingExample(shown, tuple(answered))


def _days(rng: np.random.Generator, n: int, note: int) -> list[date]:
    """A day for each line, in time order.

    ``note``: the line with which a latest note begins, before which most lines have a day each; for
    0, neighbours often share a day, and half of the records end in one long note.
    """
    day = date(2004, 1, 1) + timedelta(days=int(rng.integers(0, 4200)))
    # The share of lines that have the day of the line before, and of those in the note.
    same, in_note = float(rng.uniform(0.0, 0.5) if note else rng.uniform(0.1, 0.9)), 0.99
    most = 500 if note or n < 60 else 200
    if not note:
        note, in_note = int(n * rng.uniform(0.02, 0.8)) if chance(rng, 0.5) else n, 0.98
    days = [day]
    for i in range(1, n):
        stays = chance(rng, in_note if i > note else same)
        days.append(days[-1] + timedelta(days=0 if stays else int(rng.integers(1, most))))
    return days


def _places(rng: np.random.Generator, n: int, plan: ExamplePlan) -> list[int]:
    """All lines in the order in which facts take them."""
    if plan.place == "uniform":
        return [int(i) for i in rng.permutation(n)]
    # A line's weight falls by e every twelfth of the record from its nearer end.
    from_edge = np.minimum(np.arange(n), n - 1 - np.arange(n)) / n
    weight = np.exp(-12 * from_edge)
    return [int(i) for i in rng.choice(n, n, replace=False, p=weight / weight.sum())]


def _draw(
    rng: np.random.Generator, p: Person, plan: ExamplePlan, days: Days, used: set[str]
) -> FactDraft | None:
    """A fact of an allowed kind: readings and topics on a drug can come again under another name,
    other topics once a record; None where none is left."""
    free = [t for t in topics() if t.key not in used and (not plan.kinds or t.key in plan.kinds)]
    free += [t for t in free if t.of_drug for _ in range(_MEDICINES - 1)]
    readings = [k for k in DRAWN if not plan.kinds or k in plan.kinds]
    if readings and (not free or chance(rng, _READING_SHARE)):
        return READINGS[pick(rng, readings)](rng, p, days, plan.invented)
    if not free:
        return None
    topic = pick(rng, free)
    if not topic.of_drug:
        used.add(topic.key)
    return stated_fact(rng, topic, p, days, plan.invented)


def _questions(
    rng: np.random.Generator,
    p: Person,
    plan: ExamplePlan,
    facts: Sequence[Sequence[ExampleQuestion]],
    used: set[str],
    days: Sequence[date],
) -> list[ExampleQuestion]:
    """The example's questions in random order: equally many of each fact (or one fewer), however
    many ways there are to ask for it, and some that the record does not answer."""
    absent = int(rng.binomial(plan.asked, plan.absent))
    order = shuffled(rng, range(len(facts)))
    ways = [shuffled(rng, fact) for fact in facts]

    def ask(number: int) -> ExampleQuestion:
        turn, rank = divmod(number, len(order))
        questions = ways[order[rank]]
        return questions[turn % len(questions)]

    chosen = [ask(i) for i in range(plan.asked - absent)]
    while len(chosen) < plan.asked:
        fact = _draw(rng, p, plan, (pick(rng, days),), used)
        if fact is None:  # every kind is used: one more answered question
            chosen.append(ask(len(chosen)))
            continue
        chosen.append(ExampleQuestion(fact.kind, pick(rng, fact.asks), NOT_DOCUMENTED, None))
    return shuffled(rng, chosen)


_SLOT = re.compile(r"\{[^{}]*\}")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_PERSON = re.compile(r"\b(?:Mr|Ms|Mrs)\. (\w+)")


def _pattern(template: str) -> str:
    # A slot can hold anything, but a date only a date, or too much would match.
    parts = [re.escape(text) for text in _SLOT.split(template)]
    for i, slot in enumerate(_SLOT.findall(template)):
        parts[i] += r"[\d/]{4,10}" if slot == "{date}" else ".{1,80}?"
    return "".join(parts)


@lru_cache(maxsize=1)
def _templates() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of all statements and of all questions of the evaluated templates."""
    statements = [text for t in (*singles(), *series()) for text in t.says]
    statements += [text for kind in needle_kinds() for text in kind.statements]
    questions = [text for t in singles() for text in (*t.ask_r, *t.ask_n)]
    questions += [text for t in series() for text in (*t.ask_r, *t.ask_s)]
    questions += [text for kind in needle_kinds() for text in kind.questions]
    return _any_of(statements), _any_of(questions)


def _any_of(templates: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(_pattern, dict.fromkeys(templates))), re.IGNORECASE)


def _masked(text: str) -> str:
    """``text`` in lower case with every number and person's name replaced by a placeholder."""
    return _NUMBER.sub("#", _PERSON.sub("@", text.lower()))


def shared(examples: Iterable[TrainingExample], cohorts: Iterable[Cohort] = ()) -> tuple[str, ...]:
    """Texts that training examples share with evaluation material, one line each.

    Compared with templates: statements, questions, names of needles. With each of ``cohorts``:
    sentences and questions verbatim, wordings of sentences in notes, and surnames.
    """
    statement_pattern, question_pattern = _templates()
    needles = frozenset(t.name.lower() for kind in needle_kinds() for t in kind.things)
    verbatim, wordings = set[str](), set[str]()
    questions, people = set[str](), set[str]()
    for cohort in cohorts:
        questions |= {one.question.lower() for one in cohort.instructions}
        for record in cohort.records.values():
            for sentence in sentences(record, Protocol()):
                text = " ".join(sentence.text.lower().split())
                verbatim.add(text)
                if sentence.kind == "note":
                    wordings.add(_masked(text))
                    people |= {name.lower() for name in _PERSON.findall(sentence.text)}
    texts: dict[str, None] = {}
    for example in examples:
        for line in example.lines:
            text = line.partition("] ")[2]
            low = text.lower()
            if statement_pattern.fullmatch(text) or low in verbatim or _masked(low) in wordings:
                texts[f"statement: {text}"] = None
            texts |= {f"name: {n}": None for n in needles if n in low}
            texts |= {f"person: {n}": None for n in _PERSON.findall(text) if n.lower() in people}
        for one in example.asked:
            if question_pattern.fullmatch(one.question) or one.question.lower() in questions:
                texts[f"question: {one.question}"] = None
    return tuple(texts)


def require(examples: Iterable[TrainingExample], cohorts: Iterable[Cohort] = ()) -> None:
    """Raise WorkFailed where :func:`shared` returns anything."""
    texts = shared(examples, cohorts)
    if texts:
        raise WorkFailed(
            f"training examples share {len(texts)} texts with evaluation material, the first: "
            f"{texts[0]!r}"
        )
