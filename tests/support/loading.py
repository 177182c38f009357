"""Times, memory and opened files of reading cohorts as they grow: ``python -m
tests.support.loading [FORMAT …] [--patients 200 2000 20000]``.

Makes cohorts of patients with some twenty resources or rows each, in each format, and reads each in
a process of its own: processor seconds to open it, to read its first record, and to read all of it
as ``check`` does; the memory that this takes in addition; and files opened for each resource. For
FHIR NDJSON the same lines are parsed by the standard library (``json_s``), in the same process. The
last row of a format tells with which power of the number of patients each grows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from midchart.core.cli import table
from midchart.core.loaders.check import count_records
from midchart.core.loaders.open import read_cohort
from midchart.core.storage.rows import literal

VISITS, READINGS = 3, 3
"""Visits of a patient, and readings of a visit."""
_NOTE = b64encode(b"Seen in clinic. No fever, eats well. " * 8).decode()
_LEAST = {"open_s": 0.1, "first_ms": 0.1, "read_s": 0.1, "memory_mb": 8}
"""Figures that grow, and the least of each that is measured well."""


def _concept(system: str, code: str, text: str) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code, "display": text}], "text": text}


def resources(number: int) -> Iterator[dict[str, Any]]:
    """The resources of a patient: of each visit an encounter, a diagnosis, readings and an order,
    and a note."""
    subject = {"subject": {"reference": f"Patient/p{number}"}}
    yield {
        "resourceType": "Patient",
        "id": f"p{number}",
        "name": [{"family": f"F{number}"}],
        "birthDate": f"{1920 + number % 90}-0{number % 9 + 1}-1{number % 9}",
    }
    for visit in range(VISITS):
        id, date = f"{number}-{visit}", f"{2000 + number % 7 * 3 + visit}-03-04T05:06:07-05:00"
        of_visit = subject | {"encounter": {"reference": f"Encounter/{id}"}}
        yield subject | {
            "resourceType": "Encounter",
            "id": id,
            "status": "finished",
            "class": {"code": "AMB"},
            "type": [_concept("http://snomed.info/sct", "185345009", "Encounter for symptom")],
            "period": {"start": date, "end": date},
        }
        yield of_visit | {
            "resourceType": "Condition",
            "id": f"c{id}",
            "code": _concept("http://snomed.info/sct", "38341003", "Hypertension"),
            "onsetDateTime": date,
        }
        for reading in range(READINGS):
            yield of_visit | {
                "resourceType": "Observation",
                "id": f"o{id}-{reading}",
                "status": "final",
                "code": _concept("http://loinc.org", "2345-7", "Glucose"),
                "effectiveDateTime": date,
                "valueQuantity": {"value": (number + reading) % 97 / 7, "unit": "mmol/L"},
            }
        yield of_visit | {
            "resourceType": "MedicationRequest",
            "id": f"m{id}",
            "status": "active",
            "intent": "order",
            "medicationCodeableConcept": _concept(
                "http://www.nlm.nih.gov/research/umls/rxnorm", "314076", "lisinopril 10 MG"
            ),
            "authoredOn": date,
            "dosageInstruction": [{"text": "1 a day"}],
        }
    yield subject | {
        "resourceType": "DocumentReference",
        "id": f"d{number}",
        "status": "current",
        "date": "2021-01-01T00:00:00Z",
        "content": [{"attachment": {"contentType": "text/plain", "data": _NOTE}}],
    }


def write_ndjson(folder: Path, patients: int) -> int:
    """A bulk export, a file a type; gives the number of resources."""
    files: dict[str, Any] = {}
    total = 0
    for number in range(patients):
        for one in resources(number):
            kind = one["resourceType"]
            if kind not in files:
                files[kind] = (folder / f"{kind}.ndjson").open("w", encoding="utf-8")
            files[kind].write(json.dumps(one) + "\n")
            total += 1
    for file in files.values():
        file.close()
    return total


def write_bundles(folder: Path, patients: int) -> int:
    """A bundle a patient; gives the number of resources."""
    total = 0
    for number in range(patients):
        entries = [{"resource": one} for one in resources(number)]
        bundle = {"resourceType": "Bundle", "type": "collection", "entry": entries}
        (folder / f"p{number}.json").write_text(json.dumps(bundle), encoding="utf-8")
        total += len(entries)
    return total


def _write_omop(ending: str, folder: Path, patients: int) -> int:
    visits = f"FROM range({patients}) p(i), range({VISITS}) v(v)"
    readings = f"{visits}, range({READINGS}) r(r)"
    date = "(DATE '2000-03-04' + (i % 20 * 365 + v * 365)::INT)"
    tables = {
        "person": f"SELECT i AS person_id, 1920 + i % 90 AS year_of_birth FROM range({patients}) "
        "p(i)",
        "visit_occurrence": f"SELECT i AS person_id, i * 10 + v AS visit_occurrence_id, "
        f"{date} AS visit_start_date, 'Outpatient' AS visit_source_value {visits}",
        "condition_occurrence": f"SELECT i AS person_id, {date} AS condition_start_date, "
        f"'Hypertension' AS condition_source_value, i * 10 + v AS visit_occurrence_id {visits}",
        "drug_exposure": f"SELECT i AS person_id, {date} AS drug_exposure_start_date, "
        f"'lisinopril 10 MG' AS drug_source_value, i * 10 + v AS visit_occurrence_id {visits}",
        "measurement": f"SELECT i AS person_id, {date} AS measurement_date, 'Glucose' AS "
        "measurement_source_value, (i + r) % 97 AS value_as_number, 'mmol/L' AS "
        f"unit_source_value {readings}",
    }
    base, total = duckdb.connect(), 0
    for name, select in tables.items():
        target = literal(folder / f"{name}.{ending}")
        options = "FORMAT parquet" if ending == "parquet" else "FORMAT csv, HEADER"
        ordered = f"{select} ORDER BY hash(person_id)"  # nobody's rows are next to each other
        base.execute(f"COPY ({ordered}) TO {target} ({options})")
        total += base.execute(f"SELECT count(*) FROM ({select})").fetchall()[0][0]
    return total


def write_meds(folder: Path, patients: int) -> int:
    """Events of MEDS in one file; gives their number."""
    (folder / "data").mkdir()
    events = (2 + READINGS) * VISITS
    select = (
        "SELECT i AS subject_id, make_timestamp(2000 + (i + e) % 20, 3, 4, e, 0, 0) AS time, "
        f"'C/' || (e % 7) AS code, (i % 97)::FLOAT AS numeric_value FROM range({patients}) p(i), "
        f"range({events}) r(e) ORDER BY hash(i)"
    )
    target = literal(folder / "data" / "0.parquet")
    duckdb.connect().execute(f"COPY ({select}) TO {target} (FORMAT parquet)")
    return patients * events


FORMATS: dict[str, Callable[[Path, int], int]] = {
    "fhir_ndjson": write_ndjson,
    "fhir_bundles": write_bundles,
    "omop_parquet": partial(_write_omop, "parquet"),
    "omop_csv": partial(_write_omop, "csv"),
    "meds": write_meds,
}


def _timed(do: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.process_time()
    return do(), time.process_time() - begun


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(small: Path, folder: Path) -> dict[str, float]:
    """What reading the cohort at ``folder`` takes, once a ``small`` one of its format was read."""
    count_records(read_cohort(small))
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    before = _peak_mb()
    cohort, open_s = _timed(lambda: read_cohort(folder))
    first_s = 0.0
    if cohort.format != "meds":
        _, first_s = _timed(lambda: cohort.records[next(iter(cohort.records))])
    counts, read_s = _timed(lambda: count_records(cohort))
    row = {
        "open_s": round(open_s, 2),
        "first_ms": round(first_s * 1000, 1),
        "read_s": round(read_s, 2),
        "memory_mb": round(_peak_mb() - before),
        "events": counts.events,
        "opens": sum(name.startswith(str(folder)) for name in opened),
    }
    lines = sorted(folder.glob("*.ndjson"))
    if lines:
        _, json_s = _timed(lambda: [json.loads(one) for file in lines for one in file.open("rb")])
        row["json_s"] = round(json_s, 2)
    return row


def _measured_apart(name: str, patients: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        small, folder = Path(place) / "small", Path(place) / "cohort"
        for one, number in ((small, 10), (folder, patients)):
            one.mkdir()
            total = FORMATS[name](one, number)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        command = [sys.executable, "-m", __spec__.name, "--measure", str(small), str(folder)]
        env = os.environ | {"MIDCHART_CACHE": place}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env)
        row = json.loads(done.stdout)
    taken = row["open_s"] + row["read_s"]
    return {
        "format": name,
        "patients": patients,
        "megabytes": round(size / 1e6, 1),
        **row,
        "opens": f"{row['opens'] / total:.4f}",
        "us_each": round(taken / total * 1e6, 1),
        "s_per_gb": round(taken / size * 1e9),
        "json_s": row.get("json_s", ""),
    }


def _exponents(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """With which power of the patients each figure grows, by its last size and the first at which
    it can be told from nothing (:data:`_LEAST`)."""
    last = rows[-1]
    shown: dict[str, str] = {}
    for name, least in _LEAST.items():
        first = next((row for row in rows if row[name] >= least), last)
        if first is not last:
            power = math.log(last["patients"] / first["patients"])
            shown[name] = f"^{math.log(last[name] / first[name]) / power:.2f}"
    return dict.fromkeys(last, "") | {"format": last["format"]} | shown


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", help=", ".join(FORMATS))
    parser.add_argument("--patients", type=int, nargs="*", default=[200, 2000, 20_000])
    parser.add_argument("--measure", nargs=2, type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(*chosen.measure)))
        return
    for name in chosen.formats or FORMATS:
        rows = [_measured_apart(name, patients) for patients in chosen.patients]
        rows += [_exponents(rows)] if len(rows) > 1 else []
        table(rows, tuple(rows[0]))


if __name__ == "__main__":
    main()
