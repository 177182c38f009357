"""Reading a cohort's record, label sequences and positions, and counting a run's verdicts."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from core.bench import BENCHES, compare, reference
from core.loaders.medalign import read_record
from core.loaders.open import open_cohort
from core.protocol import Protocol
from core.results.tables import facts, tally
from core.runs.plan import ArmConfig, ComponentSpec, Plan
from core.runs.schemas import ANSWERS, VERDICTS
from core.sequences.build import RawTable, build_store
from core.sequences.duck import columns
from core.sequences.gather import last_events
from core.sequences.labels import LabelRows, match_labels
from core.sequences.store import EventStore
from core.storage.query import literal, query
from core.storage.rows import RowStore
from core.synthetic.cohort import make_clinical
from core.types import BANDS

PATIENTS, EVENTS, CODES = 300, 6180, 2000
"""Patients of EHRSHOT's average length."""
LABELS = 8000
WALKED = 200
"""Labels that the plain version walks; it takes the same for each."""
ARMS, READERS, JUDGES, QUESTIONS = 13, 2, 2, 19_231


@BENCHES.register("record_xml")
def record_xml() -> dict[str, Any]:
    """One synthetic record of about 1,500 events."""
    plain = reference("xml").read_record
    with TemporaryDirectory() as folder:
        make_clinical(Path(folder), 2, 1500, 1)
        file = next(iter(sorted((Path(folder) / "ehrs").glob("*.xml"))))
        return compare(
            "record_xml",
            f"{file.stat().st_size // 1024} KiB",
            lambda: plain(file, file.name),
            lambda: read_record(file, file.name),
            ask=2,
        )


def _write_fhir(folder: Path, megabytes: int) -> int:
    """Bulk NDJSON of readings and notes of 200 patients; the size in bytes."""
    note = b64encode(b"Seen in clinic. No fever, eats well, sleeps well. " * 40).decode()
    with (folder / "Patient.ndjson").open("w") as file:
        for number in range(200):
            file.write(json.dumps({"resourceType": "Patient", "id": f"p{number}"}) + "\n")
    written = 0
    with (folder / "all.ndjson").open("w") as file:
        for number in count():
            common = {"id": str(number), "subject": {"reference": f"Patient/p{number % 200}"}}
            reading = {
                "resourceType": "Observation",
                "code": {"coding": [{"system": "http://loinc.org", "code": "2345-7"}]},
                "effectiveDateTime": f"20{number % 20:02}-03-04T05:06:07-05:00",
                "valueQuantity": {"value": number % 97 / 7, "unit": "mmol/L"},
            }
            document = {
                "resourceType": "DocumentReference",
                "date": f"20{number % 20:02}-03-04",
                "content": [{"attachment": {"contentType": "text/plain", "data": note}}],
            }
            line = json.dumps((reading if number % 4 else document) | common) + "\n"
            file.write(line)
            written += len(line)
            if written >= megabytes << 20:
                return written
    return written


@BENCHES.register("fhir_ndjson")
def fhir_ndjson() -> dict[str, Any]:
    """A bulk export of 100 MB: every record, compared with parsing its lines alone.

    1 GB in 60 s is 6 s for 100 MB.
    """
    with TemporaryDirectory() as place:
        folder = Path(place)
        _write_fhir(folder, 100)

        def parse() -> None:
            for line in (folder / "all.ndjson").open("rb"):
                json.loads(line)

        def read() -> int:
            cohort = open_cohort(folder)
            return sum(len(cohort.records[id].events) for id in cohort.records)

        if read() != sum(1 for _ in (folder / "all.ndjson").open("rb")):
            raise AssertionError("not every resource became an entry")
        return compare("fhir_ndjson", "100 MB", parse, read, rounds=1, within_ms=6_000)


def _store(folder: Path, patients: int) -> EventStore:
    file = folder / "rows.parquet"
    draw = "hash(i, {0}) % {1}"
    columns(
        f"COPY (SELECT (i // {EVENTS})::BIGINT AS p, "
        f"({draw.format(1, 20 * 365 * 24 * 60)})::BIGINT * 60000000 AS t, false AS bad, "
        f"'C/' || ({draw.format(2, CODES)}) AS code, ({draw.format(3, 1000)})::FLOAT AS v, "
        "NULL::VARCHAR AS x, NULL::VARCHAR AS u, NULL::VARCHAR AS k "
        f"FROM range({patients * EVENTS}) r(i)) TO {literal(file)} (FORMAT parquet)"
    )
    select = f"SELECT * FROM read_parquet({literal(file)})"
    return build_store(RawTable("bench", select, (file,)), folder / "store")


