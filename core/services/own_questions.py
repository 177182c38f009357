"""User questions: asked, reworded, answered, their evidence marked, compared, exported."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import InputError, UnknownName
from core.identity import person
from core.loaders.kept_questions import (
    LONGEST_ANSWER,
    LONGEST_QUESTION,
    MOST_SPANS,
    QUESTIONS_FILE,
    KeptQuestion,
    kept_questions,
)
from core.loaders.open import cohort_folder
from core.protocol import Protocol
from core.provenance import now
from core.results.reviews import reviewer_name, take_code
from core.services.cohorts import open_data
from core.stats.agreement import ac1_of, kappa_of, positive_of, raw_of
from core.storage.csv import inert
from core.storage.jsonl import add_line
from core.text import event_text, sentences
from core.text.prompt import NOT_DOCUMENTED
from core.types import Span


def folder_of(data: str | Path) -> Path:
    """The folder of a cohort, by path or name."""
    return cohort_folder(open_data(data).path)


def add_action(file: Path, action: str, id: str, by: str, **content: Any) -> None:
    """Append what a person did to a file of questions; ``by``: as in :func:`annotator`."""
    line = {"action": action, "id": id, "by": annotator(by), "time": now(), **content}
    add_line(file, line, durable=True)


def _add(data: str | Path, action: str, id: str, by: str, **content: Any) -> None:
    add_action(folder_of(data) / QUESTIONS_FILE, action, id, by, **content)


def annotator(by: str) -> str:
    """The annotator's code ``by``, which becomes the acting person's if it is free, else the
    person's name; raises NotPermitted for another's code."""
    if not by:
        return person().name
    code = reviewer_name(by)
    take_code(code)
    return code


def own_questions(data: str | Path) -> list[KeptQuestion]:
    """The questions that people keep with a cohort, oldest first. Raises InputErrors."""
    return list(kept_questions(folder_of(data)).values())


def own_question(data: str | Path, id: str) -> KeptQuestion:
    """One kept question by its id; raises UnknownName."""
    questions = kept_questions(folder_of(data))
    if id not in questions:
        raise UnknownName("question", id, questions)
    return questions[id]


def keep_question(data: str | Path, record: str, question: str, by: str = "", id: str = "") -> str:
    """Keep a question about a record, or reword the kept question ``id``; gives its id.

    ``by``: the annotator's code (default: the account). Raises InputError for an empty or too long
    question, UnknownName for an unknown record or id.
    """
    text = " ".join(question.split())
    if not text or len(text) > LONGEST_QUESTION:
        raise InputError(
            f"a question has 1 to {LONGEST_QUESTION:,} characters; this one has {len(text):,}"
        )
    cohort = open_data(data)
    record = cohort.records[record].id
    if id:
        own_question(data, id)
    same = [i for i in cohort.instructions if i.record_id == record and i.question == text]
    if same and same[0].id != id:
        raise InputError(f"the record has this question already ({same[0].id})")
    id = id or f"own-{secrets.token_hex(6)}"
    _add(data, "question", id, by, record=record, question=text)
    return id


def withdraw_question(data: str | Path, id: str, by: str = "") -> None:
    """Take a kept question out of the cohort; its lines stay in the file. Raises UnknownName."""
    own_question(data, id)
    _add(data, "withdrawn", id, by)


def answer_question(
    data: str | Path, id: str, answer: str, documented: bool = True, by: str = ""
) -> None:
    """Write an annotator's reference answer, or that the chart does not document one.

    Raises UnknownName, and InputError for an answer of more than 10,000 characters.
    """
    own_question(data, id)
    answer = answer.strip() if documented else ""
    if len(answer) > LONGEST_ANSWER:
        raise InputError(
            f"an answer has at most {LONGEST_ANSWER:,} characters; this one has {len(answer):,}"
        )
    _add(data, "answer", id, by, answer=answer, documented=documented)


def mark_evidence(
    data: str | Path, id: str, spans: Sequence[Span | tuple[int, int, int]], by: str = ""
) -> None:
    """Write all spans that an annotator marks as a question's evidence; none takes them back.

    A span is (event, first character, character after the last) of an event's text. Raises
    UnknownName, and InputError for a span outside its event or too many spans.
    """
    question = own_question(data, id)
    events = open_data(data).records[question.record].events
    marked: dict[tuple[int, int, int], str] = {}
    for span in spans:
        event, start, end = (
            (span.event, span.start, span.end) if isinstance(span, Span) else map(int, span)
        )
        text = event_text(events[event]) if 0 <= event < len(events) else ""
        if not 0 <= start < end <= len(text):
            raise InputError(f"there is no text at {event}:{start}-{end} of this record")
        marked[event, start, end] = text[start:end]
    if len(marked) > MOST_SPANS:
        raise InputError(f"at most {MOST_SPANS} passages are marked; these are {len(marked)}")
    ordered = sorted(marked)
    texts = [marked[span] for span in ordered]
    _add(data, "evidence", id, by, spans=[list(span) for span in ordered], texts=texts)


def marking_agreement(data: str | Path, protocol: Protocol | None = None) -> list[dict[str, Any]]:
    """How far each two annotators mark the same sentences: a row a question and pair, the one
    with the most disagreements first.

    ``question``, ``id``, ``record``, ``first``, ``second``; ``both``, ``only_first``,
    ``only_second``, ``neither`` in sentences; raw agreement, Cohen's kappa, Gwet's AC1 and positive
    agreement (null where not defined); ``disagreements``: sentence ids that one of them marked.
    """
    cohort = open_data(data)
    rows: list[dict[str, Any]] = []
    for question in own_questions(data):
        marked = {
            by: annotation.spans
            for by, annotation in question.annotations.items()
            if annotation.spans or not annotation.documented
        }
        if len(marked) < 2:
            continue
        units = sentences(cohort.records[question.record], protocol or Protocol())
        chosen = {
            by: {u.id for u in units if any(u.span.overlaps(span) for span in spans)}
            for by, spans in marked.items()
        }
        for first, second in combinations(chosen, 2):
            both = len(chosen[first] & chosen[second])
            only = (len(chosen[first] - chosen[second]), len(chosen[second] - chosen[first]))
            neither = len(units) - both - sum(only)
            rows.append(
                {
                    "id": question.id,
                    "record": question.record,
                    "question": question.question,
                    "first": first,
                    "second": second,
                    "both": both,
                    "only_first": only[0],
                    "only_second": only[1],
                    "neither": neither,
                    **_measures([[both, only[0]], [only[1], neither]]),
                    "disagreements": [
                        unit.id for unit in units if unit.id in chosen[first] ^ chosen[second]
                    ],
                }
            )
    return sorted(rows, key=lambda row: -len(row["disagreements"]))


def _measures(table: list[list[int]]) -> dict[str, float | None]:
    measures = {"raw": raw_of, "kappa": kappa_of, "ac1": ac1_of, "positive": positive_of}
    values = {name: float(measure(table)) for name, measure in measures.items()}
    return {name: None if np.isnan(value) else value for name, value in values.items()}


def _number(cell: str) -> Any:
    """A whole number as such (a negative patient id is no formula), any other text inert."""
    return int(cell) if cell.removeprefix("-").isdecimal() and len(cell) < 20 else inert(cell)


COLUMNS = (
    *("filename", "question", "evidence", "clinician_response", "instruction_id", "person_id"),
    *("annotator_num", "evidence_spans"),
)


def questions_table(data: str | Path) -> str:
    """The kept questions as a table in MedAlign's columns (tab-separated), a row an annotator.

    Loads without changes: in the folder of the same records, or in another program that reads
    MedAlign.
    """
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t", lineterminator="\n")
    table.writerow(COLUMNS)
    for question in own_questions(data):
        for number, annotation in enumerate(question.annotations.values(), 1):
            response = annotation.answer if annotation.documented else NOT_DOCUMENTED
            spans = (f"{s.event}:{s.start}-{s.end}" for s in annotation.spans)
            cells = (
                *(question.record, question.question, "|||".join(annotation.texts), response),
                *(question.id, question.record, f"Annotator_{number}", "|||".join(spans)),
            )
            table.writerow([_number(cell) for cell in cells])
    return text.getvalue()
