"""Questions that people keep with a cohort, and the evidence that annotators mark.

``midchart.questions`` in the cohort's folder is an append-only JSON Lines file, one action a
line: ``question`` (asked or reworded), ``answer``, ``evidence``, ``withdrawn``. The latest line of
an annotator counts. A kept question is an instruction of the cohort like any other: runs, pages
and exports read it, and what one of them marks as evidence is its gold.

``midchart.question_sets`` is another: questions for every patient of the cohort. A line ``set``
saves some, ``withdrawn`` takes them out of the list. A set becomes part of a cohort only in a run
that asks it (:func:`asked_of_all`), so saving one changes no other run.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from midchart.core.cohorts.gold import LazyGold, sources_of
from midchart.core.cohorts.records import GoldSource, task_type_of, typed_instruction
from midchart.core.cohorts.tables import accept_long_cells
from midchart.core.errors import DataError, InputError
from midchart.core.parsing import read_json
from midchart.core.storage.jsonl import read_lines
from midchart.core.text.prompt import NOT_DOCUMENTED
from midchart.core.types import Cohort, Instruction, Span

Record = TypeVar("Record")
QUESTIONS_FILE = "midchart.questions"
DOMAIN = "Own questions"
"""Domain of the instructions that people keep with a cohort."""
LONGEST_QUESTION = 2_000
LONGEST_ANSWER = 10_000
MOST_SPANS = 500


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotator's answer to a question, or that the chart does not hold one (``documented``
    False), and the marked evidence with its text."""

    answer: str = ""
    documented: bool = True
    spans: tuple[Span, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptQuestion:
    """A question that people keep with a cohort. ``annotations``: annotator → what they say, in
    the order in which they first did; the first one's answer is the reference."""

    id: str
    record: str
    question: str
    by: str
    time: str
    annotations: Mapping[str, Annotation] = field(default_factory=dict[str, Annotation])

    def source(self, line: int) -> GoldSource | None:
        """Gold of the question: the first answer, the evidence of all annotators united."""
        annotations = list(self.annotations.values())
        if any(not annotation.documented for annotation in annotations[:1]):
            return GoldSource(self.record, NOT_DOCUMENTED, (), QUESTIONS_FILE, line)
        answer = next((annotation.answer for annotation in annotations if annotation.answer), "")
        marked = {
            span: text
            for annotation in annotations
            for span, text in zip(annotation.spans, annotation.texts, strict=True)
        }
        if not answer and not marked:
            return None
        texts, spans = tuple(marked.values()), tuple(marked)
        place = (QUESTIONS_FILE, line)
        return GoldSource(self.record, answer, texts, *place, spans, bool(spans), True)


def kept_questions(folder: Path) -> dict[str, KeptQuestion]:
    """The questions kept in a cohort's folder, by id, withdrawn ones left out.

    Lines that no version of Midchart writes are passed over. Raises DataError where the file
    cannot be read.
    """
    return _replayed(folder / QUESTIONS_FILE, _apply_question)


def _replayed(
    file: Path, apply: Callable[[dict[str, Record], Mapping[str, Any]], None]
) -> dict[str, Record]:
    """The records, by id, after ``apply`` of every line of an append-only file.

    A line that ``apply`` refuses is another version's and is passed over. Raises DataError where
    the file cannot be read.
    """
    records: dict[str, Record] = {}
    for line in read_lines(file):
        with suppress(KeyError, TypeError, ValueError, OverflowError, InputError):
            apply(records, line)
    return records


def _apply_question(questions: dict[str, KeptQuestion], line: Mapping[str, Any]) -> None:
    action, id, by = str(line["action"]), str(line["id"]), str(line["by"])
    if action == "withdrawn":
        questions.pop(id, None)
        return
    if action == "question":
        record, question, time = (str(line[name]) for name in ("record", "question", "time"))
        first = questions.setdefault(id, KeptQuestion(id, record, question, by, time))
        questions[id] = dataclasses.replace(first, question=question)
        return
    known = questions[id]
    if action == "answer":
        stated = {"answer": str(line["answer"]), "documented": bool(line["documented"])}
    elif action == "evidence":
        spans = tuple(Span(*map(int, span)) for span in line["spans"])
        stated = {"spans": spans, "texts": tuple(map(str, line["texts"]))}
    else:
        return
    after = dataclasses.replace(known.annotations.get(by, Annotation()), **stated)
    questions[id] = dataclasses.replace(known, annotations={**known.annotations, by: after})


def with_kept_questions(cohort: Cohort, folder: Path) -> Cohort:
    """A cohort with the questions that people kept in its folder, after those of its files."""
    known = {instruction.id for instruction in cohort.instructions}
    questions = [
        one
        for one in kept_questions(folder).values()
        if one.record in cohort.records and one.id not in known
    ]
    if not questions or not isinstance(cohort.gold, LazyGold):
        return cohort
    instructions = [
        Instruction(
            one.id, one.record, one.question, domain=DOMAIN, task_type=task_type_of(one.question)
        )
        for one in questions
    ]
    sources = {one.id: one.source(line) for line, one in enumerate(questions, 1)}
    gold = cohort.gold.joined({id: source for id, source in sources.items() if source})
    return dataclasses.replace(
        cohort, instructions=(*cohort.instructions, *instructions), gold=gold
    )


# Question sets.


SETS_FILE = "midchart.question_sets"
MOST_QUESTIONS = 500
_LONGEST_FILE = 1 << 20
"""Bytes of a file of questions."""
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions that are asked of every patient of a cohort, in their order."""

    id: str
    name: str
    questions: tuple[str, ...]
    by: str
    time: str


def question_sets(folder: Path) -> dict[str, QuestionSet]:
    """The sets saved in a cohort's folder, by id, withdrawn ones left out.

    Lines that no version of Midchart writes are passed over. Raises DataError where the file
    cannot be read.
    """
    return _replayed(folder / SETS_FILE, _apply_set)


def _apply_set(sets: dict[str, QuestionSet], line: Mapping[str, Any]) -> None:
    id = str(line["id"])
    if line["action"] == "withdrawn":
        sets.pop(id, None)
    elif line["action"] == "set":
        questions = checked_questions([str(one) for one in line["questions"]])
        name, by, time = (str(line[key]) for key in ("name", "by", "time"))
        sets[id] = QuestionSet(id, name[:LONGEST_NAME], questions, by, time)


def checked_questions(questions: Sequence[str]) -> tuple[str, ...]:
    """Questions with white space normalised; raises InputError for none, too many, an empty or too
    long one, or one that is there twice."""
    if not 1 <= len(questions) <= MOST_QUESTIONS:
        raise InputError(
            f"a question set has 1 to {MOST_QUESTIONS} questions; this one has {len(questions)}"
        )
    checked: dict[str, int] = {}
    for number, question in enumerate(questions, 1):
        text = " ".join(question.split())
        if not text or len(text) > LONGEST_QUESTION:
            raise InputError(
                f"question {number} has {len(text):,} characters; it may have 1 to "
                f"{LONGEST_QUESTION:,}"
            )
        if text in checked:
            raise InputError(
                f"question {number} is the same as question {checked[text]}; remove one of them"
            )
        checked[text] = number
    return tuple(checked)


def read_questions(content: bytes | str) -> tuple[str, ...]:
    """The questions of a file: JSON, a table with a column ``question``, or one a line.

    JSON is a list of questions, or of objects with a field ``question``, or an object whose field
    ``questions`` is such a list. A table is separated by tabs or commas. Of other text every line
    is a question, blank lines and those that begin with ``#`` left out. Raises InputError.
    """
    if len(content) > _LONGEST_FILE:
        raise InputError(f"a file of questions has at most {_LONGEST_FILE >> 20} MiB")
    if isinstance(content, bytes):
        try:
            content = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"the file is not UTF-8 text (byte {error.start}); save it as UTF-8"
            ) from None
    text = content.strip()
    if text[:1] in ("[", "{"):
        return checked_questions(_of_json(text))
    accept_long_cells()
    lines = text.splitlines()
    try:
        for separator in "\t,":
            rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
            names = {name.strip().lower(): name for name in rows.fieldnames or ()}
            if "question" in names and (len(names) > 1 or len(lines) > 1):
                filled = [row for row in rows if any(row.values())]
                return checked_questions([row[names["question"]] or "" for row in filled])
    except csv.Error as error:
        raise InputError(f"the table of questions cannot be read ({error})") from None
    return checked_questions([line for line in lines if line.strip() and line.strip()[0] != "#"])


def _of_json(text: str) -> list[str]:
    try:
        value = read_json(text, "the questions")
    except DataError:
        raise InputError("the questions are not valid JSON; write a list of texts") from None
    stated = value.get("questions") if isinstance(value, dict) else value
    if not isinstance(stated, list):
        raise InputError("the JSON has no list of questions; write a list of texts")
    questions: list[str] = []
    for number, one in enumerate(stated, 1):
        question = one.get("question") if isinstance(one, dict) else one
        if not isinstance(question, str):
            raise InputError(f"question {number} of the JSON is no text")
        questions.append(question)
    return questions


def asked_of_all(cohort: Cohort, questions: Sequence[str]) -> Cohort:
    """A cohort whose instructions are these questions, each for every record.

    Where a record has the same question already, a person's or a file's, its gold is the gold.
    """
    instructions = [
        typed_instruction(record, question) for record in cohort.records for question in questions
    ]
    ids = {(one.record_id, one.question): one.id for one in instructions}
    sources = sources_of(cohort.gold)
    known = {
        id: sources[one.id]
        for one in cohort.instructions
        if one.id in sources and (id := ids.get((one.record_id, " ".join(one.question.split()))))
    }
    gold = cohort.gold.joined(known) if isinstance(cohort.gold, LazyGold) else cohort.gold
    return dataclasses.replace(cohort, instructions=tuple(instructions), gold=gold)
