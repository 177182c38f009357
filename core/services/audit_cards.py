"""Cards of an audit: dealt to a clinician, who marks evidence or says that there is none."""

from __future__ import annotations

import csv
import io
from typing import Any

from midchart.core.access import RunRef, needs
from midchart.core.cohorts.tables import accept_long_cells
from midchart.core.errors import InputError, UnknownName
from midchart.core.other_systems.audit.cards import (
    AuditCard,
    cards_of,
    dealt_file,
    finished,
    to_draw,
)
from midchart.core.provenance import now
from midchart.core.runs.directory import RunDirectory, find_run
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.plan import Plan
from midchart.core.runs.status import status
from midchart.core.services.cohorts import open_data
from midchart.core.services.user_questions import (
    answer_question,
    keep_question,
    mark_evidence,
    own_question,
)
from midchart.core.storage.jsonl import add_line
from midchart.core.text.evidence import locate

MOST_CARDS = 1_000
"""Cards that are dealt at a time."""


def _audit(run: str) -> tuple[RunDirectory, Plan]:
    folder = find_run(run)
    plan = folder.plan()
    if not EXPERIMENTS.build(plan.kind).cards:
        raise InputError(f"run {run} of kind {plan.kind} deals no cards; a run of kind audit does")
    return folder, plan


@needs("viewer")
def audit_cards(run: RunRef) -> list[dict[str, Any]]:
    """The cards of a run in their order: ``question`` (the kept question's id), ``record``,
    ``text``, ``state`` ("marked", "not documented", "open" or "withdrawn"), and ``counts``: whether
    it is among those by which rates are corrected, the cards before the first open one.

    A card names neither the system nor its answer. Raises UnknownName, InputError.
    """
    folder, _ = _audit(run)
    cards = cards_of(folder)
    done = finished(cards)
    return [
        {
            "question": card.question.id,
            "record": card.question.record,
            "text": card.question.question,
            "state": _state(card),
            "counts": number < done,
        }
        for number, card in enumerate(cards)
    ]


def _state(card: AuditCard) -> str:
    if not card.question.record:
        return "withdrawn"
    if card.marked is None:
        return "open"
    return "marked" if card.marked.documented else "not documented"


@needs("reviewer")
def deal_cards(run: RunRef, number: int, by: str = "") -> list[dict[str, Any]]:
    """Deal so many more cards of a finished run, fewer where no more are left, and give all of
    :func:`audit_cards`.

    Each question without known evidence is kept with the cohort, so that its evidence is marked
    as that of any kept question (:func:`midchart.core.services.user_questions.mark_evidence`).
    ``by``: as there. Raises UnknownName, and InputError for a run that has not finished.
    """
    folder, plan = _audit(run)
    if type(number) is not int or not 1 <= number <= MOST_CARDS:
        raise InputError(f"1 to {MOST_CARDS:,} cards are dealt at a time, not {number!r}")
    if (now_is := status(run)["status"]) != "done":
        raise InputError(f"run {run} is {now_is}: cards are dealt once it is done")
    data = folder.cohort_path()
    order = to_draw(folder.store(plan), plan)
    dealt = len(cards_of(folder))
    priorities = [priority for _, _, priority in order] + [0.0]
    for place in range(dealt, min(dealt + number, len(order))):
        row, size, _ = order[place]
        line = {
            "time": now(),
            "instruction": row["instruction"],
            "question": _question_of(data, row, by),
            "size": size,
            "next": priorities[place + 1],
        }
        add_line(dealt_file(run), line, durable=True)
    return audit_cards(run)


def _question_of(data: str, row: dict[str, Any], by: str) -> str:
    """The id of the kept question with a sample's words, kept now where there is none."""
    text = " ".join(row["question"].split())
    same = [
        one.id for one in open_data(data).instructions
        if one.record_id == row["chart"] and one.question == text
    ]  # fmt: skip
    for id in same:
        try:
            return own_question(data, id).id
        except UnknownName:  # a question of the cohort's files, whose evidence is not known
            text = f"{text} (audit)"
    return keep_question(data, row["chart"], text, by)


@needs("reviewer")
def mark_cards(run: RunRef, content: str, by: str = "") -> list[dict[str, Any]]:
    """Write a table of marks, and give all of :func:`audit_cards`.

    ``content``: CSV with the columns ``question`` (a card's), ``evidence`` (text quoted from the
    chart, pieces joined by ``|||``; empty: not documented) and, if wanted, ``answer``. Nothing is
    written unless all of it can be. Raises UnknownName for a question that is no card, InputError
    for evidence that is not in the chart, or a table without these columns.
    """
    folder, plan = _audit(run)
    data = folder.cohort_path()
    cards = {card.question.id: card for card in cards_of(folder) if card.question.record}
    accept_long_cells()
    try:
        rows = list(csv.DictReader(io.StringIO(content, newline=None)))
    except csv.Error as error:
        raise InputError(f"the table of marks cannot be read ({error})") from None
    if not rows or not {"question", "evidence"} <= rows[0].keys():
        raise InputError("a table of marks has the columns question and evidence: a row a card")
    records = open_data(data).records
    marks: list[tuple[str, str, Any]] = []
    for number, row in enumerate(rows, 2):
        id = (row["question"] or "").strip()
        if id not in cards:
            raise UnknownName("card of the run", id, cards)
        if row["evidence"] is None:
            raise InputError(f"row {number} of the marks has no cell for evidence (empty: none)")
        pieces = [piece for piece in row["evidence"].split("|||") if piece.strip()]
        located = locate(records[cards[id].question.record], pieces, plan.protocol)
        if located.unlocated:
            raise InputError(
                f"row {number} of the marks: {located.unlocated} of {len(pieces)} pieces of "
                "evidence are not in the chart — quote them from it"
            )
        marks.append((id, (row.get("answer") or "").strip(), located.spans))
    for id, answer, spans in marks:
        if spans:
            mark_evidence(data, id, spans, by)
        if answer or not spans:
            answer_question(data, id, answer, documented=bool(spans), by=by)
    return audit_cards(run)
