"""Cards of an audit: questions without known evidence, whose evidence a clinician marks.

They are drawn one after another, questions on which the system and the second reading differ three
times as likely; a card's line says how large its draw was and which priority the next question had,
so the probability with which the finished cards were drawn is known at any time
(:func:`midchart.core.stats.prediction_powered.drawn_with`). What is marked is kept with the cohort
(:mod:`midchart.core.cohorts.kept_questions`) and counts at once.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter

from midchart.core import config as settings
from midchart.core.access import RunRef, guarded, needs
from midchart.core.cohorts.kept_questions import Annotation, KeptQuestion, kept_questions
from midchart.core.cohorts.tables import accept_long_cells
from midchart.core.errors import InputError, UnknownName
from midchart.core.judges import JUDGES
from midchart.core.loaders.open import cohort_folder
from midchart.core.options import Options
from midchart.core.provenance import digest, now
from midchart.core.results.reviews import DEALT_FILE
from midchart.core.results.tables import ends, generator, grouped
from midchart.core.runs.directory import RunDirectory, find_run
from midchart.core.runs.experiment import EXPERIMENTS, Table
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import Moment
from midchart.core.runs.status import status
from midchart.core.services.cohorts import open_data
from midchart.core.services.user_questions import (
    answer_question,
    keep_question,
    mark_evidence,
    own_question,
)
from midchart.core.stats.prediction_powered import prediction_powered, priority_order
from midchart.core.storage.jsonl import add_line, read_lines
from midchart.core.storage.rows import RowStore
from midchart.core.text.evidence import contained, covered, locate
from midchart.core.types import Answer, Gold, Instruction
from midchart.extras.audit.tables import CRITERIA, STEP_TITLES, STEPS, reached, span_of

UNCERTAIN, USUAL = 3.0, 1.0
"""Sizes of a draw: of a question on which the system and the second reading differ or of which the
second reading says nothing, and of any other."""
RULES = frozenset({"exact", "token_overlap", "exact_else_overlap", "statements"})
"""Judges that say at once whether an answer equals a clinician's."""
MORE = 10
"""Further cards of which the table says how far they would narrow an interval."""
Row = Mapping[str, Any]


class DealtLine(Options):
    """A card: the sample's id, the id of the question that is kept for it, the size of its draw,
    and the priority of the first question that was not drawn (0: none was left)."""

    time: Moment
    instruction: str
    question: str
    size: Annotated[float, Field(gt=0)]
    next: Annotated[float, Field(ge=0)]


_LINE = TypeAdapter(DealtLine)


@dataclass(frozen=True, slots=True)
class AuditCard:
    """A card: the sample's id, the kept question, what was marked (None: nothing yet), and the
    draw as in :class:`DealtLine`."""

    instruction: str
    question: KeptQuestion
    marked: Annotation | None
    size: float
    next: float

    @property
    def state(self) -> str:
        """withdrawn, open, marked, or not documented."""
        if not self.question.record:
            return "withdrawn"
        if self.marked is None:
            return "open"
        return "marked" if self.marked.documented else "not documented"


def dealt_file(run: str) -> Path:
    """The file of a run's dealt cards."""
    return settings.reviews_folder(run) / f"{DEALT_FILE}.jsonl"


def dealt_questions() -> frozenset[str]:
    """Ids of the kept questions that were dealt as cards of any run."""
    files = settings.reviews_folder("").glob(f"*/{DEALT_FILE}.jsonl")
    return frozenset(line["question"] for file in files for line in read_lines(file, _LINE))


def cards_of(folder: RunDirectory) -> list[AuditCard]:
    """The cards of a run in the order in which they were drawn; those whose question was withdrawn
    are unmarked and have no record. Raises DataError for a file that cannot be read, and as
    :meth:`midchart.core.runs.directory.RunDirectory.cohort_path`."""
    lines = list(read_lines(dealt_file(folder.id), _LINE))
    if not lines:
        return []
    questions = kept_questions(cohort_folder(folder.cohort_path()))
    cards: list[AuditCard] = []
    for line in lines:
        withdrawn = KeptQuestion(line["question"], "", "", "", line["time"])
        question = questions.get(line["question"], withdrawn)
        place = line["instruction"], question, _marked(question), line["size"], line["next"]
        cards.append(AuditCard(*place))
    return cards


