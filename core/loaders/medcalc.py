"""MedCalc-Bench (ncbi-nlp, CC BY-SA 4.0): case notes, a calculation asked about each.

A note is a record. The reference is the ground-truth answer. The evidence of a question are the
sentences that state the numbers of its relevant entities: of several places of a number the first
near the entity's name. It is found so, not marked by the authors; sex and yes or no are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from core.loaders import LOADERS
from core.loaders.base import RecordLoader
from core.loaders.files import LoadLog, Row, read_table, shown, unused
from core.loaders.questions import MOST_PIECES, Questions, task_type_of
from core.loaders.records import LazyRecords, PatientEntries, entry
from core.text.splitting import split
from core.types import Instruction, Span

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

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        """All notes and the questions about them."""
        patients, numbers = PatientEntries(log), Counter[str]()
        ids: dict[tuple[str, str], str] = {}
        asked: list[tuple[str, str, Row]] = []
        for file in self.files(place):
            name = shown(file, root)
            with log.skipping(name):
                for row in read_table(file, name, COLUMNS, log, ","):
                    text = row.get("Patient Note").replace("\r\n", "\n").replace("\r", "\n")
                    if not text or not row.get("Question") or not row.get("Ground Truth Answer"):
                        log.skip(name, row.line, "lacks its note, question or answer — add it")
                        continue
                    stated = row.get("Note ID") or f"n{row.get('Row Number') or row.line}"
                    stated = _ID.sub("_", stated)[:120]
                    if (stated, text) not in ids:
                        id = ids[stated, text] = unused(stated, patients.entries, numbers)
                        note = {"name": "case note", "text": text, "note_id": id}
                        patients.add(id, name, entry(None, "note", **note, line=row.line))
                    asked.append((ids[stated, text], text, row))
        if not asked:
            raise log.nothing_read(place.name, "holds no note with a question")
        records, questions = patients.records(by_time=False), Questions()
        for id, text, row in asked:
            question = row.get("Question")
            instruction = Instruction(
                unused(f"mc{row.get('Row Number') or row.line}", questions.located, numbers), id,
                question, domain=row.get("Category"), task_type=task_type_of(question),
            )  # fmt: skip
            spans = [Span(0, a, b) for a, b in evidence(text, row.get("Relevant Entities"))]
            questions.locate(instruction, records[id], row.get("Ground Truth Answer"), spans, False)
        return records, questions
