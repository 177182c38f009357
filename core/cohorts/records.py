"""Records as files state them, and questions with gold and responses from tables.

An Instruction holds no answer; reference and evidence become a :class:`GoldSource`, which
:mod:`midchart.core.cohorts.gold` locates on access. Several annotators of one question on one
record are one instruction: the first one's answer is the reference, the evidence of all is merged.
"""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain, count
from pathlib import PurePath

from midchart.core.cohorts.columns import are_decimal_ids, known_names, read_id
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.tables import TableRow, header_of, leave_out, read_table
from midchart.core.errors import DataError, UnknownName
from midchart.core.storage.sources import Source
from midchart.core.text.prompt import MOST
from midchart.core.types import Event, Instruction, Record, Response, Span


class NamedRecords(Mapping[str, Record]):
    """Record id → Record; a record's other names are accepted as well.

    ``aliases``: other name (a file's name or stem) → id, or None for a file without a record of the
    cohort. An unknown name raises UnknownName.
    """

    def __init__(self, ids: Iterable[str], aliases: Mapping[str, str | None] | None) -> None:
        self._ids = {id: number for number, id in enumerate(ids)}
        self.aliases = aliases or {}

    def id_of(self, name: str) -> str | None:
        """The record's id for its id or another of its names; None where there is none."""
        return name if name in self._ids else self.aliases.get(name)

    def of_file(self, filename: str) -> str | None:
        """The id of the record in a file, named with or without its folder and ending.

        A file's name means that file, also where it is another record's id; any other name may be
        a record's id.
        """
        name = PurePath(filename.replace("\\", "/")).name
        forms = (filename, name, PurePath(name).stem)
        for form in forms:
            if form in self.aliases:
                return self.aliases[form]
        return next((form for form in forms if form in self._ids), None)

    @abstractmethod
    def _record(self, id: str) -> Record:
        """The record of an id; raises DataError."""

    def __getitem__(self, name: str) -> Record:
        id = self.id_of(name)
        if id is None:
            raise UnknownName("record", name, self._ids)
        return self._record(id)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.id_of(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class ReadRecords(NamedRecords):
    """The records that a loader reads from files; ``read`` gives that of an id.

    A record is read each time that it is asked for; a chart store asks once. One that cannot be
    read raises its DataError and enters ``log.skipped``.
    """

    def __init__(
        self,
        ids: Iterable[str],
        read: Callable[[str], Record],
        log: LoadLog,
        aliases: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__(ids, aliases)
        self._read, self._log = read, log

    def _record(self, id: str) -> Record:
        try:
            return self._read(id)
        except DataError as error:
            self._log.skip_error(error)
            raise


Entry = tuple[datetime | None, str, str, str, str, str, str, str, int | None, str]
"""An event before it has its order: time, kind, code, name, text, unit, note id, visit id, line,
author."""


def entry(
    time: datetime | None,
    kind: str,
    *,
    code: str = "",
    name: str = "",
    text: str = "",
    unit: str = "",
    note_id: str = "",
    visit_id: str = "",
    line: int | None = None,
    author: str = "",
) -> Entry:
    """An entry by field names."""
    return time, kind, code, name, text, unit, note_id, visit_id, line, author


def with_end(one: Entry, end: datetime | None) -> list[Entry]:
    """An entry, and one for its end where that is on a later day; without a text, the entry says
    that it starts then or was recorded."""
    lasting = end is not None and (one[0] is None or end.date() > one[0].date())
    started = (*one[:4], one[4] or ("start" if lasting else "recorded"), *one[5:])
    return [started, (end, *one[1:4], "end", "", *one[6:])] if lasting else [started]


def _time_order(entries: Sequence[Entry]) -> list[int]:
    """Indices in stable time order; an entry without a time stays after the one before it."""
    keys: list[datetime] = []
    last = datetime.min
    for one in entries:
        if one[0] is not None:
            last = one[0]
        keys.append(last)
    return sorted(range(len(entries)), key=keys.__getitem__)


def in_one_zone(id: str, entries: Sequence[Entry], log: LoadLog) -> Sequence[Entry]:
    """The entries of a record with naive times.

    Clock times stay as they are written, in local time, unless all have an offset and their order
    by clock is not that of their moments: then all are in the offset that most of them have, which
    is said.
    """
    times = [one[0] for one in entries if one[0] is not None]
    zoned = [time for time in times if time.tzinfo is not None]
    if not zoned:
        return entries
    zones = Counter(time.tzinfo for time in zoned)
    by_clock = sorted(zoned, key=lambda time: time.replace(tzinfo=None)) if len(zones) > 1 else []
    moved = len(zoned) == len(times) and by_clock != sorted(by_clock)
    ((zone, _),) = zones.most_common(1)
    if moved:
        offset = f"{times[0].astimezone(zone):%z}"
        log.warn(
            f"record {id}: times have several offsets, by which they are in order — all are shown "
            f"in UTC{offset[:3]}:{offset[3:]}"
        )
    clocks = [
        (t.astimezone(zone) if moved else t).replace(tzinfo=None) if t is not None else None
        for t in (one[0] for one in entries)
    ]
    return [(clock, *one[1:]) for clock, one in zip(clocks, entries, strict=True)]


def digest_of(id: str, entries: Sequence[Entry], facts: Sequence[tuple[str, str]]) -> str:
    """Hash (hex, 128 bits) of all content, the same in every process and on every machine.

    Lengths are hashed before the characters, so two different records never give the same input.
    Line numbers and authors are not content and are not hashed.
    """
    fields = [id, *chain.from_iterable(facts), *chain.from_iterable(one[1:8] for one in entries)]
    times = [one[0].isoformat() if one[0] else "" for one in entries]
    digest = hashlib.blake2b(digest_size=16)
    digest.update(array("Q", map(len, fields)))
    digest.update("".join(fields).encode("utf-8", "surrogatepass"))
    digest.update(",".join(times).encode())
    return digest.hexdigest()


def build_record(
    id: str, entries: Sequence[Entry], facts: Mapping[str, str], source: str, by_time: bool = True
) -> Record:
    """The record of these entries, sorted by time unless ``by_time`` is False."""
    ordered = [entries[i] for i in _time_order(entries)] if by_time else list(entries)
    stated = tuple(facts.items())
    events = tuple([Event(i, *one) for i, one in enumerate(ordered)])
    return Record(id, events, digest_of(id, ordered, stated), stated, source)


class PatientEntries:
    """Entries of many patients, collected in the order they are read, and made into records."""

    def __init__(self, log: LoadLog) -> None:
        self.log = log
        self.questions = Questions()
        """Those of the same files."""
        self.entries: dict[str, list[Entry]] = {}
        self.facts: dict[str, dict[str, str]] = {}
        """Demographics by patient, as the source states them."""
        self.ids: dict[tuple[str, str], str] = {}
        """Patient by (stated id, text), in a format whose ids are not unique."""
        self.aliases: dict[str, str | None] = {}
        """Other names of records (numbers, files); None where several records have one."""
        self._source: dict[str, str] = {}
        self._undated: dict[str, list[int]] = {}

    @staticmethod
    def unused(name: str, names: Container[str]) -> str:
        """The name, or else the first of ``name-2``, ``name-3``, … that is not among ``names``."""
        others = (f"{name}-{number}" for number in count(2))
        return next(one for one in chain([name], others) if one not in names)

    def add(self, patient: str, file: str, *entries: Entry) -> None:
        """Enter entries, none or several, read from ``file``; undated ones with a line count."""
        self.entries.setdefault(patient, []).extend(entries)
        self._source.setdefault(patient, file)
        undated = [one[8] for one in entries if one[0] is None and one[8] is not None]
        if undated:
            self._undated.setdefault(file, []).extend(undated)

    def name(self, patient: str, *names: str) -> None:
        """Let a patient's record be asked for by other names as well, where they are no other's."""
        for name in names:
            path = PurePath(name)
            for form in {name, path.name, path.stem} - {patient}:
                taken = self.aliases.setdefault(form, patient)
                self.aliases[form] = patient if taken == patient else None

    def records(self, by_time: bool = True) -> ReadRecords:
        """The records; one warning for each file with entries that have no readable time.

        ``by_time`` False: the format has no times, so entries stay in the order of the file.
        """
        for file, lines in self._undated.items() if by_time else ():
            self.log.warn(
                f"{file}:{lines[0]}: {len(lines)} entries have no readable time — they stay where "
                "the file has them and have no time position"
            )

        def read(patient: str) -> Record:
            entries = in_one_zone(patient, self.entries[patient], self.log)
            facts, source = self.facts.get(patient, {}), self._source[patient]
            return build_record(patient, entries, facts, source, by_time)

        aliases = {n: id for n, id in self.aliases.items() if n not in self.entries}
        return ReadRecords(self.entries, read, self.log, aliases)


QUESTION_COLUMNS = ("filename", "question", "evidence", "clinician_response")
RESPONSE_COLUMNS = ("filename", "question", "model_name")
_QUESTION_NAMES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(QUESTION_COLUMNS, ()),
    "filename": ("file", "file_name", "patient_id", "subject_id", "mrn"),
    **dict.fromkeys(
        (
            *("person_id", "instruction_id", "submitter_specialty", "specialty", "annotator_num"),
            *("domain", "task_type", "options", "evidence_spans"),
        ),
        (),
    ),
}
"""Column of a table of questions → the other names that it may have."""
_RESPONSE_TEXT = ("model_response", "response", "model_output", "generated_response", "output")
_SPAN = re.compile(r"\s*(\d{1,18}):(\d{1,18})-(\d{1,18})\s*")
_TRUE, _FALSE = frozenset({"true", "yes", "1", "1.0"}), frozenset({"false", "no", "0", "0.0"})
_BLANK = frozenset({"", "nan", "null"})
_R_OPENING = re.compile(r"(?:does|has|is|was|are|did)\b", re.IGNORECASE)
_S_VERB = r"(?:summari[sz]e|provide|list|describe|show)\b"
_R_PHRASE = re.compile(r"\b(?:most recent|current)\b", re.IGNORECASE)
_S_ANYWHERE = re.compile(rf"\b(?:{_S_VERB}|(?:over the past|throughout)\b)", re.IGNORECASE)
_S_OPENING = re.compile(rf"(?:please\s+)?{_S_VERB}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GoldSource:
    """The reference answer of an instruction, and what its source says of its evidence.

    ``snippets``: its texts. ``spans``: where the source says that it is (none: it is located by its
    text; None: what the source says cannot be read). ``exact``: the source itself states the spans,
    or that there are none. ``verbatim``: each span holds the snippet of the same number, or the
    record has changed since.
    """

    record_id: str
    answer: str
    snippets: tuple[str, ...]
    file: str
    line: int | None
    spans: tuple[Span, ...] | None = ()
    exact: bool = False
    verbatim: bool = False


@dataclass(slots=True)
class Questions:
    """What a cohort's question tables hold; ``gold``: sources to locate, by instruction id."""

    instructions: list[Instruction] = field(default_factory=list[Instruction])
    gold: dict[str, GoldSource] = field(default_factory=dict[str, GoldSource])
    responses: tuple[Response, ...] = ()
    _ids: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Record and question (spaces and case normalised) → instruction id."""
    records: dict[str, str] = field(default_factory=dict[str, str])
    """Instruction id → record id."""

    def enter(self, row: TableRow, record: str, question: str, log: LoadLog) -> str:
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
                    "the record; a new one was derived. Give each question its own instruction_id"
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
                    specialty=row.get("submitter_specialty") or row.get("specialty"),
                    domain=row.get("domain"),
                    task_type=row.get("task_type") or task_type_of(question),
                    options=split_evidence(row.get("options"))[:MOST],
                )
            )
        return self._ids[key]


@lru_cache(maxsize=1024)  # a question may be asked of every record
def task_type_of(question: str) -> str:
    """R, Rn or S by a question's words (docs/methods.md, Stage 2: tables).

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
    return True if text in _TRUE else False if text in _FALSE else None


def opaque_id(filename: str, question: str) -> str:
    """A stable id that does not reveal the patient or the question."""
    digest = hashlib.blake2b(f"{filename}\0{question}".encode(), digest_size=8)
    return f"q-{digest.hexdigest()}"


def typed_instruction(record_id: str, question: str) -> Instruction:
    """An instruction for a question that no file of the cohort holds; its id is always the same."""
    id = opaque_id(record_id, question).replace("q-", "typed-", 1)
    return Instruction(id, record_id, question, task_type=task_type_of(question))


def _about_records(
    rows: Iterable[TableRow], records: ReadRecords, log: LoadLog, verb: str, named: str
) -> Iterator[tuple[TableRow, str, str]]:
    """The rows with a question about a record of the cohort, each with the record's id and the
    question; the others are named, and counted by file and reason.

    ``verb``: how a row relates to its record; ``named``: the columns to check.
    """
    reasons: dict[str, Counter[str]] = {}
    for row in rows:
        record, question = records.id_of(row.get("person_id")), row.get("question")
        record = records.of_file(row.get("filename")) if record is None else record
        if record is not None and question:
            yield row, record, question
            continue
        reason, remedy = f"{verb} about a record that is not in the cohort", f"check {named}"
        if not question:
            reason, remedy = "has no question", "fill in the column question"
        log.skip(row.file, row.line, f"{reason} — {remedy}")
        reasons.setdefault(row.file, Counter())[reason] += 1
    for file, counts in reasons.items():
        leave_out(log, file, counts)


def read_questions(rows: Iterable[TableRow], records: ReadRecords, log: LoadLog) -> Questions:
    """Instructions and gold sources of question rows; bad rows are skipped."""
    questions = Questions()
    grouped: dict[str, list[TableRow]] = {}
    for row, record, question in _about_records(rows, records, log, "asks", "filename"):
        grouped.setdefault(questions.enter(row, record, question, log), []).append(row)
    for id, group in grouped.items():
        source = _gold_source(questions.records[id], group)
        if source is not None:
            questions.gold[id] = source
    merged = sum(len(group) > 1 for group in grouped.values())
    if merged:
        log.warn(
            f"{merged} questions have several annotators — the first one's answer is the "
            "reference, the evidence of all is united"
        )
    return questions


def read_question_tables(files: Iterable[Source], records: ReadRecords, log: LoadLog) -> Questions:
    """:func:`read_questions` of tables with the columns of MedAlign's; a bad table is skipped."""
    rows: list[TableRow] = []
    for file in files:
        with log.reading(file):
            table = read_table(file, QUESTION_COLUMNS, log, _QUESTION_NAMES)
            rows += _with_plain_ids(table, file.name, log)
    return read_questions(rows, records, log)


def _with_plain_ids(rows: Sequence[TableRow], name: str, log: LoadLog) -> Sequence[TableRow]:
    """The rows with patients as whole numbers where a column has them as decimals (1.0 is 1)."""
    decimal = [c for c in ("filename", "person_id") if are_decimal_ids({r.get(c) for r in rows})]
    for column in decimal:
        log.warn(f"{name}: {column} read as whole numbers (1.0 is 1)")
        for row in rows:
            row.cells[column] = read_id(row.get(column), True)
    return rows


def tables_in(place: Source) -> list[Source]:
    """The tables of questions in a folder, in the order of their names; none of a single file.

    Every ``.tsv`` is one, and every other delimited table with the columns of MedAlign's.
    """
    inside = place.entries() if place.is_folder() else []
    headers = ((file, header_of(file, QUESTION_COLUMNS)) for file in inside)
    named = ((file, {*known_names(header, _QUESTION_NAMES).values()}) for file, header in headers)
    return [file for file, of in named if file.ending == ".tsv" or of >= {*QUESTION_COLUMNS}]


def _annotator(row: TableRow) -> int:
    number = re.search(r"\d{1,18}", row.get("annotator_num"))
    return int(number.group()) if number else 0


def _gold_source(record: str, rows: Sequence[TableRow]) -> GoldSource | None:
    rows = sorted(rows, key=_annotator)
    answers = [row.get("clinician_response") for row in rows]
    answer = next((a for a in answers if a.lower() not in _BLANK), "")
    snippets = dict.fromkeys(s for row in rows for s in split_evidence(row.get("evidence")))
    if not answer and not snippets:
        return None
    with_evidence = [row for row in rows if split_evidence(row.get("evidence"))]
    spans = [row.get("evidence_spans") for row in rows if row.get("evidence_spans")]
    complete = all(row.get("evidence_spans") for row in with_evidence)
    exact = _stated_spans("|||".join(spans)) if spans and complete else ()
    place = (rows[0].file, rows[0].line)
    return GoldSource(record, answer, tuple(snippets), *place, exact, bool(exact))


def _stated_spans(text: str) -> tuple[Span, ...] | None:
    """Spans written as ``order:start-end|||…``; None unless all are."""
    matches = [_SPAN.fullmatch(part) for part in text.split("|||")]
    spans = [Span(*map(int, match.groups())) for match in matches if match is not None]
    return tuple(dict.fromkeys(spans)) if len(spans) == len(matches) else None


def read_responses(
    rows: Iterable[TableRow], questions: Questions, records: ReadRecords, log: LoadLog
) -> tuple[Response, ...]:
    """Model responses of review rows, each joined to its instruction by record and question.

    A question that only the responses contain becomes an instruction without gold. ``correct`` is
    None where the verdict is neither yes nor no; rows not used in the evaluation are marked.
    """
    responses: list[Response] = []
    about = _about_records(rows, records, log, "is", "filename and question")
    for row, record, question in about:
        cells = row.cells
        text_column = next((column for column in _RESPONSE_TEXT if column in cells), "")
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
