"""Makes the clinical cohort: records, questions with gold, and simulated responses, on disk.

Every patient has its own generator, spawned from the cohort's seed and the patient's number, so
records can be made in any order, or apart, with the same bytes.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import InputError
from core.synthetic.common import TAG, data_use, is_synthetic, spawned, write_texts
from core.synthetic.events import build_events
from core.synthetic.letters import NOTES, Dress
from core.synthetic.medalign_xml import write_record
from core.synthetic.model import Encounter, Item, Patient
from core.synthetic.notes_parts import Writer
from core.synthetic.patient import make_patient
from core.synthetic.questions import Asked, ask, decile_of
from core.synthetic.responses import declared_effect, respond
from core.synthetic.schedule import make_encounters
from core.synthetic.trajectory import draw_base
from core.text import count_tokens

INSTRUCTION_COLUMNS = (
    "filename", "question", "evidence", "clinician_response", "instruction_id", "person_id",
    "submitter_specialty", "annotator_num", "domain", "task_type", "evidence_spans",
)  # fmt: skip
RESPONSE_COLUMNS = (
    "filename", "question", "instruction_id", "person_id", "submitter_specialty", "model_name",
    "model_response", "binary_correct", "is_used_eval", "evidence", "clinician_response",
    "simulated",
)  # fmt: skip

LETTERS_FROM = 1000
"""Number of the first patient of a cohort of letters: no patient of the seed's other cohort."""

_README = """This folder holds a SYNTHETIC clinical cohort made by Midchart from a seed.
No person stands behind any record, and the model responses are simulated too: their
accuracy depends on position as simulated_effect.json declares. Use it to try things out and
to test; no clinical conclusion can be drawn from it.

ehrs/                                      one event stream per patient
clinician-instruction-responses.tsv        questions, gold answers, evidence and its spans
clinician-reviewed-model-responses.tsv     six simulated response sets
simulated_effect.json                      the positional effect that was put in
midchart.toml                              how this data may be used
"""


@dataclass(frozen=True, slots=True)
class Made:
    """One finished patient."""

    patient: Patient
    encounters: list[Encounter]
    events: list[Item]
    asked: list[Asked]


def _maybe_death(rng: np.random.Generator, p: Patient, encounters: list[Encounter]) -> None:
    """A few of the old and very ill have died by the end of their record."""
    ill = {"hfref", "cirrhosis", "copd"} & set(p.diseases)
    if ill and p.age(p.last) > 70 and float(rng.random()) < 0.12:
        when = max(i.when for e in encounters for i in e.items)
        p.died = when + timedelta(days=int(rng.integers(9, 90)))
        encounters[-1].items.append(Item(p.died, "death", "LOCAL/DEATH", "Death"))


def make_one(
    index: int, events_per_patient: int = 300, seed: int = 42, dress: Dress = NOTES
) -> Made:
    """Make patient number ``index`` of the cohort of ``seed``, in memory, in the texts of
    ``dress``."""
    rng = spawned(seed, index, 0)
    years = 8.0 + 1.9 * float(np.log2(max(events_per_patient, 100) / 300))
    patient = make_patient(rng, index, max(years, 4.0), seed)
    draw_base(rng, patient)
    encounters = make_encounters(rng, patient, events_per_patient)
    wanted = int(events_per_patient * float(rng.uniform(0.92, 1.08)))
    encounters = build_events(rng, patient, encounters, wanted)
    # Records of thousands of events have many short notes; small ones fewer and longer.
    _maybe_death(rng, patient, encounters)
    wordy = 1.0 if dress.only else min(1.0, (300 / events_per_patient) ** 0.5)
    writer = Writer(patient, rng, wordy=wordy)
    own = spawned(seed, index, 2)
    encounters, events, asked = ask(writer, patient, encounters, index, seed, dress, own)
    return Made(patient, encounters, events, asked)


def instruction_id(seed: int, person: str, number: int) -> str:
    """An id that says nothing about the question and is the same every time."""
    return hashlib.sha256(f"{seed}/{person}/{number}".encode()).hexdigest()[:12]


