"""Questions of users: asked, answered, evidence marked; sets of them, asked of every patient."""

from __future__ import annotations

import csv
import io
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from midchart.core.access import CohortName, CohortRef, Entries, RunRef, needs
from midchart.core.cohorts.gold import gold_under
from midchart.core.cohorts.kept_questions import (
    LONGEST_ANSWER,
    LONGEST_NAME,
    LONGEST_QUESTION,
    MOST_SPANS,
    QUESTIONS_FILE,
    SETS_FILE,
    KeptQuestion,
    QuestionSet,
    asked_of_all,
    checked_questions,
    kept_questions,
)
from midchart.core.cohorts.kept_questions import question_sets as sets_in
from midchart.core.errors import InputError, UnknownName
from midchart.core.format import finite, sheet_cell, write_sheet
from midchart.core.identity import person
from midchart.core.loaders.open import opened
from midchart.core.protocol import Protocol
from midchart.core.provenance import now
from midchart.core.results.items import CUT, PARTLY_DROPPED
from midchart.core.results.reviews import require_author, reviewer_name, take_code
from midchart.core.runs.directory import find_run
from midchart.core.runs.plan import Plan
from midchart.core.services.cohorts import open_data
from midchart.core.stats.agreement import ac1_of, kappa_of, positive_of, raw_of
from midchart.core.storage.jsonl import add_line
from midchart.core.storage.rows import literal
from midchart.core.text import event_text, one_line, sentences
from midchart.core.text.evidence import evidence_parts
from midchart.core.text.prompt import NOT_DOCUMENTED, is_heading, without_date
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Cohort, Instruction, Span


def _folder_of(data: str | Path) -> Path:
    """The folder of a cohort, by path or name."""
    return opened(open_data(data).path)[1]


def _add(
    data: str | Path, action: str, id: str, by: str, file_name: str = QUESTIONS_FILE, **content: Any
) -> None:
    """Append what a person did to a file of questions of a cohort. ``by``: the annotator's code,
    which becomes the acting person's if it is free, else the person's name; raises NotPermitted for
    another's code, by the file too."""
    file = _folder_of(data) / file_name
    code = reviewer_name(by) if by else person().name
    if by:
        take_code(code, file)
    line = {"action": action, "id": id, "by": code, "time": now(), **content}
    add_line(file, line, durable=True)


@needs("viewer")
def own_questions(data: CohortRef) -> list[KeptQuestion]:
    """The questions that people keep with a cohort, oldest first. Raises InputErrors."""
    return list(kept_questions(_folder_of(data)).values())


@needs("viewer")
def own_question(data: CohortRef, id: str) -> KeptQuestion:
    """One kept question by its id; raises UnknownName."""
    questions = kept_questions(_folder_of(data))
    if id not in questions:
        raise UnknownName("question", id, questions)
    return questions[id]


@needs("reviewer")
def keep_question(data: CohortRef, record: str, question: str, by: str = "", id: str = "") -> str:
    """Keep a question about a record, or reword the kept question ``id``; gives its id.

    ``by``: the annotator's code (default: the account). Raises InputError for an empty or too long
    question, UnknownName for an unknown record or id, NotPermitted where the question to reword is
    another person's.
    """
    text = " ".join(question.split())
    if not text or len(text) > LONGEST_QUESTION:
        raise InputError(
            f"a question has 1 to {LONGEST_QUESTION:,} characters; this one has {len(text):,}"
        )
    cohort = open_data(data)
    record = cohort.records[record].id
    if id:
        require_author(own_question(data, id).by, f"the question {id}")
    same = [i for i in cohort.instructions if i.record_id == record and i.question == text]
    if same and same[0].id != id:
        raise InputError(f"the record has this question already ({same[0].id})")
    id = id or f"own-{secrets.token_hex(6)}"
    _add(data, "question", id, by, record=record, question=text)
    return id


@needs("reviewer")
def withdraw_question(data: CohortRef, id: str, by: str = "") -> None:
    """Take a kept question out of the cohort; its lines stay in the file. Raises UnknownName, and
    NotPermitted where it is another person's."""
    require_author(own_question(data, id).by, f"the question {id}")
    _add(data, "withdrawn", id, by)