def _marked(question: KeptQuestion) -> Annotation | None:
    """What annotators say of a question, once one has marked its evidence or says that the chart
    does not document it: the first one's answer, the evidence of all."""
    known = list(question.annotations.values())
    if any(not annotation.documented for annotation in known[:1]):
        return Annotation(documented=False)
    spans = tuple(dict.fromkeys(span for annotation in known for span in annotation.spans))
    if not spans:
        return None
    answer = next((annotation.answer for annotation in known if annotation.answer), "")
    return Annotation(answer, True, spans)


COLUMNS = (
    "instruction, record, chart, source, question, answer, evidence_pieces, judged, retrieved, "
    "retrieved_all, reranked, reranked_all, prompt, prompt_all, retrieved_kept, reranked_kept, "
    "kept, retrieved_predicted, reranked_predicted, prompt_predicted, judged_predicted, "
    "documented_predicted"
)
SYSTEMS = "status = 'ok' AND role = 'system'"


def to_draw(store: RowStore, plan: Plan) -> list[tuple[dict[str, Any], float, float]]:
    """The questions without known evidence in the order of their draw: each row, the size of its
    draw, and its priority."""
    rows = store.select("audited", COLUMNS, f"{SYSTEMS} AND evidence_pieces IS NULL")
    rows.sort(key=lambda row: row["instruction"])
    if not rows:
        return []
    sizes = np.array([_size(row) for row in rows])
    seed = str(plan.protocol.seed)
    numbers = [int(digest("card", seed, row["instruction"]), 16) for row in rows]
    uniform = (np.array(numbers, dtype=np.float64) + 1.0) / 2.0**128
    order = priority_order(sizes, np.minimum(uniform, 1.0)).tolist()
    return [(rows[i], float(sizes[i]), float(sizes[i] / uniform[i])) for i in order]


def _size(row: Row) -> float:
    """How likely a question is drawn, relative to others."""
    there, right = row["prompt_predicted"], row["judged_predicted"]
    if there is None and row["documented_predicted"] is None:
        return UNCERTAIN
    agrees = right in (None, "failed", "unparsed") or there is None or there == (right == "correct")
    return USUAL if agrees else UNCERTAIN


def finished(cards: Sequence[AuditCard]) -> int:
    """How many cards come before the first open one: marked, or their question was withdrawn."""
    return next((n for n, card in enumerate(cards) if card.state == "open"), len(cards))


def corrected(store: RowStore, plan: Plan, cards: Sequence[AuditCard]) -> Table:
    """One row each source × criterion × step: the share of all documented questions whose evidence
    is there, of ``n`` questions, ``known`` ones with known evidence and ``cards`` marked.

    ``machine_share``: known and predicted by the second reading alone; ``tuning``: how far that is
    used. ``share_width`` of the interval, expected ``share_width_after_ten`` more cards, and
    ``cards_to_halve`` it (null: not even all would). Empty until a card is marked. Steps that the
    log does not tell are left out, "read" where the run has no judge by rule, and all while the
    cards are but those that would be drawn in any case.
    """
    done = finished(cards)
    if not done:
        return []
    threshold = cards[done - 1].next
    drawn = {card.instruction: card for card in cards[:done]}
    groups = grouped(store.select("audited", COLUMNS, SYSTEMS), lambda row: row["source"])
    table: Table = []
    for source, rows in sorted(groups.items()):
        rows.sort(key=lambda row: row["instruction"])
        for criterion in CRITERIA:
            for step in STEPS[1:]:
                items = [
                    item for row in rows
                    if (item := _item(row, step, criterion, drawn, threshold, plan)) is not None
                ]  # fmt: skip
                if not _can_be_corrected(items):
                    continue
                rng = generator(plan, "cards", source, criterion, step)
                named = {"source": source, "criterion": criterion, "step": step}
                named["after_step"] = STEP_TITLES[step]
                table.append({**named, **_columns(items, plan.protocol.resamples, rng)})
    return table


