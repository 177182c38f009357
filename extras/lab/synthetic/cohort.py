"""Writes the clinical cohort: MedAlign event streams, questions with gold, simulated responses.

Every patient has its own generator, spawned from the cohort's seed and the patient's number, so
records can be made in any order, or apart, with the same bytes.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from midchart.core.cohorts.data_use import note_generated
from midchart.core.cohorts.demo import TAG, replace_synthetic
from midchart.core.errors import InputError
from midchart.core.text import count_tokens
from midchart.extras.lab.synthetic.common import (
    chance,
    data_use,
    pick,
    spawned,
    worded,
    write_texts,
)
from midchart.extras.lab.synthetic.events import build_events, make_encounters
from midchart.extras.lab.synthetic.letters import NOTES, Dress
from midchart.extras.lab.synthetic.notes import Writer
from midchart.extras.lab.synthetic.patient import Encounter, Fact, Patient, RecordItem, make_patient
from midchart.extras.lab.synthetic.questions import AskedFact, ask, decile_of
from midchart.extras.lab.synthetic.trajectory import draw_base

_INSTRUCTION_COLUMNS = (
    "filename", "question", "evidence", "clinician_response", "instruction_id", "person_id",
    "submitter_specialty", "annotator_num", "domain", "task_type", "evidence_spans",
)  # fmt: skip
_RESPONSE_COLUMNS = (
    "filename", "question", "instruction_id", "person_id", "submitter_specialty", "model_name",
    "model_response", "binary_correct", "is_used_eval", "evidence", "clinician_response",
    "simulated",
)  # fmt: skip

_LETTERS_FROM = 1000
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


# Responses of six simulated models whose accuracy depends on position by a declared formula, with
# which the estimate of the position analysis can be compared.


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated model: accuracy ``base`` at the edges, its loss ``dip`` in the middle, and its
    gain ``tilt`` from the start of the record to its end."""

    name: str
    base: float
    dip: float
    tilt: float

    def accuracy(self, x: float) -> float:
        """Probability of a correct answer for gold at order position ``x`` in [0, 1].

        ``base − dip · 4x(1 − x) + tilt · (x − 1/2)``, kept within [.02, .98].
        """
        return min(max(self.base - self.dip * 4 * x * (1 - x) + self.tilt * (x - 0.5), 0.02), 0.98)


MODELS = (
    Simulated("sim-model-a", 0.82, 0.30, 0.05),
    Simulated("sim-model-b", 0.74, 0.25, 0.15),
    Simulated("sim-model-c", 0.66, 0.20, 0.20),
    Simulated("sim-model-d", 0.70, 0.0, 0.0),
    Simulated("sim-model-e", 0.55, 0.35, 0.10),
    Simulated("sim-model-f", 0.60, 0.10, -0.20),
)

_FORMULA = "accuracy(x) = clip(base - dip*4*x*(1-x) + tilt*(x-0.5), 0.02, 0.98)"


@dataclass(frozen=True, slots=True)
class _SimulatedResponse:
    """A simulated response and whether it is correct."""

    model: str
    text: str
    correct: bool


def _respond(
    rng: np.random.Generator, fact: Fact, position: float, others: list[str]
) -> list[_SimulatedResponse]:
    """One response of each simulated model.

    ``position``: order position of the decisive statement in [0, 1]; ``others``: answers to other
    questions of the record.
    """
    responses: list[_SimulatedResponse] = []
    for model in MODELS:
        if float(rng.random()) < model.accuracy(position):
            text = worded(rng, "response_correct", answer=fact.answer)
            responses.append(_SimulatedResponse(model.name, text, True))
            continue
        wrong = [x for x in fact.wrong if x and x != fact.answer]
        draw = float(rng.random())
        if draw < 0.55 and wrong:
            text = pick(rng, wrong)
        elif draw < 0.75 and others:
            text = pick(rng, others)
        else:
            text = worded(rng, "response_refused")
        responses.append(_SimulatedResponse(model.name, text, False))
    return responses


def _declared_effect() -> dict[str, object]:
    """The declared positional effect (``simulated_effect.json``)."""
    return {
        "simulated": True,
        "position": "event order of the first evidence span / (events - 1)",
        "formula": _FORMULA,
        "models": {m.name: {"base": m.base, "dip": m.dip, "tilt": m.tilt} for m in MODELS},
        "expected_by_decile": {
            m.name: [round(m.accuracy((d + 0.5) / 10), 4) for d in range(10)] for m in MODELS
        },
    }


@dataclass(frozen=True, slots=True)
class _SyntheticRecord:
    """A finished patient: encounters, events in record order, and questions."""

    patient: Patient
    encounters: list[Encounter]
    events: list[RecordItem]
    asked: list[AskedFact]


