"""Question sets over a cohort: saved, asked of every patient in a run, read as a table."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.errors import InputError, UnknownName
from core.judges.rules import is_refusal
from core.loaders.gold import gold_under
from core.loaders.kept_questions import (
    LONGEST_NAME,
    SETS_FILE,
    QuestionSet,
    asked_of_all,
    checked_questions,
)
from core.loaders.kept_questions import question_sets as sets_in
from core.results.items import CUT, EVIDENCE_OUTCOME
from core.runs.directory import find_run
from core.runs.plan import Plan
from core.runs.status import status
from core.services.cohorts import open_data
from core.services.own_questions import add_action, folder_of, own_questions
from core.storage.csv import inert
from core.storage.query import literal
from core.storage.rows import RowStore
from core.text import sentences
from core.text.evidence import gold_sentence_ids
from core.types import Cohort

ANSWERED, ABSTAINED, FAILED, MISSING = "answered", "not documented", "failed", "not asked yet"
"""States of a cell of the table patients × questions."""
DROPPED, IN_PROMPT = "dropped", "in the prompt"


def question_sets(data: str | Path) -> list[QuestionSet]:
    """The question sets saved with a cohort, oldest first. Raises InputErrors."""
    return list(sets_in(folder_of(data)).values())


def save_question_set(data: str | Path, name: str, questions: Sequence[str], by: str = "") -> str:
    """Save a question set with a cohort; gives its id.

    ``by``: a code of who saves it (default: the account). Raises InputError for an empty or too
    long name or one that is there, and as :func:`core.loaders.kept_questions.checked_questions`.
    """
    folder, title = folder_of(data), " ".join(name.split())
    if not 1 <= len(title) <= LONGEST_NAME:
        raise InputError(f"the name of a question set has 1 to {LONGEST_NAME} characters")
    if any(one.name == title for one in sets_in(folder).values()):
        raise InputError("the cohort has a question set of this name; choose another name")
    id = f"set-{secrets.token_hex(6)}"
    checked = checked_questions(questions)
    add_action(folder / SETS_FILE, "set", id, by, name=title, questions=checked)
    return id


def withdraw_question_set(data: str | Path, id: str, by: str = "") -> None:
    """Take a question set out of the list; its lines and its runs stay. Raises UnknownName."""
    folder = folder_of(data)
    known = sets_in(folder)
    if id not in known:
        raise UnknownName("question set", id, known)
    add_action(folder / SETS_FILE, "withdrawn", id, by)


def question_set_spec(
    data: str, name: str, questions: Sequence[str], arms: Sequence[str], reader: str
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


def asked_questions(run: str) -> tuple[str, ...]:
    """The question set that a run asks of every patient; none in a run of other questions.

    Raises UnknownName.
    """
    return _questions(find_run(run).plan())


def _questions(plan: Plan) -> tuple[str, ...]:
    return tuple(plan.options.get("questions") or ())


def run_entries(run: str) -> dict[str, list[str]]:
    """The ``labels`` of a run's arm entries and its ``readers``; raises UnknownName."""
    plan = find_run(run).plan()
    return {"labels": [entry.label for entry in plan.arms], "readers": list(plan.readers)}