def _rows(made: Made, index: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    person = made.patient.id
    instructions: list[list[str]] = []
    responses: list[list[str]] = []
    rng = spawned(seed, index, 1)
    for number, asked in enumerate(made.asked):
        fact = asked.fact
        evidence = "|||".join(text for *_, text in asked.evidence)
        spans = "|||".join(f"{order}:{start}-{end}" for order, start, end, _ in asked.evidence)
        id_ = instruction_id(seed, person, number)
        name = f"{person}.xml"
        instructions.append(
            [
                name,
                fact.question,
                evidence,
                fact.answer,
                id_,
                person,
                fact.specialty,
                "Annotator_1",
                fact.domain,
                fact.task_type,
                spans,
            ]
        )
        others = [a.fact.answer for a in made.asked if a is not asked]
        for said in respond(rng, fact, asked.position, others):
            responses.append(
                [
                    name,
                    fact.question,
                    id_,
                    person,
                    fact.specialty,
                    said.model,
                    said.text,
                    "1" if said.correct else "0",
                    "yes",
                    evidence,
                    fact.answer,
                    "yes",
                ]
            )
    return instructions, responses


def _table(path: Path, columns: Sequence[str], rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter="\t", lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _prepare(out: Path) -> Path:
    ehrs = out / "ehrs"
    if ehrs.is_dir() and any(ehrs.iterdir()) and not is_synthetic(out):
        raise InputError(
            f"{out}: holds records that are not marked synthetic — choose an empty folder"
        )
    ehrs.mkdir(parents=True, exist_ok=True)
    return ehrs


def make_clinical(
    out: Path,
    patients: int = 40,
    events_per_patient: int = 300,
    seed: int = 42,
    progress: Callable[[int, int], None] | None = None,
    dress: Dress = NOTES,
) -> dict[str, Any]:
    """Write the clinical cohort into ``out`` and return its counts.

    Args:
        out: folder, made if absent; a synthetic cohort in it is replaced, other data refused.
        patients: number of records; events_per_patient: wanted size, met within 15 % from 120 on;
            below that a record has what its questions need, some 60 to 120 events. Where a record
            is letters alone, the size of the life that they are about.
        seed: whole number ≥ 0; the same gives the same bytes.
        progress: called with (done, all) after each patient.
        dress: which texts are letters, and whether a quarter of the questions are long; without it
            the cohort has neither.

    Raises:
        InputError: an argument out of range, or a folder that holds other data.
    """
    if patients < 1 or events_per_patient < 20 or seed < 0:
        raise InputError(
            "synthetic cohort: patients must be ≥ 1, events_per_patient ≥ 20 and seed ≥ 0"
        )
    ehrs = _prepare(out)
    instructions: list[list[str]] = []
    responses: list[list[str]] = []
    counts: Counter[str] = Counter()
    deciles = [0] * 10
    by: dict[str, Counter[str]] = {"domain": Counter(), "task_type": Counter()}
    written: set[str] = set()
    first = LETTERS_FROM if dress.only else 0
    for index in range(first, first + patients):
        made = make_one(index, events_per_patient, seed, dress)
        name = f"{made.patient.id}.xml"
        write_record(ehrs / name, made.patient, made.encounters)
        written.add(name)
        more, said = _rows(made, index, seed)
        instructions += more
        responses += said
        counts["events"] += len(made.events)
        counts["notes"] += sum(item.type == "note" for item in made.events)
        counts["tokens"] += sum(
            count_tokens(i.text if i.note else f"{i.name}: {i.text} {i.unit}") for i in made.events
        )
        for asked in made.asked:
            deciles[decile_of(asked.evidence[0][0], len(made.events))] += 1
            by["domain"][asked.fact.domain] += 1
            by["task_type"][asked.fact.task_type] += 1
        if progress is not None:
            progress(index - first + 1, patients)
    for stale in sorted(ehrs.glob("*.xml")):
        if stale.name not in written:
            stale.unlink()
    _table(out / "clinician-instruction-responses.tsv", INSTRUCTION_COLUMNS, instructions)
    _table(out / "clinician-reviewed-model-responses.tsv", RESPONSE_COLUMNS, responses)
    texts = {
        "simulated_effect.json": json.dumps(declared_effect(), indent=2) + "\n",
        "README.txt": _README,
        TAG: data_use(
            "Synthetic letters" if dress.only else "Synthetic clinical cohort",
            patients,
            round(counts["events"] / patients) if dress.only else events_per_patient,
            seed,
        ),
    }
    write_texts(out, texts)
    return {
        "patients": patients, "events": counts["events"], "notes": counts["notes"],
        "tokens": counts["tokens"], "instructions": len(instructions),
        "responses": len(responses), "deciles": deciles,
        "domains": dict(by["domain"]), "task_types": dict(by["task_type"]),
    }  # fmt: skip