def _maybe_death(rng: np.random.Generator, p: Patient, encounters: list[Encounter]) -> None:
    """Some old and severely ill patients have died by the end of their record."""
    ill = {"hfref", "cirrhosis", "copd"} & set(p.diseases)
    if ill and p.age(p.last) > 70 and chance(rng, 0.12):
        last = max(i.when for e in encounters for i in e.items)
        died = last + timedelta(days=int(rng.integers(9, 90)))
        encounters[-1].items.append(RecordItem(died, "death", "LOCAL/DEATH", "Death"))


def make_one(
    index: int, events_per_patient: int = 300, seed: int = 42, dress: Dress = NOTES
) -> _SyntheticRecord:
    """Make patient number ``index`` of the cohort of ``seed``, in memory, with the texts of
    ``dress``."""
    rng = spawned(seed, index, 0)
    years = 8.0 + 1.9 * float(np.log2(max(events_per_patient, 100) / 300))
    patient = make_patient(rng, index, max(years, 4.0), seed)
    draw_base(rng, patient)
    encounters = make_encounters(rng, patient, events_per_patient)
    wanted = int(events_per_patient * float(rng.uniform(0.92, 1.08)))
    encounters = build_events(rng, patient, encounters, wanted)
    _maybe_death(rng, patient, encounters)
    # Records of thousands of events have many short notes; small ones fewer and longer.
    wordy = 1.0 if dress.only else min(1.0, (300 / events_per_patient) ** 0.5)
    writer = Writer(patient, rng, wordy=wordy)
    letters_rng = spawned(seed, index, 2)
    encounters, events, asked = ask(writer, patient, encounters, index, seed, letters_rng, dress)
    return _SyntheticRecord(patient, encounters, events, asked)


def instruction_id(seed: int, person: str, number: int) -> str:
    """An id that says nothing about the question and is the same every time."""
    return hashlib.sha256(f"{seed}/{person}/{number}".encode()).hexdigest()[:12]


def _rows(
    record: _SyntheticRecord, index: int, seed: int
) -> tuple[list[list[str]], list[list[str]]]:
    """The record's rows of the tables of instructions and of responses."""
    person = record.patient.id
    name = f"{person}.xml"
    instructions: list[list[str]] = []
    responses: list[list[str]] = []
    rng = spawned(seed, index, 1)
    for number, asked in enumerate(record.asked):
        fact = asked.fact
        evidence = "|||".join(text for *_, text in asked.evidence)
        spans = "|||".join(f"{order}:{start}-{end}" for order, start, end, _ in asked.evidence)
        id_ = instruction_id(seed, person, number)
        row = [name, fact.question, evidence, fact.answer, id_, person, fact.specialty]
        instructions.append([*row, "Annotator_1", fact.domain, fact.task_type, spans])
        others = [a.fact.answer for a in record.asked if a is not asked]
        for r in _respond(rng, fact, asked.position, others):
            row = [name, fact.question, id_, person, fact.specialty, r.model, r.text]
            responses.append([*row, str(int(r.correct)), "yes", evidence, fact.answer, "yes"])
    return instructions, responses


def _provider(index: int, specialty: str) -> dict[str, str]:
    """A provider's attributes; registries miss some, and then say "NULL"."""
    born = str(1951 + index * 7 % 39)
    return {
        "provider_id": str(6700000 + index),
        "gender": ("MALE", "FEMALE", "NULL")[index % 3],
        "speciality": specialty if index % 7 else "NULL",
        "year_of_birth": born if index % 4 else "NULL",
        "care_site_name": specialty.upper() if index % 5 else "NULL",
    }


def _attributes(pairs: dict[str, str]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in pairs.items())


def _event(
    p: Patient, e: Encounter, item: RecordItem, providers: list[dict[str, str]], site: str
) -> str:
    pairs = {"type": item.type, "code": item.code, "name": item.name}
    pairs["visit_id"] = f"{int(p.id) % 10**6}{e.number:04d}"
    if item.note is not None:
        pairs["note_id"] = f"{int(p.id) % 10**6}{item.order:05d}"
    pairs["provider_id"] = providers[item.order % len(providers)]["provider_id"]
    if item.type in ("visit", "visit_detail", "note"):
        pairs["care_site_id"] = site
    if item.unit:
        pairs["unit"] = item.unit
    head = f"<event{_attributes(pairs)}"
    return f"{head}>{escape(item.text)}</event>" if item.text else f"{head}/>"


