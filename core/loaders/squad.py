"""SQuAD-shaped JSON: articles of paragraphs, questions with answers by character offset.

An article is a record and each of its paragraphs a note, in their order. A question's reference is
its first answer; its evidence is where its answers begin, exactly. A question marked
``is_impossible`` has "Not documented." for its reference and no evidence. Covers COVID-QA, RadQA,
emrQA and BioASQ as SQuAD.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.base import RecordLoader
from core.loaders.files import LoadLog, read_text, shown, unused
from core.loaders.questions import MOST_PIECES, Questions, opaque_id, task_type_of
from core.loaders.records import LazyRecords, PatientEntries, entry
from core.parsing import read_json
from core.text.prompt import NOT_DOCUMENTED
from core.types import Instruction, Record, Span

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


class _Answer(BaseModel):
    text: str
    answer_start: Annotated[int, Field(ge=0)]


class _Question(BaseModel):
    """A question as SQuAD has it; other fields are left out."""

    question: str
    id: str | int | None = None
    answers: Annotated[list[_Answer], Field(max_length=MOST_PIECES)] | None = None
    is_impossible: Any = False


def _spans(order: int, context: str, question: _Question) -> list[Span]:
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

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        """All articles and their questions."""
        articles: dict[str, tuple[list[_Paragraph], str]] = {}
        patients, numbers = PatientEntries(log), Counter[str]()
        for file in self.files(place):
            name = shown(file, root)
            with log.skipping(name):
                for number, (id, paragraphs) in enumerate(_articles(file, name), 1):
                    if not paragraphs:
                        reason = f"article {number} has no paragraph with a context — add one"
                        log.skip(name, None, reason)
                        continue
                    if id in articles:
                        id = unused(f"{id}-{number}", articles, numbers)
                    articles[id] = (paragraphs, name)
                    for order, paragraph in enumerate(paragraphs, 1):
                        text, note = str(paragraph["context"]), f"{id}-{order}"
                        patients.add(id, name, entry(None, "note", text=text, note_id=note))
        if not articles:
            raise log.nothing_read(place.name, "holds no article")
        records, questions = patients.records(by_time=False), Questions()
        for id, (paragraphs, name) in articles.items():
            _ask(records[id], paragraphs, questions, numbers, name, log)
        return records, questions


def _ask(
    record: Record,
    paragraphs: list[_Paragraph],
    questions: Questions,
    numbers: Counter[str],
    file: str,
    log: LoadLog,
) -> None:
    """Enter the questions of an article; one that cannot be used is skipped by its number.

    ``numbers``: see :func:`unused`.
    """
    for order, paragraph in enumerate(paragraphs):
        asked = paragraph.get("qas") or []
        if not isinstance(asked, list):
            where = f"paragraph {order + 1} of {record.id}"
            log.skip(file, None, f"{where} has questions that are not a list — see {_SHAPE}")
            continue
        for number, stated in enumerate(asked, 1):
            where = f"question {number} of paragraph {order + 1} of {record.id}"
            try:
                question = _Question.model_validate(stated)
                spans = _spans(order, str(paragraph["context"]), question)
            except ValueError as error:
                reason = str(error) if type(error) is ValueError else "no question or answers"
                log.skip(file, None, f"{where} has {reason} — see {_SHAPE}")
                continue
            text = question.question.strip()
            name = str(question.id or opaque_id(f"{record.id}-{order}", text))
            if name in questions.located:
                name = unused(f"{name}-{number}", questions.located, numbers)
            if not spans and question.is_impossible is not True:
                log.skip(file, None, f"{where} has no answer — see {_SHAPE}")
                continue
            answer = str(paragraph["context"])[spans[0].start : spans[0].end] if spans else ""
            instruction = Instruction(name, record.id, text, task_type=task_type_of(text))
            questions.locate(instruction, record, answer.strip() or NOT_DOCUMENTED, spans, True)
