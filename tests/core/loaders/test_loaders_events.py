"""EHRSHOT's layout and MEDS: what loads, what is reported in one line, and what is refused."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from midchart.core.cohorts import labelled as shared
from midchart.core.cohorts.labelled import labelled
from midchart.core.errors import DataError, UnknownName
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort
from midchart.core.sequences.store import NO_TIME, last_events
from tests.support.event_files import LABELS, SPLITS, write_ehrshot, write_meds

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "meds_sample"


def check(folder: Path):
    checked = check_cohort(open_cohort(str(folder)))
    json.dumps(checked, allow_nan=False)
    return checked


def test_ehrshot_loads_with_labels_and_splits(tmp_path):
    checked = check(write_ehrshot(tmp_path / "c"))
    assert (checked["format"], checked["records"], checked["events"]) == ("ehrshot", 3, 6)
    assert checked["skipped"] == checked["warnings"] == []
    assert checked["labels"] == {
        "lab_anemia": {
            "n": 4,
            "positive": 2,
            "splits": {"train": 1, "tuning": 2, "held_out": 1},
            "positives": {"train": 0, "tuning": 2, "held_out": 0},
        }
    }
    assert checked["manifest"]["training_allowed"] is False


@pytest.mark.parametrize("version", ["0.3", "0.4"])
def test_meds_gives_the_same_labels_and_sequences(tmp_path, version):
    one = labelled(open_cohort(str(write_ehrshot(tmp_path / "c"))))
    other = labelled(open_cohort(str(write_meds(tmp_path / "m", version))))
    assert other.tasks == ("anemia",)
    first, second = one.labels("anemia"), other.labels("anemia")
    for name in ("patient", "time", "value", "positive", "split"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    a, b = last_events(one.store(), first, 4), last_events(other.store(), second, 4)
    words = [np.array(d.store().words("code")) for d in (one, other)]
    assert words[0][a.codes[1:]].tolist() == words[1][b.codes[1:]].tolist()
    # Patient 1 has a static event more in MEDS: it comes first and is known at any time.
    assert words[1][b.codes[0]].tolist() == ["", "", "GENDER//F", "ICD/A"]
    assert words[0][a.codes[0]].tolist() == ["", "", "", "ICD/A"], "the reading itself is not in"
    assert b.deltas[0].tolist() == [0, 0, -1, 1]
    assert a.values[2].tolist()[2] == 110.5
    assert other.store().time[0] == NO_TIME


def test_a_record_is_opened_from_the_store(tmp_path):
    cohort = open_cohort(str(write_meds(tmp_path / "m")))
    assert list(cohort.records) == ["1", "2", "3"]
    events = cohort.records["2"].events
    assert [e.name for e in events] == ["A disease", "LOINC/718-7", "ICD/B"]
    assert [e.text for e in events] == ["", "110.5", "Yellow, cloudy"]
    assert events[1].time == datetime(2010, 1, 3, 10)
    assert "02" not in cohort.records
    with pytest.raises(UnknownName):
        cohort.records["9"]


FAR = ("12000-01-01", "290000-01-01", "2020-01-01 (BC)", "290000-01-01 (BC)")


@pytest.mark.parametrize("kind", ["text", "timestamp", "zoned", "date"])
def test_times_of_meds_that_no_record_can_hold_are_left_out_and_counted(tmp_path, kind):
    folder = write_meds(tmp_path / "m")
    times = {
        "text": pa.array(["2010-01-02", *FAR[:2], "9999-12-31"]),
        "timestamp": pa.array([0, 2**63 - 2, 5 - 2**63, 253402300799999999], pa.timestamp("us")),
        "zoned": pa.array([0, 2**63 - 2, 5 - 2**63, 253402300799999999], pa.timestamp("us", "UTC")),
        "date": pa.array([0, 4_000_000, -4_000_000, 2_932_896], pa.date32()),
    }[kind]
    table = {"subject_id": [1, 1, 1, 1], "time": times, "code": ["a", "b", "c", "d"]}
    parquet.write_table(pa.table(table), folder / "data" / "a" / "0.parquet")
    checked = check(folder)
    assert checked["events"] == 2
    assert any("2 rows have a time outside of the years" in s["reason"] for s in checked["skipped"])
    first, last = open_cohort(str(folder)).records["1"].events
    assert (first.code, last.code, last.time.year) == ("a", "d", 9999)


def test_ids_of_meds_that_are_no_whole_numbers_are_nobodys(tmp_path):
    folder = write_meds(tmp_path / "m")
    (file,) = (folder / "data").rglob("*.parquet")
    table = parquet.read_table(file)
    ids = [float(id) for id in table["subject_id"].to_pylist()]
    ids[-1] += 0.5
    column = table.schema.get_field_index("subject_id")
    parquet.write_table(table.set_column(column, "subject_id", pa.array(ids)), file)
    rows = check(folder)["balance"]
    assert [(part["total"], part["shown"]) for part in rows if part["what"] == "rows"] == [
        (len(ids), len(ids) - 1)
    ]


def test_bad_labels_and_splits_are_counted_by_reason(tmp_path):
    labels = LABELS + (
        "9,2010-01-01,categorical,1\n8,2010-01-01,categorical,1\n"
        "1,soon,categorical,1\n2,2010-01-05 00:00:00,categorical,0\n"
        "3,2012-07-01,categorical,maybe\n"
    )
    splits = SPLITS + "val,4\ntrain,3\nheld,1x\n"
    checked = check(write_ehrshot(tmp_path / "c", labels=labels, splits=splits))
    reasons = "\n".join(skip["reason"] for skip in checked["skipped"])
    assert "2 labels are of patients without events" in reasons
    assert "1 labels repeat a patient and time" in reasons
    assert "1 labels have no readable prediction time" in reasons
    assert "1 labels have no readable value" in reasons
    assert "1 patients are in two splits" in reasons
    assert "1 rows have no patient id" in reasons
    assert "maybe" not in reasons
    assert checked["labels"]["lab_anemia"]["n"] == 4
    assert checked["labels"]["lab_anemia"]["splits"] == {"train": 1, "tuning": 2, "held_out": 0}
    warned = "\n".join(checked["warnings"])
    assert "1 patients with events are in no split" in warned
    assert "1 patients of the splits have no event" in warned


def test_a_task_without_its_columns_leaves_the_others(tmp_path):
    folder = write_ehrshot(tmp_path / "c")
    bad = folder / "EHRSHOT_ASSETS" / "benchmark" / "guo_los" / "labeled_patients.csv"
    bad.parent.mkdir()
    bad.write_text("patient_id,value\n1,1\n")
    checked = check(folder)
    assert list(checked["labels"]) == ["lab_anemia"]
    assert "lacks the columns prediction_time" in checked["skipped"][0]["reason"]


def test_large_event_files_are_read_on_demand(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "SMALL", 10)
    cohort = open_cohort(str(write_ehrshot(tmp_path / "c")))
    assert len(cohort.records) == 3, "known from the splits"
    with pytest.raises(DataError, match="midchart check"):
        cohort.records["1"]
    check_cohort(cohort)
    assert len(cohort.records["1"].events) == 2


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="the open MEDS sample is not beside the project")
def test_the_open_sample_loads():
    checked = check(SAMPLE)
    assert (checked["records"], checked["events"], checked["skipped"]) == (100, 77542, [])
    data = labelled(open_cohort(str(SAMPLE)))
    assert sorted(np.unique(list(data.splits.values()))) == [0, 1, 2]
    assert (data.store().time == NO_TIME).sum() == 100


def test_events_with_lists_in_place_of_text_are_refused(tmp_path) -> None:
    times = pa.array([datetime(2020, 1, 1)], pa.timestamp("us"))
    events = {"subject_id": [1], "time": times, "code": ["NOTE"], "text_value": [["a"]]}
    (tmp_path / "data").mkdir()
    parquet.write_table(pa.table(events), tmp_path / "data" / "0.parquet")
    with pytest.raises(DataError, match="data: holds lists or structures in a column"):
        check_cohort(open_cohort(str(tmp_path)))
