"""SQuAD-shaped JSON: articles of paragraphs, questions with answers by character offset.

An article is a record and each of its paragraphs a note, in their order. A question's reference is
its first answer; its evidence is where its answers begin, exactly. A question marked
``is_impossible`` has "Not documented." for its reference and no evidence. Covers COVID-QA, RadQA,
emrQA and BioASQ as SQuAD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.files import read_text
from midchart.core.cohorts.records import MOST_PIECES, PatientEntries, Questions, entry, opaque_id
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.parsing import read_json
from midchart.core.text.prompt import NOT_DOCUMENTED
from midchart.core.types import Span

SHIFT = 32
"""Characters that an answer may be away from its offset."""
_SHAPE = "data[].paragraphs[].{context, qas[].{question, answers[].{text, answer_start}}}"

_Paragraph = Mapping[str, Any]


def _articles(path: Path, name: str) -> Iterator[tuple[str, list[_Paragraph]]]:
    """Record id and paragraphs of each article; raises DataError."""
    held = read_json(read_text(path, name), name, remedy="download it again")
    data = held.get("data") if isinstance(held, dict) else None
    if not isinstance(data, list):
        raise DataError(name, None, "holds no list of articles", f"it needs {_SHAPE}")
    for number, article in enumerate(data, 1):
        stated = article.get("paragraphs") if isinstance(article, dict) else None
        paragraphs: list[_Paragraph] = [
            p
            for p in (stated if isinstance(stated, list) else ())
            if isinstance(p, dict) and isinstance(p.get("context"), str)
        ]
        first = paragraphs[0] if paragraphs else {}
        title = (article.get("title") if isinstance(article, dict) else "") or first.get(
            "document_id"
        )
        yield str(title or f"{path.stem}-{number}").replace("/", "-")[:120], paragraphs


class _SquadAnswer(BaseModel):
    text: str
    answer_start: Annotated[int, Field(ge=0)]


class _SquadQuestion(BaseModel):
    """A question as SQuAD has it; other fields are left out."""

    question: str
    id: str | int | None = None
    answers: Annotated[list[_SquadAnswer], Field(max_length=MOST_PIECES)] | None = None
    is_impossible: Any = False


def _spans(order: int, context: str, question: _SquadQuestion) -> list[Span]:
    """The answers' spans; raises ValueError where one is not at its offset.

    Blanks around an answer are left out. The answer may be up to :data:`SHIFT` characters from
    its offset, as it is where line ends or blanks were counted otherwise (COVID-QA); of several
    places the nearest is taken.
    """
    spans: list[Span] = []
    for answer in question.answers or ():
        answered, start = answer.text.strip(), answer.answer_start
        first = max(0, start - SHIFT)
        window = context[first : start + SHIFT + len(answered)]
        starts = [first + m.start() for m in re.finditer(f"(?={re.escape(answered)})", window)]
        if not starts or not answered:
            raise ValueError("an answer that is not at its offset")
        begin = min(starts, key=lambda at: abs(at - start))
        spans.append(Span(order, begin, begin + len(answered)))
    return list(dict.fromkeys(spans))


@LOADERS.register("squad")
class Squad(RecordLoader):
    """SQuAD-shaped question answering over articles or notes."""

    name = "squad"
    title = "SQuAD-shaped JSON (paragraphs, questions, answers by offset)"
    source = "SQuAD-shaped question answering"
    suffix, marks = ".json", (b'"paragraphs"', b'"data"')
    by_time, unit = False, "article"

    def read_file(
        self, file: Path, name: str, patients: PatientEntries, questions: Questions
    ) -> None:
        """All articles and their questions."""
        for number, (id, paragraphs) in enumerate(_articles(file, name), 1):
            if not paragraphs:
                reason = f"article {number} has no paragraph with a context — add one"
                patients.log.skip(name, None, reason)
                continue
            if id in patients.entries:
                id = patients.unused(f"{id}-{number}", patients.entries)
            for order, paragraph in enumerate(paragraphs):
                text, note = str(paragraph["context"]), f"{id}-{order + 1}"
                patients.add(id, name, entry(None, "note", text=text, note_id=note))
                asked = paragraph.get("qas") or []
                _ask(id, order, text, asked, name, patients, questions)


def _ask(
    record: str,
    order: int,
    context: str,
    asked: Any,
    file: str,
    patients: PatientEntries,
    questions: Questions,
) -> None:
    """Enter the questions of a paragraph; one that cannot be used is skipped by its number."""
    skip, paragraph = patients.log.skip, f"paragraph {order + 1} of {record}"
    if not isinstance(asked, list):
        skip(file, None, f"{paragraph} has questions that are not a list — see {_SHAPE}")
        return
    for number, stated in enumerate(asked, 1):
        where = f"question {number} of {paragraph}"
        try:
            question = _SquadQuestion.model_validate(stated)
            spans = _spans(order, context, question)
        except ValueError as error:
            reason = str(error) if type(error) is ValueError else "no question or answers"
            skip(file, None, f"{where} has {reason} — see {_SHAPE}")
            continue
        if not spans and question.is_impossible is not True:
            skip(file, None, f"{where} has no answer — see {_SHAPE}")
            continue
        name = str(question.id or opaque_id(f"{record}-{order}", question.question.strip()))
        if name in questions.records:
            name = patients.unused(f"{name}-{number}", questions.records)
        answer = context[spans[0].start : spans[0].end].strip() if spans else ""
        questions.ask(name, record, question.question, (answer or NOT_DOCUMENTED, spans, True))
