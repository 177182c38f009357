"""Plain notes: a CSV or JSONL of patient_id, time, text, or a folder of ``.txt`` files.

In a folder of text files each file is a patient, and each sub-folder of text files is a patient
whose notes are its files in the order of their names; a name that opens with an ISO date dates
its note. A table that names no patient_id and text, or lies where none is read, is skipped by
name. Questions come from any ``.tsv`` beside them, in MedAlign's column names, ``filename``
being the patient_id (with or without an ending).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.files import Row, data_error, parse_time, read_table, read_text, shown, skip_of
from core.loaders.gold import LazyGold
from core.loaders.manifest import cohort_root, read_manifest
from core.loaders.questions import QUESTION_COLUMNS, read_questions
from core.loaders.records import LazyRecords, Raw, build_record
from core.types import Cohort, Manifest, Record, Skip

NEEDED = ("patient_id", "text")
_LINES = {".jsonl", ".ndjson"}
_TABLES = {".csv", *_LINES}
LOOKED_AT = 64
"""Lines of a JSONL that are looked at to tell whether it holds notes; loading reads all."""
_ABOUT = {"readme", "license", "licence", "copying", "changelog", "notice", "requirements"}
_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T_ ](\d{2})[-:.]?(\d{2}))?")


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(1 << 16).decode("utf-8-sig", "replace")


def _is_table(path: Path) -> bool:
    """Whether a file is a CSV or JSONL that names patient_id and text, one of its first lines."""
    if not path.is_file() or path.suffix.lower() not in _TABLES:
        return False
    if path.suffix.lower() == ".csv":
        first = next((line for line in _head(path).splitlines() if line.strip()), "")
        return set(NEEDED) <= {cell.strip().strip('"') for cell in first.split(",")}
    with path.open("rb") as file:
        return any(not isinstance(_cells(line), str) for line in islice(file, LOOKED_AT))


def _is_note(path: Path) -> bool:
    return path.suffix.lower() == ".txt" and path.stem.lower() not in _ABOUT


@dataclass
class _Notes:
    """Entries of each patient in the order they were read, with what could not be."""

    skipped: list[Skip]
    warnings: list[str]
    raw: dict[str, list[Raw]] = field(default_factory=dict[str, list[Raw]])
    source: dict[str, str] = field(default_factory=dict[str, str])
    undated: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def add(self, row: Row) -> None:
        """Enter one row of a table; an empty patient_id skips it."""
        patient = row.get("patient_id")
        if not patient:
            self.skipped.append(row.skip("has no patient_id — fill it in"))
            return
        time = parse_time(row.get("time"))
        if time is None:
            count, first = self.undated.get(row.file, (0, row.line))
            self.undated[row.file] = (count + 1, first)
        entry: Raw = (
            time,
            row.get("type", "kind") or "note",
            row.get("code"),
            row.get("name"),
            row.cells.get("text", ""),
            row.get("unit"),
            row.get("note_id"),
            row.get("visit_id"),
            row.line,
        )
        self.raw.setdefault(patient, []).append(entry)
        self.source.setdefault(patient, row.file)

    def read_table(self, path: Path, name: str) -> None:
        """Enter all rows of a CSV or JSONL; raises DataError where it has no such rows."""
        if path.suffix.lower() == ".csv":
            for row in read_table(path, name, NEEDED, self.skipped, self.warnings, ","):
                self.add(row)
        else:
            bad: list[Skip] = []
            rows = list(_json_rows(read_text(path, name), name, bad))
            if not rows:
                raise DataError(
                    name, None, "has no line that names patient_id and text",
                    "one JSON object a line, with both",
                )  # fmt: skip
            self.skipped.extend(bad)
            for row in rows:
                self.add(row)

    def read_note(self, path: Path, name: str, patient: str) -> None:
        """Enter one text file; its name may open with its date."""
        text = read_text(path, name)
        found = _DATED.match(path.stem)
        stamp = " ".join((found[1], f"{found[2] or '00'}:{found[3] or '00'}")) if found else None
        time = parse_time(stamp)
        if time is None:
            count, first = self.undated.get(name, (0, 1))
            self.undated[name] = (count + 1, first)
        self.raw.setdefault(patient, []).append(
            (time, "note", "", "", text, "", path.stem, "", None)
        )
        self.source.setdefault(patient, name)

    def tell(self) -> None:
        """Turn counts into one warning each; text files without dates share one."""
        tables = {f: found for f, found in self.undated.items() if not f.lower().endswith(".txt")}
        for file, (count, first) in tables.items():
            self.warnings.append(
                f"{file}:{first}: {count} entries have no readable time — they stay where the "
                "file has them and have no time position"
            )
        if len(tables) < len(self.undated):
            self.warnings.append(
                f"{len(self.undated) - len(tables)} text files have no date — name them "
                "YYYY-MM-DD….txt to give them a time position"
            )


def _json_rows(text: str, name: str, skipped: list[Skip]) -> Iterator[Row]:
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        cells = _cells(content)
        if isinstance(cells, str):
            skipped.append(Skip(name, line, cells))
        else:
            yield Row(name, line, cells)


def _cells(line: str | bytes) -> dict[str, str] | str:
    """The cells of a JSONL line, or why it has none."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return "is not one JSON object — one object a line"
    if not isinstance(found, dict) or not set(NEEDED) <= found.keys():
        return "lacks patient_id or text — name both"
    return {str(k): "" if v is None else str(v) for k, v in found.items()}


