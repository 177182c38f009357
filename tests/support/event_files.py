"""Small cohorts of coded events written by hand, in EHRSHOT's layout and as MEDS."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from midchart.core.sequences.build import RawTable, build_store
from midchart.core.storage.sources import Source

HEADER = "patient_id,start,end,code,value,unit,visit_id,omop_table\n"
EVENTS = (
    "2,2010-01-03 10:00:00,,LOINC/718-7,110.5,g/L,7,measurement\n"
    "1,2010-01-02 08:00:00,,LOINC/718-7,131,g/L,1,measurement\n"
    "1,2010-01-01 08:00:00,,ICD/A,,,1,condition_occurrence\n"
    "2,2010-01-03 09:00:00,,ICD/A,,,7,condition_occurrence\n"
    '2,2010-01-04 09:00:00,,ICD/B,"Yellow, cloudy",,7,observation\n'
    "3,2012-05-05,,ICD/A,,,9,condition_occurrence\n"
)
LABELS = (
    "patient_id,prediction_time,label_type,value\n"
    "1,2010-01-02 08:00:00,categorical,0\n"
    "2,2010-01-03 10:00:00,categorical,2\n"
    "2,2010-01-05 00:00:00,categorical,1.0\n"
    "3,2012-06-01 00:00:00,categorical,0\n"
)
SPLITS = "split,omop_person_id\ntrain,1\nval,2\ntest,3\n"


def write_ehrshot(
    folder: Path, events: str = HEADER + EVENTS, labels: str = LABELS, splits: str | None = SPLITS
) -> Path:
    """An EHRSHOT_ASSETS under ``folder`` with one task, ``lab_anemia``; gives ``folder``."""
    assets = folder / "EHRSHOT_ASSETS"
    files = {"data/ehrshot.csv": events, "benchmark/lab_anemia/labeled_patients.csv": labels}
    if splits is not None:
        files["splits/person_id_map.csv"] = splits
    for name, text in files.items():
        (assets / name).parent.mkdir(parents=True, exist_ok=True)
        (assets / name).write_text(text, encoding="utf-8")
    return folder


def write_meds(folder: Path, version: str = "0.4", **labels: object) -> Path:
    """The same patients as MEDS, with a static event of patient 1; ``labels`` replaces columns."""
    times = [datetime(2010, 1, 3, 10), datetime(2010, 1, 2, 8), datetime(2010, 1, 1, 8), None,
             datetime(2010, 1, 3, 9), datetime(2010, 1, 4, 9), datetime(2012, 5, 5)]  # fmt: skip
    wide = version == "0.3"
    table = {
        "subject_id": pa.array([2, 1, 1, 1, 2, 2, 3]),
        "time": pa.array(times, pa.timestamp("us")),
        "code": ["LOINC/718-7", "LOINC/718-7", "ICD/A", "GENDER//F", "ICD/A", "ICD/B", "ICD/A"],
        "numeric_value": pa.array(
            [110.5, 131, None, None, None, None, None], pa.float64() if wide else pa.float32()
        ),
    }
    if not wide:
        table["text_value"] = [None] * 5 + ["Yellow, cloudy", None]
    fields = {
        "subject_id": pa.array([1, 2, 2, 3]),
        "prediction_time": pa.array(
            [datetime(2010, 1, 2, 8), datetime(2010, 1, 3, 10), datetime(2010, 1, 5),
             datetime(2012, 6, 1)], pa.timestamp("us"),
        ),
        "boolean_value": pa.nulls(4, pa.bool_()),
        "integer_value": pa.array([0, 2, 1, 0]),
    } | labels  # fmt: skip
    splits = {"subject_id": [1, 2, 3], "split": ["train", "tuning", "held_out"]}
    for name, columns in (
        ("data/a/0.parquet", table),
        ("metadata/subject_splits.parquet", splits),
        ("metadata/codes.parquet", {"code": ["ICD/A"], "description": ["A disease"]}),
        ("labels/anemia/0.parquet", {k: v for k, v in fields.items() if v is not None}),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table(columns), folder / name)
    return folder


def random_store(folder: Path, rng: np.random.Generator, patients: int, events: int, codes: int):
    """A store of made-up events, several at one time and some without any."""
    count = int(patients * events)
    time = rng.integers(0, 40 * events, count) * 3_600_000_000
    empty = rng.random(count) < 0.3
    table = pa.table(
        {
            "p": rng.integers(0, patients, count) * 3 + 1,
            "t": pa.array(time, mask=rng.random(count) < 0.02),
            "code": [f"C/{i}" for i in rng.integers(0, codes, count)],
            "v": pa.array(rng.random(count).astype(np.float32), mask=empty),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "rows.parquet"
    parquet.write_table(table, file)
    select = (
        "SELECT p, t, false AS bad, code, v, NULL::VARCHAR AS x, NULL::VARCHAR AS u, "
        f"NULL::VARCHAR AS k FROM read_parquet('{file}')"
    )
    return build_store(RawTable("rows", select, (Source.at(file),)), folder / "store")