@needs("reviewer")
def answer_question(
    data: CohortRef, id: str, answer: str, documented: bool = True, by: str = ""
) -> None:
    """Write an annotator's reference answer, or that the chart does not document one. Raises
    UnknownName, and InputError for an answer of more than 10,000 characters."""
    own_question(data, id)
    answer = answer.strip() if documented else ""
    if len(answer) > LONGEST_ANSWER:
        raise InputError(
            f"an answer has at most {LONGEST_ANSWER:,} characters; this one has {len(answer):,}"
        )
    _add(data, "answer", id, by, answer=answer, documented=documented)


@needs("reviewer")
def mark_evidence(
    data: CohortRef, id: str, spans: Sequence[Span | tuple[int, int, int]], by: str = ""
) -> None:
    """Write all spans that an annotator marks as a question's evidence; none takes them back. A
    span is (event, first character, character after the last) of an event's text. Raises
    UnknownName, and InputError for a span outside its event or too many spans."""
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


@needs("viewer")
def marking_agreement(data: CohortRef, protocol: Protocol | None = None) -> list[dict[str, Any]]:
    """How far each two annotators mark the same sentences: a row a question and pair, the one
    with the most disagreements first.

    ``question``, ``id``, ``record``, ``first``, ``second``; ``both``, ``only_first``,
    ``only_second``, ``neither`` in sentences; raw agreement, Cohen's kappa, Gwet's AC1 and positive
    agreement (null where not defined); ``disagreements``: sentence ids that one of them marked.
    """
    cohort = open_data(data)
    rows: list[dict[str, Any]] = []
    for question in own_questions(data):
        units = sentences(cohort.records[question.record], protocol or Protocol())
        marked = {
            by: {u.id for u in units if any(u.span.overlaps(span) for span in one.spans)}
            for by, one in question.annotations.items()
            if one.spans or not one.documented
        }
        for (first, one), (second, other) in combinations(marked.items(), 2):
            both, only, others = len(one & other), len(one - other), len(other - one)
            table = np.array([[both, only], [others, len(units) - both - only - others]])
            rows.append(
                {
                    "id": question.id,
                    "record": question.record,
                    "question": question.question,
                    "first": first,
                    "second": second,
                    **dict(zip(CELLS, table.ravel().tolist(), strict=True)),
                    **{name: finite(float(of(table))) for name, of in _MEASURES.items()},
                    "disagreements": [unit.id for unit in units if unit.id in one ^ other],
                }
            )
    return sorted(rows, key=lambda row: -len(row["disagreements"]))


CELLS = ("both", "only_first", "only_second", "neither")
_MEASURES = {"raw": raw_of, "kappa": kappa_of, "ac1": ac1_of, "positive": positive_of}


def _number(cell: str) -> Any:
    """A whole number as such (a negative patient id is no formula), any other text inert."""
    return int(cell) if cell.removeprefix("-").isdecimal() and len(cell) < 20 else sheet_cell(cell)


_QUESTION_COLUMNS = (
    *("filename", "question", "evidence", "clinician_response", "instruction_id", "person_id"),
    *("annotator_num", "evidence_spans"),
)


@needs("viewer")
def questions_table(data: CohortRef) -> str:
    """The kept questions as a table in MedAlign's columns (tab-separated), a row an annotator.
    Loads without changes: in the folder of the same records, or in another program that reads
    MedAlign."""
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t", lineterminator="\n")
    table.writerow(_QUESTION_COLUMNS)
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


_ANSWERED, _HEADING, _ABSTAINED, _FAILED, _MISSING = (
    "answered", "heading alone", "found no answer", "failed", "not asked yet"
)  # fmt: skip
"""States of a cell of the table patients × questions: what the reader made of the sentences that
it got. That it found no answer does not say that the chart has none."""
MOST_RANKED = 3
"""Best-ranked sentences of a cell."""
_DROPPED, _IN_PROMPT = "dropped", "in the prompt"


@needs("viewer")
def question_sets(data: CohortRef) -> list[QuestionSet]:
    """The question sets saved with a cohort, oldest first. Raises InputErrors."""
    return list(sets_in(_folder_of(data)).values())


