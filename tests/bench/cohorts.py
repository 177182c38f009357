"""Converting open samples, counting a run's verdicts, intervals of clusters."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import duckdb
import lxml.etree
import numpy as np

from midchart.core.errors import InputError
from midchart.core.loaders.open import read_cohort
from midchart.core.protocol import Protocol
from midchart.core.results.tables import CELL, counted, facts
from midchart.core.runs.plan import ArmConfig, ComponentSpec, Plan
from midchart.core.runs.schemas import ANSWERS, VERDICTS
from midchart.core.storage.rows import RowStore, query
from midchart.core.types import BANDS
from tests.bench import BENCHES, compare, reference
from tests.support.samples import SAMPLES

_ARMS, _READERS, _JUDGES, _QUESTIONS = 13, 2, 2, 19_231


def _text(data: bytes) -> str:
    return "".join(lxml.etree.fromstring(data).itertext())


def _documents(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def _grouped(folder: Path) -> None:
    """The rows of all tables by person, as Python objects."""
    for table in folder.rglob("*.parquet"):
        held = duckdb.sql(f"SELECT * FROM '{table}'")
        by = "GROUP BY person_id" if "person_id" in held.columns else "GROUP BY ALL"
        duckdb.sql(f"SELECT list(held) FROM held {by}").fetchall()


def _converted(folder: Path, size: str, baseline: str, plain: Callable[[], Any], at_most: float):
    def convert() -> None:
        cohort = read_cohort(folder)
        for id in cohort.records:
            cohort.records[id]

    return compare(size, baseline, plain, convert, at_most, rounds=3)


def _converted_files(name: str, pattern: str, baseline: str, parse: Any, at_most: float):
    files = [path.read_bytes() for path in _sample(name).rglob(pattern)]
    size = f"{len(files)} files, {sum(map(len, files)) / 1e6:.1f} MB"
    return _converted(
        SAMPLES / name, size, baseline, lambda: sum(1 for _ in map(parse, files)), at_most
    )


def _sample(name: str) -> Path:
    if not (SAMPLES / name).exists():
        raise InputError(f"bench: {SAMPLES / name} is not there")
    return SAMPLES / name


for one in (
    ("ccda_vendor", "*.xml", "lxml, text alone", _text, 2),
    ("synthea_fhir", "*.json", "json.loads", json.loads, 4),
    ("synthea_bulk", "*.ndjson", "json.loads", _documents, 4),
):
    BENCHES.register(f"convert_{one[0]}")(partial(_converted_files, *one))


@BENCHES.register("convert_omop")
def omop() -> dict[str, Any]:
    """OMOP in Parquet, and its rows by person from DuckDB."""
    with TemporaryDirectory() as place:
        ZipFile(_sample("omop54/Synthea27NjParquet_5.4.zip")).extractall(place)
        folder = next(Path(place).rglob("person.parquet")).parent
        size = f"{sum(one.stat().st_size for one in folder.iterdir()) / 1e6:.1f} MB"
        return _converted(folder, size, "DuckDB, rows by person", lambda: _grouped(folder), 1.5)


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
                f"{len(frame):,} verdicts by arm × reader × judge × band",
                "a data frame's group-by",
                lambda: plain.counts(frame),
                lambda: counted(ask, by),
                at_most=2,
            )


@BENCHES.register("clustered_bootstrap")
def clustered() -> dict[str, Any]:
    """Rows as in the paper: six models answer each of 366 labelled questions of 270 pairs."""
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.integers(0, 270, 366), 6)
    deciles = np.repeat(rng.integers(0, 10, 366), 6)
    correct = rng.integers(0, 2, pairs.size).astype(float)
    plain, fast = reference("bootstrap").clustered_bootstrap, reference("bootstrap").binned_means
    rows = (correct, pairs, deciles, 5000)
    return compare(
        "2,196 rows × 10 deciles × 5,000 resamples",
        "a loop of resamples",
        lambda: plain(*rows, np.random.default_rng(42)),
        lambda: fast(*rows, np.random.default_rng(42)),
        at_most=0.014,
        rounds=2,
        calls=3,
    )
