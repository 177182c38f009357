"""EHRNoteQA (PhysioNet, ehr-notes-qa-llms): multiple choice over discharge summaries.

``EHRNoteQA.jsonl`` has a question a line with choices A to E. The notes are its fields ``note_1``,
``note_2``, … (the authors' processed file), or MIMIC-IV-Note's ``discharge.csv`` or
``discharge.csv.gz`` in the same folder. The reference is the text of the correct choice; the format
marks no evidence.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.files import (
    LoadLog,
    data_error,
    parse_time,
    read_text,
    shown,
)
from midchart.core.cohorts.records import LazyRecords, PatientEntries, Questions, entry
from midchart.core.cohorts.tables import accept_long_cells, check_columns, opened
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.parsing import read_json

NOTES = ("discharge.csv.gz", "discharge.csv")
COLUMNS = ("note_id", "subject_id", "hadm_id", "charttime", "text")
LETTERS = "ABCDE"
_DATE = re.compile(r"^Chartdate : (\S+)$", re.MULTILINE)
_FORMAT = "see the format of EHRNoteQA"


class _EhrnoteqaQuestion(BaseModel):
    model_config = ConfigDict(extra="allow")
    patient_id: int | str
    question: Annotated[str, Field(pattern=r"\S")]
    choice_A: str
    choice_B: str
    choice_C: str
    choice_D: str
    choice_E: str = ""
    answer: Annotated[str, Field(pattern=r"^\s*[A-E]\s*$")]
    category: str = ""

    @property
    def choices(self) -> dict[str, str]:
        """Letter → the choice, of those that are not empty."""
        stated = {letter: getattr(self, f"choice_{letter}").strip() for letter in LETTERS}
        return {letter: choice for letter, choice in stated.items() if choice}

    @property
    def notes(self) -> list[str]:
        """The notes in the question's fields."""
        extra = self.model_extra or {}
        names = (f"note_{number}" for number in range(1, len(extra) + 1))
        return [note for name in names if isinstance(note := extra.get(name), str) and note.strip()]


def _discharge(path: Path, name: str, patients: set[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and cells of the rows of these patients, one at a time; raises DataError."""
    accept_long_cells()
    try:
        with io.TextIOWrapper(opened(path), encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            check_columns(list(rows.fieldnames or ()), COLUMNS, name)
            for number, row in enumerate(rows, 1):
                if (row["subject_id"] or "").strip() in patients:
                    yield number, {column: row[column] or "" for column in COLUMNS}
    except (EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        reason = f"cannot be read to its end ({type(error).__name__})"
        raise DataError(name, None, reason, "download it again") from None
    except OSError as error:
        raise data_error(error, name) from None


@LOADERS.register("ehrnoteqa")
class EhrNoteQa(RecordLoader):
    """EHRNoteQA's questions over discharge summaries of MIMIC-IV-Note."""

    name = "ehrnoteqa"
    title = "EHRNoteQA (JSON Lines of choices A to E, discharge notes)"
    source = "EHRNoteQA"
    licence = "PhysioNet Credentialed Health Data License"
    suffix, marks = ".jsonl", (b'"choice_A"', b'"patient_id"')
    sniffed, marks_in_line = 1 << 20, True

    def companions(self, place: Path) -> list[Path]:
        """MIMIC's discharge summaries, for a file of questions."""
        return [place.with_name(name) for name in NOTES] if place.is_file() else []

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        """The patients asked about who have notes, and their questions."""
        # Questions, line by line.
        asked: list[tuple[str, int, _EhrnoteqaQuestion]] = []
        for file in self.files(place):
            name = shown(file, root)
            log.opened.add(file)
            with log.skipping(name):
                for number, line in enumerate(read_text(file, name).split("\n"), 1):
                    if not line.strip():
                        continue
                    try:
                        stated = _EhrnoteqaQuestion.model_validate(read_json(line, name, number))
                    except DataError as error:
                        log.skip_error(error)
                    except ValidationError:
                        reason = "lacks patient_id, question, choice_A to choice_D or answer"
                        log.skip(name, number, f"{reason} — {_FORMAT}")
                    else:
                        asked.append((name, number, stated))
        # Notes: those in the questions' file, then MIMIC's discharge summaries.
        patients, questions, counts = PatientEntries(log), Questions(), Counter[str]()
        for name, number, one in asked:
            if str(one.patient_id) not in patients.entries:
                for place_of_note, text in enumerate(one.notes, 1):
                    date = _DATE.search(text)
                    note = entry(
                        parse_time(date[1] if date else None), "note", name="discharge summary",
                        text=text, note_id=f"note_{place_of_note}", line=number,
                    )  # fmt: skip
                    patients.add(str(one.patient_id), name, note)
        _add_discharge(place, root, patients, {str(one.patient_id) for _, _, one in asked})
        if not asked:
            raise log.nothing_read(place.name, "holds no question")
        if not patients.entries:
            reason = "holds no notes of the patients asked about"
            remedy = f"put MIMIC-IV-Note's {NOTES[0]} into its folder"
            raise DataError(place.name, None, reason, remedy)
        # Each question with its answer, or why it is left out.
        for name, number, one in asked:
            id, answer = str(one.patient_id), one.choices.get(one.answer.strip())
            if id not in patients.entries or answer is None:
                reason = "asks about a patient without notes"
                reason = (
                    reason if id not in patients.entries else "names an answer without a choice"
                )
                log.skip(name, number, f"{reason} — {_FORMAT}")
                continue
            counts[id] += 1
            options = tuple(one.choices.values())
            questions.ask(
                f"{id}-q{counts[id]}", id, one.question, (answer, (), False),
                domain=one.category, options=options,
            )  # fmt: skip
        records = patients.records()
        questions.locate(records)
        return records, questions


def _add_discharge(place: Path, root: Path, patients: PatientEntries, asked: set[str]) -> None:
    """Enter the notes of discharge.csv of the patients without notes."""
    folder = place if place.is_dir() else place.parent
    missing = asked - set(patients.entries)
    table = next((folder / name for name in NOTES if (folder / name).is_file()), None)
    if table is None or not missing:
        return
    name = shown(table, root)
    # Without other notes the table is what the cohort needs, and its error is the cohort's.
    with patients.log.skipping(name) if patients.entries else nullcontext():
        for number, row in _discharge(table, name, missing):
            note = entry(
                parse_time(row["charttime"]), "note", name="discharge summary",
                text=row["text"], note_id=row["note_id"], visit_id=row["hadm_id"], line=number,
            )  # fmt: skip
            patients.add(row["subject_id"].strip(), name, note)