def _can_be_corrected(items: Sequence[_Item]) -> bool:
    """Whether a card counts, and, where questions are left, one that could have been left out."""
    cards = [item for item in items if item.card]
    left = any(np.isnan(item.judged) for item in items)
    return any(item.counts for item in cards) and (
        not left or any(item.probability < 1 for item in cards)
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """A question at a step: judged (nan: not) and predicted, whether each counts, and the
    probability with which it was drawn."""

    record: str
    judged: float
    counts: float
    predicted: float
    predicted_counts: float
    probability: float
    card: bool


def _item(
    row: Row,
    step: str,
    criterion: str,
    drawn: Mapping[str, AuditCard],
    threshold: float,
    plan: Plan,
) -> _Item | None:
    """A question at a step; None where the log does not tell the step."""
    column = "judged" if step == "read" else step
    if row["evidence_pieces"]:
        there = reached(row, step, criterion)
        return there if there is None else _Item(row["record"], there, 1, there, 1, 1, False)
    if step == "read" and not (_rule(plan) and (row["answer"] or "").strip()):
        return None
    if step != "read" and row[_SPANS[step]] is None:
        return None
    reading = row[f"{column}_predicted"]
    if step == "read":
        reading = None if reading in (None, "failed", "unparsed") else reading == "correct"
    documented = row["documented_predicted"] is not False
    predicted = 0.5 if reading is None else float(reading)
    card = drawn.get(row["instruction"])
    judged, counts, probability = np.nan, 0.0, 1.0
    if card is not None:
        if card.marked is None:
            return None  # withdrawn: a question that cannot be answered
        answer = _judged(row, step, criterion, card.marked, plan)
        if answer is None:
            return None  # evidence without an answer: "read" of it is not known
        judged, counts = float(answer), float(card.marked.documented)
        probability = 1.0 if threshold == 0 else min(1.0, card.size / threshold)
    return _Item(
        row["record"], judged, counts, predicted, float(documented), probability,
        card is not None,
    )  # fmt: skip


_SPANS = {"retrieved": "retrieved_kept", "reranked": "reranked_kept", "prompt": "kept"}


def _judged(row: Row, step: str, criterion: str, marked: Annotation, plan: Plan) -> bool | None:
    """Whether the marked evidence was there after a step; False of what is not documented, which
    does not count; None where there is no answer to judge by."""
    if not marked.documented:
        return False
    if step == "read":
        if not marked.answer:
            return None
        entry = next(e for e in plan.judge_entries if e.label == plan.primary_judge)
        judge = JUDGES.build(entry.name, plan.protocol, **entry.options)
        asked = Instruction(row["instruction"], row["record"], row["question"])
        gold = Gold(asked.id, marked.answer, marked.texts, marked.spans)
        return judge.judge(asked, gold, Answer(row["answer"])).outcome == "correct"
    there = [span_of(one) for one in row[_SPANS[step]]]
    pieces = {str(number): (span,) for number, span in enumerate(marked.spans)}
    shown = contained({id: covered(wanted, there) for id, wanted in pieces.items()})
    return len(shown) == len(pieces) if CRITERIA[criterion] else bool(shown)


def _rule(plan: Plan) -> bool:
    """Whether the run's judge says at once whether an answer equals a clinician's."""
    return any(e.name in RULES for e in plan.judge_entries if e.label == plan.primary_judge)


def _columns(items: Sequence[_Item], resamples: int, rng: np.random.Generator) -> dict[str, Any]:
    result = prediction_powered(
        [item.predicted for item in items],
        [item.judged for item in items],
        [item.probability for item in items],
        [item.record for item in items],
        resamples,
        rng,
        predicted_counts=[item.predicted_counts for item in items],
        judged_counts=[item.counts for item in items],
    )
    cards = sum(item.card for item in items)
    left = sum(np.isnan(item.judged) for item in items)
    width = result.width_after(0)
    return {
        "n": len(items),
        "patients": len({item.record for item in items}),
        "known": len(items) - cards - left,
        "cards": cards,
        "not_documented": sum(item.card and not item.counts for item in items),
        "machine_share": result.predicted,
        "share": result.estimate,
        **ends("patient_", result.interval),
        "tuning": result.tuning,
        "share_width": width,
        "share_width_after_ten": result.width_after(min(MORE, left)) if left else None,
        "cards_to_halve": result.cards_to_narrow(0.5, left) if left else None,
    }


# Cards as a page and the command deal them.


MOST_CARDS = 1_000
"""Cards that are dealt at a time."""


def _audit(run: str) -> tuple[RunDirectory, Plan]:
    folder = find_run(run)
    plan = folder.plan()
    if not EXPERIMENTS.build(plan.kind).cards:
        raise InputError(f"run {run} of kind {plan.kind} deals no cards; a run of kind audit does")
    return folder, plan


@guarded
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
            "state": card.state,
            "counts": number < done,
        }
        for number, card in enumerate(cards)
    ]


@guarded
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


@guarded
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