def answer_cells(run: str, label: str = "", reader: str = "") -> list[dict[str, Any]]:
    """The table patients × questions of a run, a row a cell, by patient and then by question.

    ``label``, ``reader``: of which arm entry and reader (default: the run's first). Each row:
    ``record``, ``question`` (its number in the set, from 0), ``state``, ``answer`` (null unless
    answered), ``reason`` of a failure, ``event`` of the quoted sentence (null where the reader
    quotes none), and ``evidence``: null where no evidence is marked, else whether it is "in the
    prompt", "cut" from it, or "dropped" by the arm. Evidence that people mark later counts at once.
    Raises UnknownName, and InputError for a run that asks no question set.
    """
    folder = find_run(run)
    plan = folder.plan()
    questions = _questions(plan)
    if not questions:
        raise InputError(f"run {run} asks no question set; its answers are on page Arms")
    entries = run_entries(run)
    label, reader = label or entries["labels"][0], reader or entries["readers"][0]
    for what, name, known in (("arm", label, "labels"), ("reader", reader, "readers")):
        if name not in entries[known]:
            raise UnknownName(f"{what} of the run", name, entries[known])
    data = status(run)["data"]
    cohort = gold_under(asked_of_all(open_data(data), questions), plan.protocol)
    cell_of = {
        one.id: (one.record_id, i % len(questions)) for i, one in enumerate(cohort.instructions)
    }
    store = folder.store(plan)
    where = f"label = {literal(label)} AND reader = {literal(reader)}"
    rows = store.select(
        "answers",
        "instruction, status, reason, answer, "
        f"CASE WHEN evidence IS NOT NULL THEN {EVIDENCE_OUTCOME} END AS evidence, "
        "list_filter(selection, lambda x: x.id = sources[1])[1].event AS event",
        where,
    )
    by_id = {row.pop("instruction"): row for row in rows}
    marked = _marked(data, cohort, store, plan, where)
    cells: list[dict[str, Any]] = []
    for id, (record, question) in cell_of.items():
        row = by_id.get(id) or dict.fromkeys(("status", "reason", "answer", "evidence", "event"))
        state = _state(row)
        cells.append(
            {
                "record": record,
                "question": question,
                "state": state,
                "answer": row["answer"] if state == ANSWERED else None,
                "reason": row["reason"],
                "event": row["event"] if state == ANSWERED else None,
                "evidence": marked.get(id, row["evidence"]),
            }
        )
    return cells


def _state(row: Mapping[str, Any]) -> str:
    if row["status"] is None:
        return MISSING
    if row["status"] != "ok":
        return FAILED
    text = row["answer"] or ""
    return ABSTAINED if not text.strip() or is_refusal(text) else ANSWERED


def _marked(data: str, cohort: Cohort, store: RowStore, plan: Plan, where: str) -> dict[str, str]:
    """Instruction id → where its evidence is, for questions with evidence that people mark."""
    annotated = {
        (one.record, one.question)
        for one in own_questions(data)
        if any(annotation.spans for annotation in one.annotations.values())
    }
    asked = [one for one in cohort.instructions if (one.record_id, one.question) in annotated]
    if not asked:
        return {}
    ids = ", ".join(literal(one.id) for one in asked)
    rows = store.select(
        "answers",
        "instruction, list_transform(selection, lambda x: x.id) AS kept, cut",
        f"{where} AND selection IS NOT NULL AND instruction IN ({ids})",
    )
    row_of = {row["instruction"]: row for row in rows}
    evidence: dict[str, str] = {}
    for one in asked:
        row, gold = row_of.get(one.id), cohort.gold.get(one.id)
        if row is None or gold is None or not gold.spans:
            continue
        units = sentences(cohort.records[one.record_id], plan.protocol)
        selected = gold_sentence_ids(units, gold.spans) & set(row["kept"])
        shown = selected - set(row["cut"] or ())
        evidence[one.id] = IN_PROMPT if shown else CUT if selected else DROPPED
    return evidence


def answer_summary(
    cells: Sequence[Mapping[str, Any]], questions: Sequence[str]
) -> list[dict[str, Any]]:
    """A row a question: patients, and how many are answered, not documented, failed or not asked
    yet; with marked evidence, and of it in the prompt, cut and dropped."""
    rows = [
        {
            "question": question,
            "patients": 0,
            **dict.fromkeys((ANSWERED, ABSTAINED, FAILED, MISSING), 0),
            "evidence marked": 0,
            **dict.fromkeys((IN_PROMPT, CUT, DROPPED), 0),
        }
        for question in questions
    ]
    for cell in cells:
        row = rows[cell["question"]]
        row["patients"] += 1
        row[cell["state"]] += 1
        if cell["evidence"]:
            row["evidence marked"] += 1
            row[cell["evidence"]] += 1
    return rows


COLUMNS = ("patient", "question", "state", "answer", "evidence", "event", "reason")


def answers_csv(cells: Sequence[Mapping[str, Any]], questions: Sequence[str]) -> str:
    """Cells as CSV, a row a cell; text that a spreadsheet would run as a formula is made plain."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for cell in cells:
        values = {**cell, "patient": cell["record"], "question": questions[cell["question"]]}
        table.writerow(
            [
                value if isinstance(value := values[name], int) else inert(value or "")
                for name in COLUMNS
            ]
        )
    return text.getvalue()
