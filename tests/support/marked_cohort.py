"""A cohort whose sentences name their patient and their day, for tests that look for leaks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from string import ascii_lowercase

from midchart.core.loaders.open import open_cohort
from midchart.core.types import Cohort
from tests.support.run_helpers import allow

DAYS = 8
CUTOFF_DAY = 6
"""A question is asked on this day: what is dated later is the future."""
_MARK = re.compile(r"\bpatient(\d\d)\b")
_DAY = re.compile(r"\bon day (\d+)\b")


def evidence_day(patient: int) -> int:
    """The day of the sentence that answers: the first of an even patient, the sixth of an odd."""
    return 6 if patient % 2 else 1


def answer(patient: int) -> str:
    """A word that stands in one sentence of the record up to the cutoff, and in one after it."""
    return f"zolpin{ascii_lowercase[patient]}"


def sentence(patient: int, day: int) -> str:
    """What patient's note of a day says."""
    holds = day in (evidence_day(patient), CUTOFF_DAY + 1)
    what = f"started {answer(patient)}" if holds else f"had sodium {120 + day}"
    return f"patient{patient:02d} {what} on day {day}."


def patient_in(text: str) -> int:
    """The patient that a question or sentence is about."""
    match = _MARK.search(text)
    assert match, "a text without its patient"
    return int(match[1])


def day_in(text: str) -> int:
    """The day that a sentence states."""
    match = _DAY.search(text)
    assert match, "a sentence without its day"
    return int(match[1])


def make(folder: Path, patients: int) -> Cohort:
    """Patients 0, 1, … with a note a day and one question, asked on day :data:`CUTOFF_DAY`."""
    notes, questions = [], ["instruction_id\tfilename\tquestion\tevidence\tclinician_response"]
    for patient in range(patients):
        for day in range(1, DAYS + 1):
            note = {"patient_id": f"p{patient:02d}", "time": f"2015-01-{day:02d}"}
            notes.append(json.dumps({**note, "text": sentence(patient, day)}))
        asked = f"Which medicine was started for patient{patient:02d}?"
        evidence = sentence(patient, evidence_day(patient))
        questions.append(f"q{patient:02d}\tp{patient:02d}\t{asked}\t{evidence}\t{answer(patient)}")
    (folder / "notes.jsonl").write_text("\n".join(notes), "utf-8")
    (folder / "questions.tsv").write_text("\n".join(questions), "utf-8")
    tag = 'name = "marked"\nsynthetic = true\ntraining_allowed = true\n'
    (folder / "midchart.toml").write_text(tag)
    allow(folder, "training_allowed")
    cohort = open_cohort(str(folder))
    cutoff = datetime(2015, 1, CUTOFF_DAY, 23)
    asked = tuple(replace(one, cutoff=cutoff) for one in cohort.instructions)
    return replace(cohort, instructions=asked)
