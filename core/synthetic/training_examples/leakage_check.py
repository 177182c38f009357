"""That lessons share nothing with what readers are examined on.

Examined are the synthetic clinical cohorts of any seed, needle runs, and whatever cohort is at
hand. Of the first two the very templates are compared, so nothing they can ever say is taught.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from core.errors import WorkFailed
from core.protocol import Protocol
from core.synthetic.library import series, singles
from core.synthetic.needles import FACTS
from core.synthetic.training_examples.model import TrainingExample
from core.text import sentences
from core.types import Cohort

_SLOT = re.compile(r"\{[^{}]*\}")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NAMED = re.compile(r"\b(?:Mr|Ms|Mrs)\. (\w+)")


def _pattern(template: str) -> str:
    # Every other slot can hold anything; a date only a date, or too much would look alike.
    parts = [part for text in _SLOT.split(template) for part in (re.escape(text), ".{1,80}?")][:-1]
    dates = [i for i, slot in enumerate(_SLOT.findall(template)) if slot == "{date}"]
    for i in dates:
        parts[2 * i + 1] = r"[\d/]{4,10}"
    return "".join(parts)


@lru_cache(maxsize=1)
def _templates() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What a statement and what a question of an examined template can be."""
    said: list[str] = []
    asked: list[str] = []
    for single in singles():
        said += single.says
        asked += (*single.ask_r, *single.ask_n)
    for again in series():
        said += again.says
        asked += (*again.ask_r, *again.ask_s)
    for fact in FACTS:
        said += fact.statements
        asked += fact.questions
    flags = re.IGNORECASE
    return (
        re.compile("|".join(map(_pattern, dict.fromkeys(said))), flags),
        re.compile("|".join(map(_pattern, dict.fromkeys(asked))), flags),
    )


def _needle_names() -> frozenset[str]:
    return frozenset(thing.name.lower() for fact in FACTS for thing in fact.things)


def _texts(lesson: TrainingExample) -> Iterator[str]:
    for line in lesson.lines:
        yield line.partition("] ")[2]


def masked(text: str) -> str:
    """``text`` with every number and every named person as a mark: its wording."""
    return _NUMBER.sub("#", _NAMED.sub("@", text.lower()))


def shared(lessons: Iterable[TrainingExample], cohorts: Iterable[Cohort] = ()) -> tuple[str, ...]:
    """What lessons and examined material have in common, one line each; empty where nothing is.

    Compared with templates: statements, questions, names of needles. With each of ``cohorts``:
    sentences and questions word for word, wordings of sentences in notes, and family names.
    """
    said, asked = _templates()
    needles = _needle_names()
    sentences_seen: set[str] = set()
    wordings: set[str] = set()
    questions: set[str] = set()
    people: set[str] = set()
    for cohort in cohorts:
        questions |= {one.question.lower() for one in cohort.instructions}
        for record in cohort.records.values():
            for sentence in sentences(record, Protocol()):
                text = " ".join(sentence.text.lower().split())
                sentences_seen.add(text)
                if sentence.kind == "note":
                    wordings.add(masked(text))
                    people |= {name.lower() for name in _NAMED.findall(sentence.text)}
    found: dict[str, None] = {}
    for lesson in lessons:
        for text in _texts(lesson):
            low = text.lower()
            if said.fullmatch(text) or low in sentences_seen or masked(low) in wordings:
                found[f"statement: {text}"] = None
            found |= {f"name: {n}": None for n in needles if n in low}
            found |= {f"person: {n}": None for n in _NAMED.findall(text) if n.lower() in people}
        for one in lesson.asked:
            if asked.fullmatch(one.question) or one.question.lower() in questions:
                found[f"question: {one.question}"] = None
    return tuple(found)


def require(lessons: Iterable[TrainingExample], cohorts: Iterable[Cohort] = ()) -> None:
    """Raise WorkFailed where :func:`shared` finds anything."""
    found = shared(lessons, cohorts)
    if found:
        raise WorkFailed(
            f"training examples share {len(found)} texts with evaluation material, the first: "
            f"{found[0]!r}"
        )
