"""OMOP tables in every container give the same records; rows that are not read are named."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from midchart.core.loaders.omop import Omop
from midchart.core.loaders.open import open_cohort
from midchart.core.text import event_text

SAMPLES = Path(__file__).parents[4] / "shared" / "data" / "omop54"
TABLES = {
    "PERSON": "person_id,year_of_birth\n-7,1950\n8,1960",
    "DEATH": "person_id,death_date,cause_source_value\n-7,2020-01-01,Sepsis",
}


def as_duckdb(place: Path, tables: dict[str, str]) -> Path:
    with duckdb.connect(str(place / "cdm.duckdb")) as base:
        for name, text in tables.items():
            base.register("frame", pd.read_csv(StringIO(text)).rename(columns=str.upper))
            base.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
    return place / "cdm.duckdb"


def test_view_in_a_database_is_not_run(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("person_id,note_text\n-7,secret\n")
    place = as_duckdb(tmp_path, TABLES)
    with duckdb.connect(str(place)) as base:
        base.execute(f"CREATE VIEW NOTE AS SELECT * FROM read_csv('{secret}')")
    cohort = open_cohort(place)
    assert "secret" not in " ".join(event_text(e) for e in cohort.records["-7"].events)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the open samples are not here")
def test_open_sample_is_the_same_as_csv_and_as_parquet() -> None:
    csv, parquet = (
        Omop().load(str(SAMPLES / name))
        for name in ("Synthea27Nj_5.4.zip", "Synthea27NjParquet_5.4.zip")
    )
    assert len(csv.records) == 28
    for id in csv.records:
        assert csv.records[id].digest == parquet.records[id].digest
    assert not csv.skipped


IDS = ["-70", "-7", "0", "7", "8", "9", "10", "100", "1000", "20000"]


@pytest.mark.parametrize("parquet", [True, False])
@pytest.mark.parametrize(
    "ids",
    [IDS, ["1.0", "2.0", "3.0", "20.0"], ["007", "07", "7", "8", "80"], ["7", "8", "9", "x", "y"],
     ["1", "2", str(10**30), "3"]],
)  # fmt: skip
def test_a_person_has_the_same_rows_whoever_is_read_before(
    tmp_path: Path, ids: list[str], parquet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Persons have as many readings as their place; some are read together, in either order."""
    rows = [(id, n) for n in range(len(ids)) for place, id in enumerate(ids) if n <= place]
    readings = pd.DataFrame(
        {
            "person_id": [id for id, _ in rows],
            "measurement_date": [f"2020-01-0{n % 9 + 1}" for _, n in rows],
            "measurement_source_value": [f"of {id}" for id, _ in rows],
            "value_as_number": [str(n) for _, n in rows],
        }
    )
    if parquet and ids is IDS:
        readings = readings.astype({"person_id": "int64"})
    for name, frame in (("person", readings[["person_id"]]), ("measurement", readings)):
        one = frame.drop_duplicates()
        if parquet:
            one.to_parquet(tmp_path / f"{name}.parquet")
        else:
            one.to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.setattr("midchart.core.loaders.omop._ROWS_AT_ONCE", 8)
    records = Omop().load(str(tmp_path)).records
    assert len(records) == len(ids)
    for order in (1, -1):
        for place, id in list(enumerate(ids))[::order]:
            texts = [event_text(event) for event in records[id.removesuffix(".0")].events]
            assert sorted(texts) == sorted(f"of {id}: {n}" for n in range(place + 1))


def test_ids_that_are_not_exact_are_named_and_nobodys(tmp_path: Path) -> None:
    for name, ids in (("person", [1.0, 2.0]), ("measurement", [1.0, 2.0**53 + 2])):
        frame = pd.DataFrame({"person_id": ids, "measurement_source_value": ["a", "b"]})
        frame.to_parquet(tmp_path / f"{name}.parquet")
    cohort = Omop().load(str(tmp_path))
    assert [len(cohort.records[id].events) for id in ("1", "2")] == [1, 0]
    assert any("person_id: 1 ids are floating-point numbers" in one for one in cohort.warnings)
    assert any("1 rows name no person" in one.reason for one in cohort.skipped)