def _record_lines(p: Patient, encounters: list[Encounter]) -> Iterator[str]:
    """The document, line by line; events keep the order of ``events.number``."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<eventstream person_id="{p.id}">'
    for e in encounters:
        # Who and where.
        base = sum(ord(c) for c in e.specialty) % 90
        providers = [
            _provider(base + 17 * k + e.number % 3, e.specialty)
            for k in range(1 + len(e.items) % 3)
        ]
        site = str(520000 + base)
        yield "<encounter>"
        yield "<person>"
        yield f"<birthdate>{p.birth:%Y-%m-%d}</birthdate>"
        days = (e.start - p.birth).days
        yield f"<age><days>{days}</days><years>{p.age(e.start)}</years></age>"
        yield (
            f"<demographics><ethnicity>{escape(p.ethnicity)}</ethnicity>"
            f"<race>{escape(p.race)}</race><gender>{p.sex}</gender></demographics>"
        )
        yield f"<payerplan>{escape(p.payer)}</payerplan>"
        yield "</person>"
        yield (
            f'<caresites><caresite care_site_id="{site}" '
            f"care_site_name={quoteattr(e.specialty.upper())}/></caresites>"
        )
        yield "<providers>"
        for provider in providers:
            yield f"<provider{_attributes(provider)}/>"
        yield "</providers>"
        yield "<events>"
        # Events, in one entry for each time.
        stamp = ""
        for item in e.items:
            now = f"{item.when:%Y-%m-%d %H:%M}"
            if now != stamp:
                if stamp:
                    yield "</entry>"
                yield f'<entry timestamp="{now}">'
                stamp = now
            yield _event(p, e, item, providers, site)
        if stamp:
            yield "</entry>"
        yield "</events>"
        yield "</encounter>"
    yield "</eventstream>"


def _write_table(path: Path, columns: Sequence[str], rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter="\t", lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


_INSTRUCTION_TABLE = "clinician-instruction-responses.tsv"
_RESPONSE_TABLE = "clinician-reviewed-model-responses.tsv"


_ENTRIES = frozenset(
    {"ehrs", _INSTRUCTION_TABLE, _RESPONSE_TABLE, "simulated_effect.json", "README.txt", TAG}
)


def _prepare(out: Path) -> Path:
    ehrs = out / "ehrs"
    replace_synthetic(out, _ENTRIES)
    ehrs.mkdir(exist_ok=True)
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
            below that a record has what its questions need, some 60 to 120 events. For a record of
            letters alone, the size of the record that they summarise.
        seed: whole number ≥ 0; the same gives the same bytes.
        progress: called with (done, all) after each patient.
        dress: which texts are letters, and whether a quarter of the questions are long.

    Raises:
        InputError: an argument out of range, or a folder that holds other data.
    """
    if patients < 1 or events_per_patient < 20 or seed < 0:
        raise InputError(
            "synthetic cohort: patients must be ≥ 1, events_per_patient ≥ 20 and seed ≥ 0"
        )
    # One file a patient, and the rows of its questions.
    ehrs = _prepare(out)
    tables: tuple[list[list[str]], list[list[str]]] = ([], [])
    counts: Counter[str] = Counter()
    deciles = [0] * 10
    domains, task_types = Counter[str](), Counter[str]()
    first = _LETTERS_FROM if dress.only else 0
    for index in range(first, first + patients):
        record = make_one(index, events_per_patient, seed, dress)
        path = ehrs / f"{record.patient.id}.xml"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            lines = _record_lines(record.patient, record.encounters)
            file.writelines(line + "\n" for line in lines)
        for table, rows in zip(tables, _rows(record, index, seed), strict=True):
            table += rows
        events = record.events
        counts["events"] += len(events)
        counts["notes"] += sum(item.type == "note" for item in events)
        counts["tokens"] += sum(
            count_tokens(i.text if i.note else f"{i.name}: {i.text} {i.unit}") for i in events
        )
        for asked in record.asked:
            deciles[decile_of(asked.evidence[0][0], len(events))] += 1
            domains[asked.fact.domain] += 1
            task_types[asked.fact.task_type] += 1
        if progress is not None:
            progress(index - first + 1, patients)
    # Tables of questions and responses, and the cohort's own files.
    instructions, responses = tables
    _write_table(out / _INSTRUCTION_TABLE, _INSTRUCTION_COLUMNS, instructions)
    _write_table(out / _RESPONSE_TABLE, _RESPONSE_COLUMNS, responses)
    name = "Synthetic letters" if dress.only else "Synthetic clinical cohort"
    mean_events = round(counts["events"] / patients) if dress.only else events_per_patient
    texts = {
        "simulated_effect.json": json.dumps(_declared_effect(), indent=2) + "\n",
        "README.txt": _README,
        TAG: data_use(name, patients, mean_events, seed),
    }
    write_texts(out, texts)
    tables_of_questions = (_INSTRUCTION_TABLE, _RESPONSE_TABLE)
    records = (f"{ehrs.name}/{path.name}" for path in ehrs.iterdir())
    note_generated(out, {*records, *tables_of_questions, *texts} - {TAG})
    return {
        "patients": patients, "events": counts["events"], "notes": counts["notes"],
        "tokens": counts["tokens"], "instructions": len(instructions),
        "responses": len(responses), "deciles": deciles,
        "domains": dict(domains), "task_types": dict(task_types),
    }  # fmt: skip
