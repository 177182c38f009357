"""Instructions, gold and responses from tables in MedAlign's column names.

An Instruction holds no answer; reference and evidence become a :class:`GoldSource`, which
:mod:`core.loaders.gold` locates on access. Several annotators of one question on one record are
one instruction: the first one's answer is the reference, the evidence of all is merged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.loaders.files import LoadLog, Row, read_table
from core.loaders.records import LazyRecords
from core.text import event_text
from core.text.locating import place_of
from core.text.options import MOST
from core.types import Gold, Instruction, Response, Span

QUESTION_COLUMNS = ("filename", "question", "evidence", "clinician_response")
RESPONSE_COLUMNS = ("filename", "question", "model_name")
RESPONSE_TEXT = ("model_response", "response", "model_output", "generated_response", "output")
MOST_PIECES = 500
"""Pieces of evidence of a question; those of published sets have at most some tens."""
TRUE, FALSE = frozenset({"true", "yes", "1", "1.0"}), frozenset({"false", "no", "0", "0.0"})
_BLANK = frozenset({"", "nan", "null"})
_R_OPENING = re.compile(r"(?:does|has|is|was|are|did)\b", re.IGNORECASE)
_S_VERB = r"(?:summari[sz]e|provide|list|describe|show)\b"
_R_PHRASE = re.compile(r"\b(?:most recent|current)\b", re.IGNORECASE)
_S_ANYWHERE = re.compile(rf"\b(?:{_S_VERB}|(?:over the past|throughout)\b)", re.IGNORECASE)
_S_OPENING = re.compile(rf"(?:please\s+)?{_S_VERB}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GoldSource:
    """An answer in the source file. ``exact`` is its evidence_spans column, as written;
    ``verbatim``: each of its spans holds the snippet of the same number."""

    instruction_id: str
    record_id: str
    answer: str
    snippets: tuple[str, ...]
    exact: str
    file: str
    line: int
    verbatim: bool = False


@dataclass(slots=True)
class Questions:
    """What a cohort's question tables hold, by instruction id.

    ``gold``: sources to locate; ``located``: gold whose place the format itself gives.
    """

    instructions: list[Instruction] = field(default_factory=list[Instruction])
    gold: dict[str, GoldSource] = field(default_factory=dict[str, GoldSource])
    located: dict[str, Gold] = field(default_factory=dict[str, Gold])
    responses: tuple[Response, ...] = ()
    _ids: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Record and question (spaces and case normalised) → instruction id."""
    records: dict[str, str] = field(default_factory=dict[str, str])
    """Instruction id → record id."""
    _stated: dict[str, tuple[str, Sequence[Span], bool]] = field(
        default_factory=dict[str, tuple[str, Sequence[Span], bool]]
    )

    def enter(self, row: Row, record: str, question: str, log: LoadLog) -> str:
        """The id of the instruction of a row; a new question becomes an instruction.

        The row's ``instruction_id`` is used unless another question has it; then a new id is
        derived, so that no answer is judged by another patient's or question's reference.
        """
        key = (record, " ".join(question.split()).casefold())
        if key not in self._ids:
            stated = row.get("instruction_id")
            id = stated or opaque_id(row.get("filename") or record, question)
            if stated and self.records.get(stated) == record:
                log.warn(
                    f"{row.file}:{row.line}: its instruction_id is that of another question of "
                    "the record — it has one of its own now; give each question one id"
                )
            while id in self.records:
                id = f"{id}-{opaque_id(record, question)[2:10]}"
            self.records[id] = record
            self._ids[key] = id
            self.instructions.append(
                Instruction(
                    id,
                    record,
                    question,
                    specialty=row.get("submitter_specialty", "specialty"),
                    domain=row.get("domain"),
                    task_type=row.get("task_type") or task_type_of(question),
                    options=split_evidence(row.get("options"))[:MOST],
                )
            )
        return self._ids[key]

    def ask(
        self,
        id: str,
        record: str,
        question: str,
        gold: tuple[str, Sequence[Span], bool] | None,
        **more: Any,
    ) -> None:
        """Enter a question of a format that gives the places of its evidence.

        ``gold``: reference answer, spans in the record (none or several), and whether the format
        itself states them; ``more``: further fields of the instruction. :meth:`locate` makes the
        gold once the records are there.
        """
        question = question.strip()
        one = Instruction(id, record, question, task_type=task_type_of(question), **more)
        self.instructions.append(one)
        self.records[id] = record
        if gold is not None:
            self._stated[id] = gold

    def locate(self, records: LazyRecords) -> None:
        """Make the gold of all questions that were entered by :meth:`ask`."""
        for id, (answer, spans, exact) in self._stated.items():
            record = records[self.records[id]]
            texts = [event_text(record.events[s.event])[s.start : s.end].strip() for s in spans]
            order, time, token = place_of(record, spans[0]) if spans else (None, None, None)
            self.located[id] = Gold(
                id, answer, tuple(texts), tuple(spans), order, time, exact, token
            )


def task_type_of(question: str) -> str:
    """R, Rn or S by a question's words (PROTOCOL, Stage 2: tables).

    The opening word decides first (Does, Has, Is, Was, Are, Did: R; summarize, provide, list,
    describe, show: S), because it says what is asked for. Then the phrases: "most recent" or
    "current" is R; an S word, "over the past" or "throughout" anywhere is S. The rest is Rn.
    """
    question = question.strip()
    if _R_OPENING.match(question):
        return "R"
    if _S_OPENING.match(question):
        return "S"
    if _R_PHRASE.search(question):
        return "R"
    return "S" if _S_ANYWHERE.search(question) else "Rn"