def _record(patient: str, raw: list[Raw], source: str) -> tuple[Record, list[str]]:
    return build_record(patient, raw, {}, source), []


@LOADERS.register("plain_notes")
class PlainNotes:
    """Notes as a table or as text files, with an optional table of questions."""

    name = "plain_notes"
    title = "plain notes (CSV or JSONL with patient_id, time, text; or a folder of .txt)"

    def accepts(self, path: str) -> bool:
        """A table that names patient_id and text, a .txt file, or a folder with either."""
        place = Path(path)
        if place.is_file():
            return _is_note(place) or _is_table(place)
        inside = [*place.glob("*"), *place.glob("*/*")]
        return any(_is_note(f) or (f.parent == place and _is_table(f)) for f in inside)

    def load(self, path: str) -> Cohort:
        """Read all notes and questions; raises DataError where there is not one note."""
        place = Path(path)
        root = cohort_root(place)
        skipped: list[Skip] = []
        warnings: list[str] = []
        notes = _Notes(skipped, warnings)
        inside = sorted(place.iterdir()) if place.is_dir() else [place]
        for file in inside:
            _enter(notes, file, root)
        notes.tell()
        if not notes.raw:
            first = skipped[0] if skipped else Skip(place.name, None, "holds no note")
            raise DataError(first.file, first.line, first.reason)
        readers = {p: partial(_record, p, raw, notes.source[p]) for p, raw in notes.raw.items()}
        records = LazyRecords(readers, {}, skipped, warnings)
        rows: list[Row] = []
        for file in inside if place.is_dir() else []:
            if file.suffix.lower() == ".tsv":
                try:
                    rows += read_table(file, file.name, QUESTION_COLUMNS, skipped, warnings)
                except DataError as error:
                    skipped.append(skip_of(error))
        questions = read_questions(rows, records, skipped, warnings)
        return Cohort(
            path=str(place),
            format=self.name,
            manifest=read_manifest(root, Manifest(root.name, source="plain notes"), skipped),
            records=records,
            instructions=tuple(questions.instructions),
            gold=LazyGold(questions.gold, records, warnings),
            skipped=skipped,
            warnings=warnings,
        )


def _enter(notes: _Notes, file: Path, root: Path, patient: str | None = None) -> None:
    """Enter a file of the cohort, or of the folder of ``patient``; what fails is skipped."""
    name = shown(file, root)
    try:
        if _is_note(file):
            notes.read_note(file, name, patient or file.stem)
        elif file.is_dir():
            inside = sorted(file.iterdir())
            if patient is None:
                for part in inside:
                    _enter(notes, part, root, file.name)
            elif any(_is_note(part) for part in inside):
                reason = "holds text files too deep — put them in the patient's own folder"
                notes.skipped.append(Skip(name, None, reason))
        elif file.suffix.lower() in _TABLES:
            if patient is None:
                notes.read_table(file, name)
            else:
                reason = "is a table in a sub-folder — put it in the cohort's own folder"
                notes.skipped.append(Skip(name, None, reason))
    except OSError as error:
        notes.skipped.append(skip_of(data_error(error, name)))
    except DataError as error:
        notes.skipped.append(skip_of(error))
