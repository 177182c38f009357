"""A cohort of many patients, long records or many questions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tests.support.run_helpers import write_questions

NOTE_WORDS, SENTENCE_WORDS, VOCABULARY = 240, 12, 4_000
DRUGS = ("warfarin", "metformin", "lisinopril", "atenolol", "digoxin", "heparin", "insulin")


@dataclass(frozen=True)
class Size:
    """A cohort and a run: patients, tokens of each record, questions about it, arms."""

    patients: int
    tokens: int
    questions: int
    arms: int

    @property
    def items(self) -> int:
        """The run's work items."""
        return self.patients * self.questions * self.arms


def write(folder: Path, size: Size) -> None:
    """A cohort of notes of made-up words, each question's evidence in one of them."""
    (folder / "ehrs").mkdir(parents=True)
    rng = random.Random(0)
    vocabulary = ["".join(rng.choices("abcdefghilmnoprstu", k=7)) for _ in range(VOCABULARY)]
    questions: list[dict[str, str]] = []
    for patient in range(size.patients):
        notes = max(1, size.tokens // NOTE_WORDS)
        facts: dict[int, list[str]] = {}
        for number in range(size.questions):
            drug, dose = DRUGS[number % len(DRUGS)], 10 + number
            fact = f"Order {number}: {drug} at a dose of {dose} milligram"
            facts.setdefault(rng.randrange(notes), []).append(fact)
            questions.append(
                {
                    "instruction_id": f"i{patient}-{number}",
                    "filename": f"{patient}.xml",
                    "person_id": str(patient),
                    "question": f"Which dose of {drug} has order {number}?",
                    "evidence": fact,
                    "clinician_response": f"{dose} milligram",
                    "submitter_specialty": "medicine",
                    "annotator_num": "Annotator_1",
                }
            )
        with (folder / "ehrs" / f"{patient}.xml").open("w", encoding="utf-8") as file:
            file.write(f'<eventstream person_id="{patient}"><encounter><events>')
            for note in range(notes):
                chosen = rng.choices(vocabulary, k=min(NOTE_WORDS, size.tokens))
                lines = [
                    " ".join(chosen[at : at + SENTENCE_WORDS]).capitalize() + "."
                    for at in range(0, len(chosen), SENTENCE_WORDS)
                ]
                text = "\n".join([*lines, *(f"{fact}." for fact in facts.get(note, ()))])
                file.write(
                    f'<entry timestamp="20{note % 20:02d}-01-{note % 28 + 1:02d} 08:00"><event '
                    f'type="note" note_id="n{note}" code="N" name="note">{text}</event></entry>'
                )
            file.write("</events></encounter></eventstream>")
    write_questions(folder, questions)