@BENCHES.register("ehrshot_sequences")
def sequences() -> dict[str, Any]:
    """The last 256 events of labels, per label: both give the same arrays."""
    plain = reference("sequences")
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as place:
        store = _store(Path(place), PATIENTS)
        rows = LabelRows(
            rng.choice(store.patients, LABELS),
            rng.integers(0, 20 * 365 * 24 * 60, LABELS) * 60_000_000,
            np.ones(LABELS, np.int32),
        )
        labels = match_labels("bench", rows, store, {}).labels
        some = np.sort(rng.choice(len(labels), WALKED, replace=False))
        events = plain.events_by_patient(store)
        walked = (events, labels.patient[some], labels.time[some], 256)
        last = last_events(store, labels)
        if not np.array_equal(last.codes[some], plain.last_events(*walked)[0]):
            raise AssertionError("the two ways give different sequences")
        return compare(
            "ehrshot_sequences",
            f"{len(labels):,} labels × 256 of {store.events:,} events, per 1,000 labels",
            lambda: plain.last_events(*walked),
            lambda: last_events(store, labels),
            ask=100,
            rounds=3,
            scale=(1000 / WALKED, 1000 / len(labels)),
        )


@BENCHES.register("events_by_position")
def positions() -> dict[str, Any]:
    """Events of one code by decile: a pass over its columns against precomputed counts."""
    with TemporaryDirectory() as place:
        store = _store(Path(place), PATIENTS)
        code = 7
        sizes = np.diff(store.offsets)

        def walk() -> list[int]:
            index = np.arange(store.events) - np.repeat(store.offsets[:-1], sizes)
            decile = np.minimum(9, 10 * index // np.repeat(sizes - 1, sizes))
            return np.bincount(decile[store.code == code], minlength=10).tolist()

        if walk() != store.by_position("order", [code]).tolist():
            raise AssertionError("the two counts differ")
        return compare(
            "events_by_position",
            f"{store.events:,} events by decile of one code",
            walk,
            lambda: store.by_position("order", [code]),
            rounds=3,
            fast_calls=100,
            within_ms=100,
        )


def _write(folder: Path) -> None:
    """A run's verdicts and answers as Parquet: every arm × reader × judge × question."""
    bands = ", ".join(f"'{name}'" for name, _, _ in BANDS)
    answer_columns = {
        "key": "a || '-' || r || '-' || q",
        "status": "'ok'",
        "label": "'arm' || a",
        "reader": "'reader' || r",
        "record": "'p' || (q // 8)",
        "instruction": "'i' || q",
        "band": f"[{bands}][(hash(q) % 6)::INT + 1]",
        "middle": "hash(q) % 6 IN (2, 3)",
    }
    verdict = answer_columns | {
        "key": f"{answer_columns['key']} || '-' || j",
        "judge": "'judge' || j",
        "answer_key": answer_columns["key"],
        "outcome": "CASE WHEN hash(a, r, j, q) % 5 = 0 THEN 'correct' ELSE 'incorrect' END",
        "refusal": "hash(a, r, q) % 9 = 0",
    }
    cells = f"range({QUESTIONS}) t(q), range({ARMS}) u(a), range({READERS}) v(r)"
    for name, schema, values, rows in (
        ("answers", ANSWERS, answer_columns, cells),
        ("verdicts", VERDICTS, verdict, f"{cells}, range({JUDGES}) w(j)"),
    ):
        listed = ", ".join(
            f"({values.get(column, 'NULL')})::{kind} AS {column}" for column, kind in schema.items()
        )
        target = str(folder / f"{name}.parquet").replace("'", "''")
        text = f"COPY (SELECT {listed} FROM {rows}) TO '{target}' (FORMAT parquet)"
        query(lambda text=text: text)


@BENCHES.register("result_rows")
def result_rows() -> dict[str, Any]:
    """DuckDB's count compared with a data frame's group-by; columns are in memory in both."""
    plain = reference("tables")
    plan = Plan(
        name="bench",
        kind="answers",
        data="",
        arms=tuple(ArmConfig(f"arm{a}", 20, 5, None, {}, f"arm{a}") for a in range(ARMS)),
        reader_entries=tuple(ComponentSpec(f"reader{r}", {}, f"reader{r}") for r in range(READERS)),
        judge_entries=tuple(ComponentSpec(f"judge{j}", {}, f"judge{j}") for j in range(JUDGES)),
        protocol=Protocol(),
    )
    with TemporaryDirectory() as place:
        folder = Path(place)
        _write(folder)
        frame = plain.read(folder / "verdicts.parquet")
        with facts(RowStore(folder, {"answers": ANSWERS, "verdicts": VERDICTS}), plan) as ask:
            counts = {cell: (c["n"], c["correct"]) for cell, c in tally(ask, "band").items()}
            if counts != plain.counts(frame):
                raise AssertionError("the two counts differ")
            return compare(
                "result_rows",
                f"{len(frame):,} verdicts by arm × reader × judge × band",
                lambda: plain.counts(frame),
                lambda: tally(ask, "band"),
                within_ms=50,
            )
