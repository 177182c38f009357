"""Plain notes: a CSV, TSV or JSONL of patient_id, time, text, or files of text, PDF, RTF or HTML.

In a folder of text files each file is a patient, and each sub-folder of text files is a patient
whose notes are its files in order of name; a name that starts with an ISO date dates its note.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import (
    ISO,
    are_decimal_ids,
    decide_times,
    distinct,
    folded,
    known_names,
    read_id,
    with_offset,
)
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.identity import Demographics, People
from midchart.core.cohorts.manifest import column_settings
from midchart.core.cohorts.parallel import each_file
from midchart.core.cohorts.records import Entry, PatientEntries, entry, tables_in
from midchart.core.cohorts.tables import (
    DELIMITERS,
    TABLES,
    TableRow,
    header_of,
    leave_out,
    read_table,
    text_of,
)
from midchart.core.documents.payloads import cell_text, payload_text
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.parsing import read_json
from midchart.core.storage.encodings import encoding_read
from midchart.core.storage.sources import Source

Settings = Mapping[str, str]
"""How midchart.toml says that columns are read."""
NEEDED = ("patient_id", "text")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "patient_id": (
        *("subject_id", "person_id", "patient", "subject", "pat_id", "pid", "mrn", "pat_mrn_id"),
        *("medical_record_number", "patient_number", "patient_no"),
    ),
    "time": (
        *("charttime", "chartdate", "datetime", "date_time", "timestamp", "note_datetime"),
        *("note_date", "note_time", "date", "visit_date", "visit_datetime", "service_date"),
        *("encounter_date", "contact_date", "document_date", "report_date", "event_time", "start"),
    ),
    "text": (
        *("note_text", "note", "body", "report", "report_text", "note_body", "content"),
        *("document", "document_text", "narrative", "clinical_note", "transcription"),
    ),
    "type": ("kind", "note_type", "category"),
    "name": ("title", "note_title"),
    "code": (),
    "unit": (),
    "note_id": ("document_id", "report_id"),
    "visit_id": ("hadm_id", "encounter_id", "visit_occurrence_id"),
}
"""Column of a table of notes → the other names that it may have."""
_PERSON: Mapping[str, tuple[str, ...]] = {
    "family_name": ("last_name", "surname", "patient_name", "patient_last_name"),
    "birth_date": ("birthdate", "date_of_birth", "dob"),
    "sex": ("gender",),
}
"""Demographics that show two people under one patient_id."""
_TIMES = frozenset(map(folded, ("time", *COLUMNS["time"])))
_OTHER_NAMES = {**COLUMNS, **_PERSON}
HEAD_LINES = 64
"""Lines of a table that are checked for notes; loading reads all."""
_NOT_NOTES = {"readme", "license", "licence", "copying", "changelog", "notice", "requirements"}
_NOTE_FILES = {".txt": "text/plain", ".pdf": "application/pdf", ".rtf": "text/rtf",
               ".html": "text/html", ".htm": "text/html"}  # fmt: skip
"""Endings of files that are a note each, and their types."""
_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T_ ](\d{2})[-:.]?(\d{2}))?")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?(?:\s*[AaPp][Mm])?")


def _is_table(file: Source) -> bool:
    """Whether a file is a table with a patient and a text in its header or first lines."""
    if header := header_of(file, NEEDED):
        return {*NEEDED} <= {*known_names(header, COLUMNS).values()}
    if file.ending in (".jsonl", ".ndjson") and file.is_file():
        with suppress(DataError), file.open() as lines:  # reading the table says what is wrong
            return any(not isinstance(_cells(line), str) for line in islice(lines, HEAD_LINES))
    return False


def _is_note(file: Source) -> bool:
    """Whether a file is a text or a document with a text."""
    return file.ending in _NOTE_FILES and file.stem.lower() not in _NOT_NOTES


def _cells(line: str | bytes) -> dict[str, str] | str:
    """The cells of a JSONL line by the names of columns, or why it has none."""
    try:
        cells = read_json(line, "", 1, "one object a line")
    except DataError as error:
        return f"{error.reason} — {error.remedy}"
    names = known_names(tuple(map(str, cells)), _OTHER_NAMES) if isinstance(cells, dict) else {}
    if not set(NEEDED) <= set(names.values()):
        return "lacks patient_id or text — name both"
    return {names.get(str(k), str(k)): _cell(v) for k, v in cells.items()}


def _cell(value: object) -> str:
    """A JSON value as the text of a cell: each member is a line; FHIR stays as it is."""
    if isinstance(value, list):
        return "\n".join(map(_cell, value))
    if isinstance(value, dict) and "resourceType" not in value:
        return "\n".join(f"{name}: {_cell(one)}" for name, one in value.items())
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def _read_jsonl(file: Source, log: LoadLog) -> list[TableRow]:
    name, rows = file.name, list[TableRow]()
    bad: list[tuple[int, str]] = []
    for line, content in enumerate(text_of(file, log).split("\n"), 1):
        cells = _cells(content) if content.strip() else None
        if isinstance(cells, str):
            bad.append((line, cells))
        elif cells is not None:
            rows.append(TableRow(name, line, cells))
    if not rows:
        reason = "has no line that names patient_id and text"
        raise DataError(name, None, reason, "one JSON object a line, with both")
    for line, reason in bad:
        log.skip(name, line, reason)
    reasons = {"is no object with patient_id and text": len(bad)}
    log.account(name, "rows", total=len(rows) + len(bad), shown=len(rows), reasons=reasons)
    return rows


def _read_times(
    columns: Mapping[str, Sequence[str]], name: str, table: str, settings: Settings, log: LoadLog
) -> list[datetime | None]:
    """The time of each row: of the first of its columns of times that states one.

    A column of clock times belongs to the first column of dates.
    """
    texts = {column: columns[column] for column in columns if folded(column) in _TIMES}
    texts = dict(sorted(texts.items(), key=lambda one: one[0] != "time"))
    clocks = [c for c, cells in texts.items() if any(cells) and all(map(_is_clock, cells))]
    dates = [column for column in texts if column not in clocks]
    if clocks and dates:
        clock, date = clocks[0], dates[0]
        pairs = zip(texts[date], texts[clock], strict=True)
        texts[date] = [f"{day} {time}" if day and time else day for day, time in pairs]
        log.warn(f"{name}: {clock} read as the clock time of {date}")
        texts = {column: texts[column] for column in dates}
    values = {column: distinct(cells) for column, cells in texts.items()}
    readings = decide_times(name, table, values, settings, log)
    times: list[datetime | None] = [None] * len(next(iter(columns.values()), ()))
    first = next(iter(texts), "")
    for column, cells in texts.items():
        read = {text: with_offset(text, readings[column].read(text)) for text in values[column]}
        filled = [n for n, text in enumerate(cells) if times[n] is None and read[text]]
        for n in filled:
            times[n] = read[cells[n]]
        if filled and column != first:
            log.warn(f"{name}: {len(filled):,} rows without {first} have the time of {column}")
    return times


def _is_clock(text: str) -> bool:
    """Whether a cell states nothing but a clock time, or nothing."""
    return not text or _CLOCK.fullmatch(text) is not None


_STATED = ("code", "name", "unit", "note_id", "visit_id")
"""Columns that are copied into the entry as they are."""


def _read_notes_table(
    file: Source, patients: PatientEntries, people: People, settings: Settings
) -> None:
    """Enter all rows of a table; raises DataError where it has no such rows."""
    log, name, table = patients.log, file.name, file.stem.lower()
    is_delimited = file.ending in DELIMITERS
    rows = read_table(file, NEEDED, log, _OTHER_NAMES) if is_delimited else _read_jsonl(file, log)
    named = dict.fromkeys(chain.from_iterable(row.cells for row in rows))
    columns = {column: [row.get(column) for row in rows] for column in named}
    ids = columns.get("patient_id", [])
    decimal = are_decimal_ids(set(ids))
    if decimal:
        log.warn(f"{name}: patient_id read as whole numbers (1.0 is 1)")
    times = _read_times(columns, name, table, settings, log)
    born = _birth_dates(columns, name, table, settings, log)
    facts = [column for column in _STATED if column in columns]
    described = not _PERSON.keys().isdisjoint(columns)
    reasons = Counter[str]()
    for n, (row, time) in enumerate(zip(rows, times, strict=True)):
        patient = read_id(ids[n], decimal)
        if not patient:
            log.skip(name, row.line, "names no person — fill in patient_id")
            reasons["names no person"] += 1
            continue
        person = Demographics(row.get("family_name"), born.get(n, ""), row.get("sex"))
        if described and not people.same(("", patient), person, name, row.line):
            reasons["is about another person"] += 1
            continue
        text, problem = cell_text(row.cells.get("text", ""))
        if problem:
            log.skip(name, row.line, f"has a text that {problem}")
        one = entry(
            time,
            row.get("type") or "note",
            text=text or (f"not read: the text {problem}" if problem else ""),
            line=row.line,
            **{column: columns[column][n] for column in facts},
        )
        patients.add(patient, name, one)
    leave_out(log, name, reasons)


def _birth_dates(
    columns: Mapping[str, Sequence[str]], name: str, table: str, settings: Settings, log: LoadLog
) -> dict[int, str]:
    """The birth date of each row that states one."""
    stated = columns.get("birth_date", ())
    values = {"birth_date": distinct(stated)} if any(stated) else {}
    readings = decide_times(name, table, values, settings, log)
    read = {n: readings["birth_date"].read(text) for n, text in enumerate(stated) if text}
    return {n: date.date().isoformat() for n, date in read.items() if date}


@LOADERS.register("plain_notes")
class PlainNotes(RecordLoader):
    """Notes as a table or as text files, with an optional table of questions."""

    name = "plain_notes"
    title = "plain notes (CSV or JSONL with patient_id, time, text; or .txt, .pdf, .rtf, .html)"
    source, unit = "plain notes", "note"

    def accepts(self, place: Source) -> bool:
        """A table that names patient_id and text, a note's file, or a folder with either; PDF and
        HTML alone where nothing else is in the folder, as they may describe other data."""
        if place.is_file():
            return _is_note(place) or _is_table(place)
        inside = place.entries("*", "*/*")
        if any(map(_is_table, place.entries())):
            return True
        notes = [f for f in inside if _is_note(f)]
        others = [f for f in inside if f.is_file() and f not in notes and f.ending not in TABLES]
        return any(f.ending == ".txt" for f in notes) or bool(notes and not others)

    def enter(self, place: Source, patients: PatientEntries) -> list[Source]:
        """All notes and questions."""
        log, people = patients.log, People(patients.log)
        settings, undated = column_settings(place.root, log), 0
        questions = [table for table in tables_in(place) if not _is_table(table)]
        encodings: dict[str, list[str]] = {}
        patient_of: dict[Source, str] = {}
        for part in place.entries():
            with log.skipping():
                for file in part.entries():
                    is_table = file == part and file.ending in TABLES and file not in questions
                    if _is_note(file) or is_table:
                        patient_of[file] = part.own_name if part.is_folder() else part.stem
        texts = list(filter(_is_note, patient_of))
        notes = dict(each_file(texts, log, _text_note, tuple[Entry, str]))
        for file, patient in patient_of.items():
            if file in notes:
                note, encoding = notes[file]
                patients.add(patient, file.name, note)
                encodings.setdefault(encoding, []).append(file.name)
                undated += note[0] is None
            elif file not in log.opened:
                with log.reading(file):
                    _read_notes_table(file, patients, people, settings)
        for encoding, files in encodings.items():
            more = f" and {len(files) - 1:,} more files" if len(files) > 1 else ""
            if encoding:
                log.warn(encoding_read(files[0] + more, encoding))
        if undated:
            log.warn(
                f"{undated} text files have no date — name them YYYY-MM-DD….txt to give them a "
                "time position"
            )
        return questions


def _text_note(file: Source, log: LoadLog) -> tuple[Entry, str]:
    """The note of a file, and its encoding where that is not UTF-8."""
    kind, encoding = _NOTE_FILES[file.ending], ""
    if kind == "application/pdf":
        text, problem = payload_text(file.content(), kind)
    else:
        content, encoding = file.decoded()
        plain = kind == "text/plain"
        text, problem = cell_text(content) if plain else payload_text(content, kind)
    match = _DATED.match(file.stem)
    stamp = f"{match[1]} {match[2] or '00'}:{match[3] or '00'}" if match else ""
    if problem:
        log.skip(file.name, None, problem)
        text = f"not read: the file {problem}"
    return entry(ISO.read(stamp), "note", text=text, note_id=file.stem), encoding
