"""Instructions, gold and responses from tables in MedAlign's column names.

The answer side (reference, evidence) and the question side part here: an Instruction holds no
answer, and gold is kept as a source that :mod:`core.loaders.gold` locates when it is asked for.
Two annotators of one question on one record are one instruction: the first annotator's answer is
the reference, the evidence of all is united.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from core.loaders.files import Row
from core.loaders.records import LazyRecords
from core.types import Instruction, Response, Skip

QUESTION_COLUMNS = ("filename", "question", "evidence", "clinician_response")
RESPONSE_COLUMNS = ("filename", "question", "model_name")
RESPONSE_TEXT = ("model_response", "response", "model_output", "generated_response", "output")
TRUE, FALSE = frozenset({"true", "yes", "1", "1.0"}), frozenset({"false", "no", "0", "0.0"})
_BLANK = frozenset({"", "nan", "null"})
_R_OPENING = re.compile(r"(?:does|has|is|was|are|did)\b", re.IGNORECASE)
_S_VERB = r"(?:summari[sz]e|provide|list|describe|show)\b"
_R_PHRASE = re.compile(r"\b(?:most recent|current)\b", re.IGNORECASE)
_S_ANYWHERE = re.compile(rf"\b(?:{_S_VERB}|(?:over the past|throughout)\b)", re.IGNORECASE)
_S_OPENING = re.compile(rf"(?:please\s+)?{_S_VERB}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GoldSource:
    """What the source says of an answer. ``exact`` is its evidence_spans column, as written."""

    instruction_id: str
    record_id: str
    answer: str
    snippets: tuple[str, ...]
    exact: str
    file: str
    line: int


@dataclass(slots=True)
class Questions:
    """All that question tables hold.

    ``known`` finds an instruction by its record and its question, spaces and case aside;
    ``owners`` finds the record of an instruction. An id belongs to one question on one record.
    """

    instructions: list[Instruction] = field(default_factory=list[Instruction])
    gold: dict[str, GoldSource] = field(default_factory=dict[str, GoldSource])
    known: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    owners: dict[str, str] = field(default_factory=dict[str, str])

    def enter(self, row: Row, record: str, question: str, warnings: list[str]) -> str:
        """The id of the instruction that a row is about, which is made where it is not known.

        The id that a row gives is taken where no other question has it; else one is made from it,
        so that an answer is never held against another patient's or another question's reference.
        """
        name = (record, " ".join(question.split()).casefold())
        id = self.known.get(name)
        if id is None:
            given = row.get("instruction_id")
            id = given or opaque_id(row.get("filename") or record, question)
            if given and self.owners.get(given) == record:
                warnings.append(
                    f"{row.file}:{row.line}: its instruction_id is that of another question of "
                    "the record — it has one of its own now; give each question one id"
                )
            while id in self.owners:
                id = f"{id}-{opaque_id(record, question)[2:10]}"
            self.owners[id] = record
            self.known[name] = id
            self.instructions.append(_instruction(id, record, question, row))
        return id


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
    """A stable id that says nothing of the patient or the question."""
    made = hashlib.blake2b(f"{filename}\0{question}".encode(), digest_size=8)
    return f"q-{made.hexdigest()}"


def record_of(row: Row, records: LazyRecords) -> str | None:
    """The record a row is about, by its person_id or by its filename with or without an ending."""
    found = records.id_of(row.get("person_id"))
    return records.of_file(row.get("filename")) if found is None else found


def _annotator(row: Row) -> int:
    number = re.search(r"\d+", row.get("annotator_num"))
    return int(number.group()) if number else 0


def read_questions(
    rows: Iterable[Row],
    records: LazyRecords,
    skipped: list[Skip],
    warnings: list[str],
) -> Questions:
    """Instructions and gold sources of question rows; bad rows go to ``skipped``."""
    found = Questions()
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        question = row.get("question")
        record = record_of(row, records)
        if not question:
            skipped.append(row.skip("has no question — fill in the column question"))
            continue
        if record is None:
            skipped.append(
                row.skip("asks about a record that is not in the cohort — check filename")
            )
            continue
        grouped.setdefault(found.enter(row, record, question, warnings), []).append(row)
    for id, group in grouped.items():
        source = _gold(id, found.owners[id], group)
        if source is not None:
            found.gold[id] = source
    merged = sum(len(group) > 1 for group in grouped.values())
    if merged:
        warnings.append(
            f"{merged} questions have several annotators — the first one's answer is the "
            "reference, the evidence of all is united"
        )
    return found


def _instruction(id: str, record: str, question: str, row: Row) -> Instruction:
    return Instruction(
        id,
        record,
        question,
        specialty=row.get("submitter_specialty", "specialty"),
        domain=row.get("domain"),
        task_type=row.get("task_type") or task_type_of(question),
    )


def _gold(id: str, record: str, rows: Sequence[Row]) -> GoldSource | None:
    rows = sorted(rows, key=_annotator)
    answers = [row.get("clinician_response") for row in rows]
    answer = next((a for a in answers if a.lower() not in _BLANK), "")
    snippets = dict.fromkeys(s for row in rows for s in split_evidence(row.get("evidence")))
    exact = "|||".join(row.get("evidence_spans") for row in rows if row.get("evidence_spans"))
    if not answer and not snippets:
        return None
    if not all(row.get("evidence_spans") for row in rows if split_evidence(row.get("evidence"))):
        exact = ""
    return GoldSource(id, record, answer, tuple(snippets), exact, rows[0].file, rows[0].line)


def read_responses(
    rows: Iterable[Row],
    questions: Questions,
    records: LazyRecords,
    skipped: list[Skip],
    warnings: list[str],
) -> tuple[Response, ...]:
    """Model responses of review rows, each joined to its instruction by record and question.

    A question that only the responses know becomes an instruction without gold. ``correct`` is
    None where the verdict is neither yes nor no; rows not used in the evaluation stay, marked.
    """
    responses: list[Response] = []
    for row in rows:
        record, question = record_of(row, records), row.get("question")
        if record is None or not question:
            what = "names no question" if record else "is about a record that is not in the cohort"
            skipped.append(row.skip(f"{what} — check filename and question"))
            continue
        responses.append(_response(questions.enter(row, record, question, warnings), row))
    return tuple(responses)


def _response(id: str, row: Row) -> Response:
    text_column = next((column for column in RESPONSE_TEXT if column in row.cells), "")
    taken = {text_column, "model_name", "binary_correct", "is_used_eval", "simulated"}
    response = Response(
        id,
        row.get("model_name"),
        row.cells.get(text_column, ""),
        truth(row.cells.get("binary_correct", "")),
        extra=tuple((k, v) for k, v in row.cells.items() if k not in taken and v),
    )
    used = "is_used_eval" not in row.cells or truth(row.cells["is_used_eval"]) is True
    return replace(response, used=used, simulated=truth(row.cells.get("simulated", "")) is True)
