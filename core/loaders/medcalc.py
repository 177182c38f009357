"""MedCalc-Bench (ncbi-nlp, CC BY-SA 4.0): case notes, a calculation asked about each.

A note is a record. The reference is the ground-truth answer. The evidence of a question are the
sentences that state the numbers of its relevant entities: of several places of a number the first
near the entity's name. It is found so, not marked by the authors; sex and yes or no are left out.
"""

from __future__ import annotations

import re
from pathlib import Path

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.records import MOST_PIECES, PatientEntries, Questions, entry
from midchart.core.cohorts.tables import read_table
from midchart.core.loaders import LOADERS
from midchart.core.text.splitting import split
from midchart.core.types import Span

COLUMNS = ("Patient Note", "Question", "Relevant Entities", "Ground Truth Answer")
BEFORE, AFTER = 60, 25
"""Characters before and after a number in which the entity's name makes it the entity's."""
_ENTITY = re.compile(r"""(?:'([^']+)'|"([^"]+)")\s*:\s*\[?\s*(-?\d+(?:\.\d+)?)""")
_ID = re.compile(r"[^A-Za-z0-9-]")


def evidence(text: str, entities: str) -> list[tuple[int, int]]:
    """The sentences of a note that state the numbers of ``entities``, as the column writes them."""
    sentences = split(text)
    places: set[tuple[int, int]] = set()
    for match in list(_ENTITY.finditer(entities))[:MOST_PIECES]:
        name, written = (match[1] or match[2]).lower(), match[3]
        forms = "|".join(re.escape(form) for form in {f"{float(written):g}", written})
        numbers = list(re.finditer(rf"(?<![\d.,])(?:{forms})(?!\d|\.\d)", text))
        word = name.split()[0][:5] if name.split() else ""
        near = [
            number for number in numbers
            if word in text[max(0, number.start() - BEFORE) : number.end() + AFTER].lower()
        ]  # fmt: skip
        # A number that is there once, and an age, need no name.
        chosen = near[:1] or (numbers[:1] if len(numbers) == 1 or name == "age" else [])
        places.update((a, b) for one in chosen for a, b in sentences if a <= one.start() < b)
    return sorted(places)


@LOADERS.register("medcalc")
class MedCalc(RecordLoader):
    """MedCalc-Bench's table of notes and questions."""

    name = "medcalc"
    title = "MedCalc-Bench (CSV of patient notes and calculations)"
    source = "MedCalc-Bench"
    licence = "CC BY-SA 4.0"
    suffix, marks, marks_in_line = ".csv", tuple(map(str.encode, COLUMNS)), True
    by_time, unit = False, "note with a question"

    def read_file(
        self, file: Path, name: str, patients: PatientEntries, questions: Questions
    ) -> None:
        """All notes and the questions about them."""
        for row in read_table(file, name, COLUMNS, patients.log, ","):
            text = row.get("Patient Note").replace("\r\n", "\n").replace("\r", "\n")
            question, answer = row.get("Question"), row.get("Ground Truth Answer")
            if not text or not question or not answer:
                patients.log.skip(name, row.line, "lacks its note, question or answer — add it")
                continue
            number = row.get("Row Number") or str(row.line)
            stated = _ID.sub("_", row.get("Note ID") or f"n{number}")[:120]
            id = patients.ids.get((stated, text))
            if id is None:
                id = patients.ids[stated, text] = patients.unused(stated, patients.entries)
                note = {"name": "case note", "text": text, "note_id": id}
                patients.add(id, name, entry(None, "note", **note, line=row.line))
            asked = patients.unused(f"mc{number}", questions.records)
            spans = [Span(0, a, b) for a, b in evidence(text, row.get("Relevant Entities"))]
            gold = answer, spans, False
            questions.ask(asked, id, question, gold, domain=row.get("Category"))