@needs("reviewer")
def save_question_set(data: CohortRef, name: str, questions: Sequence[str], by: str = "") -> str:
    """Save a question set with a cohort; gives its id.

    ``by``: a code of who saves it (default: the account). Raises InputError for an empty or too
    long name or one that is there, and as
    :func:`midchart.core.cohorts.kept_questions.checked_questions`.
    """
    title = " ".join(name.split())
    if not 1 <= len(title) <= LONGEST_NAME or not title.isprintable():
        raise InputError(f"the name of a question set has 1 to {LONGEST_NAME} printable characters")
    if any(one.name == title for one in sets_in(_folder_of(data)).values()):
        raise InputError("the cohort has a question set of this name; choose another name")
    id = f"set-{secrets.token_hex(6)}"
    checked = checked_questions(questions)
    _add(data, "set", id, by, SETS_FILE, name=title, questions=checked)
    return id


@needs("reviewer")
def withdraw_question_set(data: CohortRef, id: str, by: str = "") -> None:
    """Take a question set out of the list; its lines and its runs stay. Raises UnknownName, and
    NotPermitted where it is another person's."""
    known = sets_in(_folder_of(data))
    if id not in known:
        raise UnknownName("question set", id, known)
    require_author(known[id].by, f"the question set {id}")
    _add(data, "withdrawn", id, by, SETS_FILE)


@needs("viewer", paths=("data",))
def question_set_spec(
    data: CohortName,
    name: str,
    questions: Sequence[str],
    arms: Entries[Sequence[str]],
    reader: Entries[str],
) -> dict[str, Any]:
    """The spec of a run that asks these questions of every patient of a cohort, unjudged."""
    return {
        "name": name,
        "kind": "answers",
        "data": str(data),
        "arms": list(arms),
        "readers": [reader],
        "questions": list(questions),
    }


@needs("viewer")
def asked_questions(run: RunRef) -> tuple[str, ...]:
    """The question set that a run asks of every patient; none in a run of other questions. Raises
    UnknownName."""
    return _questions(find_run(run).plan())


def _questions(plan: Plan) -> tuple[str, ...]:
    return tuple(plan.options.get("questions") or ())


@needs("viewer")
def run_entries(run: RunRef) -> dict[str, list[str]]:
    """The ``labels`` of a run's arm entries and its ``readers``; raises UnknownName."""
    plan = find_run(run).plan()
    return {"labels": [entry.label for entry in plan.arms], "readers": list(plan.readers)}


@needs("viewer")
def answer_cells(run: RunRef, label: str = "", reader: str = "") -> list[dict[str, Any]]:
    """The table patients × questions of a run, a row a cell, by patient and then by question, of
    one arm entry ``label`` and ``reader`` (default: the run's first).

    ``answer`` is null unless answered; ``event`` of the quoted sentence; ``evidence``: null where
    none is marked, else in the prompt, cut from it, partly dropped or dropped; ``ranked``: ids of
    the sentences that the arm ranked best, ``source``: of the one that the reader quotes, ``got``:
    how many sentences it got. Raises UnknownName, and InputError for a run that asks no question
    set.
    """
    folder = find_run(run)
    plan = folder.plan()
    questions = _questions(plan)
    if not questions:
        raise InputError(f"run {run} asks no question set; its answers are on page Arms")
    labels, readers = run_entries(run).values()
    label, reader = label or labels[0], reader or readers[0]
    for what, name, known in (("arm", label, labels), ("reader", reader, readers)):
        if name not in known:
            raise UnknownName(f"{what} of the run", name, known)
    cohort = asked_of_all(open_data(folder.cohort_path()), questions)
    cohort = gold_under(cohort, plan.protocol)
    where = f"label = {literal(label)} AND reader = {literal(reader)}"
    columns = "instruction, status, reason, answer, selection, sources, cut"
    rows = folder.store(plan).select("answers", columns, where)
    by_id = {row["instruction"]: row for row in rows}
    cells: list[dict[str, Any]] = []
    for i, one in enumerate(cohort.instructions):
        row = by_id.get(one.id) or dict.fromkeys(columns.split(", "))
        selection: list[dict[str, Any]] = row["selection"] or []
        state, source = _state(row), (row["sources"] or [None])[0]
        answered = state == _ANSWERED
        scored = [x for x in selection if x["score"] is not None and x["kept_by"] != "recency"]
        scored.sort(key=lambda x: (x["score"], x["id"]), reverse=True)
        event = next((x["event"] for x in selection if x["id"] == source), None)
        got = len(selection) - len(row["cut"] or ())
        cells.append(
            {
                "record": one.record_id,
                "question": i % len(questions),
                "state": state,
                "answer": row["answer"] if answered else None,
                "reason": row["reason"],
                "event": event if answered else None,
                "evidence": _evidence(cohort, one, row, plan.protocol),
                "source": source,
                "got": None if row["selection"] is None else got,
                "ranked": [x["id"] for x in scored],
            }
        )
    return cells


