"""Plain notes: a CSV or JSONL of patient_id, time, text, or a folder of ``.txt`` files.

In a folder of text files each file is a patient, and each sub-folder of text files is a patient
whose notes are its files in order of name; a name that starts with an ISO date dates its note. A
table without patient_id and text, or in a sub-folder, is skipped. Questions come from any ``.tsv``
in the same folder, in MedAlign's column names, ``filename`` being the patient_id (with or without
an ending).
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.base import RecordLoader
from core.loaders.files import LoadLog, parse_time, read_text, shown
from core.loaders.records import (
    LazyRecords,
    PatientEntries,
    Questions,
    entry,
    read_question_tables,
    tables_in,
)
from core.loaders.tables import Row, read_table
from core.parsing import read_json

NEEDED = ("patient_id", "text")
_TABLES = {".csv", ".jsonl", ".ndjson"}
HEAD_LINES = 64
"""Lines of a JSONL that are checked for notes; loading reads all."""
_NOT_NOTES = {"readme", "license", "licence", "copying", "changelog", "notice", "requirements"}
_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T_ ](\d{2})[-:.]?(\d{2}))?")


def _is_table(path: Path) -> bool:
    """Whether a file is a CSV or JSONL with patient_id and text in one of its first lines."""
    if not path.is_file() or path.suffix.lower() not in _TABLES:
        return False
    with path.open("rb") as file:
        if path.suffix.lower() != ".csv":
            return any(not isinstance(_cells(line), str) for line in islice(file, HEAD_LINES))
        head = file.read(1 << 16).decode("utf-8-sig", "replace")
    first = next((line for line in head.splitlines() if line.strip()), "")
    return set(NEEDED) <= {cell.strip().strip('"') for cell in first.split(",")}


def _is_note(path: Path) -> bool:
    return path.suffix.lower() == ".txt" and path.stem.lower() not in _NOT_NOTES


def _cells(line: str | bytes) -> dict[str, str] | str:
    """The cells of a JSONL line, or why it has none."""
    try:
        cells = read_json(line, "", 1, "one object a line")
    except DataError as error:
        return f"{error.reason} — {error.remedy}"
    if not isinstance(cells, dict) or not set(NEEDED) <= cells.keys():
        return "lacks patient_id or text — name both"
    return {str(k): "" if v is None else str(v) for k, v in cells.items()}


def _read_jsonl(path: Path, name: str, log: LoadLog) -> list[Row]:
    rows: list[Row] = []
    bad: list[tuple[int, str]] = []
    for line, content in enumerate(read_text(path, name).split("\n"), 1):
        cells = _cells(content) if content.strip() else None
        if isinstance(cells, str):
            bad.append((line, cells))
        elif cells is not None:
            rows.append(Row(name, line, cells))
    if not rows:
        reason = "has no line that names patient_id and text"
        raise DataError(name, None, reason, "one JSON object a line, with both")
    for line, reason in bad:
        log.skip(name, line, reason)
    return rows


def _read_notes_table(path: Path, name: str, patients: PatientEntries) -> None:
    """Enter all rows of a CSV or JSONL; raises DataError where it has no such rows."""
    csv = path.suffix.lower() == ".csv"
    log = patients.log
    rows = read_table(path, name, NEEDED, log, ",") if csv else _read_jsonl(path, name, log)
    for row in rows:
        patient = row.get("patient_id")
        if not patient:
            log.skip(name, row.line, "has no patient_id — fill it in")
            continue
        one = entry(
            parse_time(row.get("time")),
            row.get("type", "kind") or "note",
            code=row.get("code"),
            name=row.get("name"),
            text=row.cells.get("text", ""),
            unit=row.get("unit"),
            note_id=row.get("note_id"),
            visit_id=row.get("visit_id"),
            line=row.line,
        )
        patients.add(patient, name, one)


@LOADERS.register("plain_notes")
class PlainNotes(RecordLoader):
    """Notes as a table or as text files, with an optional table of questions."""

    name = "plain_notes"
    title = "plain notes (CSV or JSONL with patient_id, time, text; or a folder of .txt)"
    source = "plain notes"

    def accepts(self, path: str) -> bool:
        """A table that names patient_id and text, a .txt file, or a folder with either."""
        place = Path(path)
        if place.is_file():
            return _is_note(place) or _is_table(place)
        inside = [*place.glob("*"), *place.glob("*/*")]
        return any(_is_note(f) or (f.parent == place and _is_table(f)) for f in inside)

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        """All notes and questions."""
        patients = PatientEntries(log)
        inside = sorted(place.iterdir()) if place.is_dir() else [place]
        undated = sum(_read_file(patients, file, root) for file in inside)
        records = patients.records()
        if undated:
            log.warn(
                f"{undated} text files have no date — name them YYYY-MM-DD….txt to give them a "
                "time position"
            )
        if not records:
            raise log.nothing_read(place.name, "holds no note")
        return records, read_question_tables(tables_in(place), records, log)


def _read_file(patients: PatientEntries, file: Path, root: Path, patient: str | None = None) -> int:
    """Enter a file of the cohort, or of the folder of ``patient``; what fails is skipped.

    The number of its notes without a date in their file names.
    """
    name, log = shown(file, root), patients.log
    with log.skipping(name):
        if _is_note(file):
            log.opened.add(file)
            text = read_text(file, name)
            match = _DATED.match(file.stem)
            stamp = f"{match[1]} {match[2] or '00'}:{match[3] or '00'}" if match else None
            time = parse_time(stamp)
            patients.add(
                patient or file.stem, name, entry(time, "note", text=text, note_id=file.stem)
            )
            return int(time is None)
        if file.is_dir() and patient is None:
            return sum(_read_file(patients, f, root, file.name) for f in sorted(file.iterdir()))
        if file.is_dir() and any(_is_note(inner) for inner in sorted(file.iterdir())):
            log.skip(name, None, "holds text files too deep — put them in the patient's own folder")
        elif file.suffix.lower() in _TABLES and patient is None:
            log.opened.add(file)
            _read_notes_table(file, name, patients)
        elif file.suffix.lower() in _TABLES and not file.is_dir():
            log.skip(name, None, "is a table in a sub-folder — put it in the cohort's own folder")
    return 0
