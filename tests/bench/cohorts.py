"""Reading a bulk export, counting a run's verdicts, intervals of clusters."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from midchart.core.loaders.open import read_cohort
from midchart.core.protocol import Protocol
from midchart.core.results.tables import CELL, counted, facts
from midchart.core.runs.plan import ArmConfig, ComponentSpec, Plan
from midchart.core.runs.schemas import ANSWERS, VERDICTS
from midchart.core.stats.intervals import clustered_bootstrap
from midchart.core.storage.rows import RowStore, query
from midchart.core.types import BANDS
from tests.bench import BENCHES, compare, reference

_ARMS, _READERS, _JUDGES, _QUESTIONS = 13, 2, 2, 19_231


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
            cohort = read_cohort(folder)
            return sum(len(cohort.records[id].events) for id in cohort.records)

        if read() != sum(1 for _ in (folder / "all.ndjson").open("rb")):
            raise AssertionError("not every resource became an entry")
        return compare("fhir_ndjson", "100 MB", parse, read, rounds=1, within_ms=6_000)


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
    cells = f"range({_QUESTIONS}) t(q), range({_ARMS}) u(a), range({_READERS}) v(r)"
    for name, schema, values, rows in (
        ("answers", ANSWERS, answer_columns, cells),
        ("verdicts", VERDICTS, verdict, f"{cells}, range({_JUDGES}) w(j)"),
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
        arms=tuple(ArmConfig(f"arm{a}", 20, 5, None, {}, f"arm{a}") for a in range(_ARMS)),
        reader_entries=tuple(
            ComponentSpec(f"reader{r}", {}, f"reader{r}") for r in range(_READERS)
        ),
        judge_entries=tuple(ComponentSpec(f"judge{j}", {}, f"judge{j}") for j in range(_JUDGES)),
        protocol=Protocol(),
    )
    with TemporaryDirectory() as place:
        folder = Path(place)
        _write(folder)
        frame = plain.read(folder / "verdicts.parquet")
        with facts(RowStore(folder, {"answers": ANSWERS, "verdicts": VERDICTS}), plan) as ask:
            by = (*CELL, "band")
            counts = {cell: (c["n"], c["correct"]) for cell, c in counted(ask, by).items()}
            if counts != plain.counts(frame):
                raise AssertionError("the two counts differ")
            return compare(
                "result_rows",
                f"{len(frame):,} verdicts by arm × reader × judge × band",
                lambda: plain.counts(frame),
                lambda: counted(ask, by),
                within_ms=1_000,
            )


_RESAMPLES = 5000


@BENCHES.register("clustered_bootstrap")
def clustered() -> dict[str, Any]:
    """Rows as in the paper: six models answer each of 366 labelled questions of 270 pairs."""
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.integers(0, 270, 366), 6)
    deciles = np.repeat(rng.integers(0, 10, 366), 6)
    correct = rng.integers(0, 2, pairs.size).astype(float)
    plain = reference("bootstrap").clustered_bootstrap
    rows = (correct, pairs, deciles, _RESAMPLES)
    return compare(
        "clustered_bootstrap",
        "2,196 rows × 10 deciles × 5,000 resamples",
        lambda: plain(*rows, np.random.default_rng(42)),
        lambda: clustered_bootstrap(*rows, np.random.default_rng(42)),
        ask=70,
        rounds=2,
        fast_calls=3,
    )