def _evidence(
    cohort: Cohort, one: Instruction, row: Mapping[str, Any], protocol: Protocol
) -> str | None:
    """Where the evidence of a question is; None where none is marked or nothing was selected."""
    gold = cohort.gold.get(one.id)
    if row["selection"] is None or gold is None or not gold.spans:
        return None
    needed = evidence_parts(sentences(cohort.records[one.record_id], protocol), gold.spans).keys()
    selected = needed & {x["id"] for x in row["selection"]}
    if selected != needed or not needed:
        return PARTLY_DROPPED if selected else _DROPPED
    return CUT if needed & set(row["cut"] or ()) else _IN_PROMPT


@needs("viewer")
def chart_sentences(run: RunRef, cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the charts say, for ``cells`` of :func:`answer_cells`, in their order: the sentences
    ranked best (``sentences``: each with ``id``, ``event``, ``day`` and ``text``; no heading) and
    how many sentences the chart has (``of``). Raises UnknownName."""
    folder = find_run(run)
    protocol, cohort = folder.plan().protocol, open_data(folder.cohort_path())
    by_record = {
        id: {unit.id: unit for unit in sentences(cohort.records[id], protocol)}
        for id in dict.fromkeys(cell["record"] for cell in cells)
    }
    rows: list[dict[str, Any]] = []
    for cell in cells:
        units = by_record[cell["record"]]
        ranked = [units[id] for id in cell["ranked"] if id in units]
        shown = [
            {
                "id": unit.id,
                "event": unit.span.event,
                "day": f"{unit.time:%Y-%m-%d}" if unit.time else "undated",
                "text": one_line(unit.text),
            }
            for unit in ranked
            if not is_heading(unit.text)
        ]
        rows.append({"of": len(units), "sentences": shown[:MOST_RANKED]})
    return rows


def _state(row: Mapping[str, Any]) -> str:
    if row["status"] is None:
        return _MISSING
    if row["status"] != "ok":
        return _FAILED
    text = row["answer"] or ""
    if not text.strip() or is_refusal(text):
        return _ABSTAINED
    return _HEADING if is_heading(without_date(text)) else _ANSWERED


@needs("viewer")
def answer_summary(
    cells: Sequence[Mapping[str, Any]], questions: Sequence[str]
) -> list[dict[str, Any]]:
    """A row a question: patients, and how many are in each state of a cell; with marked evidence,
    and of it in the prompt, cut, partly dropped and dropped."""
    states = (_ANSWERED, _HEADING, _ABSTAINED, _FAILED, _MISSING)
    places = (_IN_PROMPT, CUT, PARTLY_DROPPED, _DROPPED)
    rows: list[dict[str, Any]] = []
    for number, question in enumerate(questions):
        of = [cell for cell in cells if cell["question"] == number]
        count = Counter(cell[name] for cell in of for name in ("state", "evidence"))
        marked = sum(count[place] for place in places)
        row = {"question": question, "patients": len(of)} | {
            state: count[state] for state in states
        }
        rows.append(row | {"evidence marked": marked} | {place: count[place] for place in places})
    return rows


_ANSWER_COLUMNS = ("patient", "question", "state", "answer", "evidence", "event", "reason")


def answers_csv(cells: Sequence[Mapping[str, Any]], questions: Sequence[str]) -> str:
    """Cells as CSV, a row a cell; text that a spreadsheet would run as a formula is made plain."""
    text = io.StringIO()
    named = ({**c, "patient": c["record"], "question": questions[c["question"]]} for c in cells)
    write_sheet(text, [{name: row[name] for name in _ANSWER_COLUMNS} for row in named])
    return text.getvalue()