def split_evidence(text: str) -> tuple[str, ...]:
    """The snippets between ``|||``, stripped; an absent one ("", "nan", "NULL") is none."""
    parts = (part.strip() for part in text.split("|||"))
    return tuple(part for part in parts if part.lower() not in _BLANK)


def truth(text: str) -> bool | None:
    """True for true/yes/1, False for false/no/0, None for anything else."""
    text = text.strip().lower()
    return True if text in TRUE else False if text in FALSE else None


def opaque_id(filename: str, question: str) -> str:
    """A stable id that does not reveal the patient or the question."""
    digest = hashlib.blake2b(f"{filename}\0{question}".encode(), digest_size=8)
    return f"q-{digest.hexdigest()}"


def record_of(row: Row, records: LazyRecords) -> str | None:
    """The record a row is about, by its person_id or by its filename with or without an ending."""
    id = records.id_of(row.get("person_id"))
    return records.of_file(row.get("filename")) if id is None else id


def read_questions(rows: Iterable[Row], records: LazyRecords, log: LoadLog) -> Questions:
    """Instructions and gold sources of question rows; bad rows are skipped."""
    questions = Questions()
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        question = row.get("question")
        record = record_of(row, records)
        if not question:
            log.skip(row.file, row.line, "has no question — fill in the column question")
        elif row.get("evidence").count("|||") >= MOST_PIECES:
            reason = f"has more than {MOST_PIECES} pieces of evidence — keep those that matter"
            log.skip(row.file, row.line, reason)
        elif record is None:
            reason = "asks about a record that is not in the cohort — check filename"
            log.skip(row.file, row.line, reason)
        else:
            grouped.setdefault(questions.enter(row, record, question, log), []).append(row)
    for id, group in grouped.items():
        source = _gold_source(id, questions.records[id], group)
        if source is not None:
            questions.gold[id] = source
    merged = sum(len(group) > 1 for group in grouped.values())
    if merged:
        log.warn(
            f"{merged} questions have several annotators — the first one's answer is the "
            "reference, the evidence of all is united"
        )
    return questions


def read_question_tables(
    files: Iterable[Path], records: LazyRecords, log: LoadLog, delimiter: str = "\t"
) -> Questions:
    """:func:`read_questions` of tables with the columns of MedAlign's; a bad table is skipped."""
    rows: list[Row] = []
    for file in files:
        with log.skipping(file.name):
            rows += read_table(file, file.name, QUESTION_COLUMNS, log, delimiter)
    return read_questions(rows, records, log)


def tables_in(place: Path) -> list[Path]:
    """The ``.tsv`` files of a folder, in the order of their names; none of a single file."""
    inside = sorted(place.iterdir()) if place.is_dir() else []
    return [file for file in inside if file.suffix.lower() == ".tsv"]


def _annotator(row: Row) -> int:
    number = re.search(r"\d{1,18}", row.get("annotator_num"))
    return int(number.group()) if number else 0


def _gold_source(id: str, record: str, rows: Sequence[Row]) -> GoldSource | None:
    rows = sorted(rows, key=_annotator)
    answers = [row.get("clinician_response") for row in rows]
    answer = next((a for a in answers if a.lower() not in _BLANK), "")
    snippets = dict.fromkeys(s for row in rows for s in split_evidence(row.get("evidence")))
    if not answer and not snippets:
        return None
    with_evidence = [row for row in rows if split_evidence(row.get("evidence"))]
    spans = [row.get("evidence_spans") for row in rows if row.get("evidence_spans")]
    complete = all(row.get("evidence_spans") for row in with_evidence)
    exact = "|||".join(spans) if complete else ""
    return GoldSource(id, record, answer, tuple(snippets), exact, rows[0].file, rows[0].line)


def read_responses(
    rows: Iterable[Row], questions: Questions, records: LazyRecords, log: LoadLog
) -> tuple[Response, ...]:
    """Model responses of review rows, each joined to its instruction by record and question.

    A question that only the responses contain becomes an instruction without gold. ``correct`` is
    None where the verdict is neither yes nor no; rows not used in the evaluation are marked.
    """
    responses: list[Response] = []
    for row in rows:
        record, question = record_of(row, records), row.get("question")
        if record is None or not question:
            what = "names no question" if record else "is about a record that is not in the cohort"
            log.skip(row.file, row.line, f"{what} — check filename and question")
            continue
        cells = row.cells
        text_column = next((column for column in RESPONSE_TEXT if column in cells), "")
        known = {text_column, "model_name", "binary_correct", "is_used_eval", "simulated"}
        responses.append(
            Response(
                questions.enter(row, record, question, log),
                row.get("model_name"),
                cells.get(text_column, ""),
                truth(cells.get("binary_correct", "")),
                used="is_used_eval" not in cells or truth(cells["is_used_eval"]) is True,
                simulated=truth(cells.get("simulated", "")) is True,
                extra=tuple((k, v) for k, v in cells.items() if k not in known and v),
            )
        )
    return tuple(responses)
