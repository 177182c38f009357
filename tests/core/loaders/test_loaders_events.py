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
from midchart.core.cohorts.labelled import FINDINGS, labelled
from midchart.core.errors import DataError, UnknownName
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort
from midchart.core.sequences.store import NO_TIME, last_events
from tests.support.event_files import EVENTS, HEADER, LABELS, SPLITS, write_ehrshot, write_meds

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
    assert cohort.records.get("02") is None
    with pytest.raises(UnknownName):
        cohort.records["9"]


BAD_EVENTS = (
    "x,2010-01-01,,ICD/A,,,,\n"  # no patient id
    "1,,,ICD/A,,,,\n"  # no time
    "1,someday,,ICD/A,,,,\n"
    "1,never,,ICD/A,,,,\n"
    "1,2010-01-01,,,,,,\n"  # no code
    "1,2010-01-01\n"  # too few cells
)


def test_bad_rows_of_events_are_counted_by_reason(tmp_path):
    checked = check(write_ehrshot(tmp_path / "c", HEADER + EVENTS + BAD_EVENTS))
    assert checked["events"] == 6
    line_by_reason = {skip["reason"].split(" — ")[0]: skip["line"] for skip in checked["skipped"]}
    assert line_by_reason == {
        "1 lines are not a row of the table": 13,
        "1 rows have no patient id that is a whole number": 8,
        "1 rows have no code": 12,
        "2 rows have a time that cannot be read": 10,
        "1 rows have no time": 9,
    }
    assert all("someday" not in skip["reason"] for skip in checked["skipped"])


FAR = ("12000-01-01", "290000-01-01", "2020-01-01 (BC)", "290000-01-01 (BC)")


def test_times_that_no_record_can_hold_are_left_out_and_counted(tmp_path):
    events = "".join(f"1,{time},,ICD/Z,,,,\n" for time in FAR)
    labels = "".join(f"1,{time},categorical,1\n" for time in FAR)
    folder = write_ehrshot(tmp_path / "c", HEADER + EVENTS + events, LABELS + labels)
    checked = check(folder)
    assert (checked["events"], checked["labels"]["lab_anemia"]["n"]) == (6, 4)
    assert {(skip["line"], skip["reason"]) for skip in checked["skipped"]} == {
        (8, "4 rows have a time outside of the years 1 to 9999 — they are left out"),
        (6, "4 labels have a prediction time outside of the years 1 to 9999 — left out"),
    }
    assert len(open_cohort(str(folder)).records["1"].events) == 2


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


def test_each_row_is_in_a_record_or_counted_and_no_id_is_rounded(tmp_path):
    more = (
        "1.0,2010-02-01,,ICD/Z,,,,\n"  # patient 1
        "1.5,2010-02-01,,ICD/Z,,,,\n"  # nobody, and not patient 2
        "2,2010-02-01,,ICD/Z,NULL,,,\n"  # no value
        "2,2010-02-01,,ICD/Z\n"  # not a row
    )
    folder = write_ehrshot(tmp_path / "c", HEADER + EVENTS + more)
    cohort = open_cohort(str(folder))
    texts = {
        id: [e.text for e in r.events if e.name == "ICD/Z"] for id, r in cohort.records.items()
    }
    assert texts == {"1": [""], "2": [""], "3": []}
    checked = check(folder)
    (rows,) = [part for part in checked["balance"] if part["what"] == "rows"]
    lines = EVENTS.count("\n") + more.count("\n") + len(SPLITS.splitlines()[1:])
    assert (rows["total"], rows["shown"], rows["unaccounted"]) == (lines, lines - 2, 0)
    assert rows["left_out"] == {
        "are not a row of the table": 1,
        "have no patient id that is a whole number": 1,
    }


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


def test_truncated_lines_of_labels_are_counted_and_lines_are_reported_where_they_are_sure(tmp_path):
    truncated = "1,2011-01-01\n1,2011-01-02,x,1,more\n1,2011-01-03,x,maybe\n"
    for labels, lines in (
        (LABELS + truncated, {"2 lines are not a row of the table": 6, "1 labels": None}),
        (LABELS + "x,2011-01-01,x,1\n\n", {"1 labels": 6}),
        (LABELS + "\nx,2011-01-01,x,1\n", {"1 labels": None}),
    ):
        checked = check(write_ehrshot(tmp_path / str(len(labels)), labels=labels))
        line_by_reason = {
            s["reason"].split(" have")[0].split(" — ")[0]: s["line"] for s in checked["skipped"]
        }
        assert line_by_reason == lines
        assert checked["labels"]["lab_anemia"]["n"] == 4


@pytest.mark.parametrize(
    ("value", "grade"),
    [("0", 0), ("3", 3), ("1.0", 1), ("True", 1), ("false", 0), ("severe", 3), (" Normal", 0)],
)
def test_label_values_may_be_strings(tmp_path, value, grade):
    labels = f"patient_id,prediction_time,label_type,value\n1,2011-01-01,x,{value}\n"
    data = labelled(open_cohort(str(write_ehrshot(tmp_path / "c", labels=labels))))
    anemia = data.labels("anemia")
    assert (anemia.value.tolist(), anemia.positive.tolist()) == ([grade], [int(grade >= 1)])


def test_boolean_labels_and_missing_columns_are_read(tmp_path):
    booleans = pa.array([True, False, None, True])
    folder = write_meds(tmp_path / "m", boolean_value=booleans, integer_value=None)
    checked = check(folder)
    assert checked["labels"]["anemia"]["positive"] == 2
    assert "1 labels have no readable value" in checked["skipped"][0]["reason"]
    assert checked["skipped"][0]["line"] is None, "Parquet has no lines"
    none = write_meds(tmp_path / "n", boolean_value=None, integer_value=None)
    checked = check(none)
    assert checked["labels"] == {}
    assert "has no column with a value" in checked["skipped"][0]["reason"]


def test_label_values_beyond_the_grades_are_reported(tmp_path):
    labels = LABELS.replace(",0\n", ",8192\n")
    checked = check(write_ehrshot(tmp_path / "c", labels=labels))
    assert "values go to 8,192" in checked["warnings"][0]


MASKS = (0, 8192, 1, 8192 >> 7 | 1)
"""No finding marked; the first; the last; the eighth (pneumonia) and the last."""


def written_masks(folder: Path, values: tuple[int, ...]) -> Path:
    write_ehrshot(folder)
    file = folder / "EHRSHOT_ASSETS" / "benchmark" / "chexpert" / "labeled_patients.csv"
    file.parent.mkdir()
    lines = [f"{i % 2 + 1},2011-01-0{i + 1},categorical,{v}" for i, v in enumerate(values)]
    file.write_text("\n".join(["patient_id,prediction_time,label_type,value", *lines]) + "\n")
    return folder


def test_chest_x_ray_masks_are_fourteen_tasks(tmp_path):
    data = labelled(open_cohort(str(written_masks(tmp_path / "c", MASKS))))
    tasks = [f"chexpert_{name}" for name in FINDINGS]
    assert data.tasks == tuple(sorted([*tasks, "lab_anemia"])) and len(tasks) == 14
    marked = {name: set(data.labels(name).time[data.labels(name).positive == 1]) for name in tasks}
    every = sorted(data.labels(tasks[0]).time)
    assert len(every) == 4 and set(data.labels(tasks[3]).value) == {0}
    assert marked["chexpert_no_finding"] == {every[1]}
    assert marked["chexpert_support_devices"] == {every[2], every[3]}
    assert marked["chexpert_pneumonia"] == {every[3]}
    assert sum(map(len, marked.values())) == 4
    with pytest.raises(UnknownName, match="chexpert_"):
        data.labels("chexpert")


def test_a_chest_x_ray_label_that_is_no_mask_is_left_out_and_counted_once(tmp_path):
    checked = check(written_masks(tmp_path / "c", (*MASKS, 16384)))
    assert checked["labels"]["chexpert_edema"]["n"] == 4
    reasons = [s["reason"] for s in checked["skipped"]]
    assert reasons == ["1 labels are no mask of 14 findings, 0 to 16383 — left out"]


def test_masks_in_meds_are_read_likewise_and_plain_labels_stay(tmp_path):
    for values, tasks in ((MASKS, 14), ((0, 1, 1, 0), 1)):
        folder = write_meds(tmp_path / str(tasks))
        file = folder / "labels" / "chexpert" / "0.parquet"
        file.parent.mkdir(parents=True)
        moments = [datetime(2011, 1, day) for day in (1, 2, 3, 4)]
        table = {
            "subject_id": pa.array([1, 2, 1, 2]),
            "prediction_time": pa.array(moments, pa.timestamp("us")),
            "integer_value": pa.array(values, pa.int64()),
        }
        parquet.write_table(pa.table(table), file)
        mask_tasks = [
            t for t in labelled(open_cohort(str(folder))).tasks if t.startswith("chexpert")
        ]
        assert len(mask_tasks) == tasks


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"events": "patient_id,start,value\n"}, "ehrshot.csv:1: lacks the columns code"),
        ({"events": ""}, "lacks the columns patient_id, start, code, value"),
        (
            {"events": HEADER.strip() + "".join(f",c{i}" for i in range(2_000)) + "\n"},
            "names 2,008 columns — at most 64 are read",
        ),
    ],
)
def test_events_without_their_columns_are_refused_in_one_line(tmp_path, change, says):
    with pytest.raises(DataError, match=says) as error:
        open_cohort(str(write_ehrshot(tmp_path / "c", **change)))
    assert "\n" not in str(error.value)


def test_a_task_without_its_columns_leaves_the_others(tmp_path):
    folder = write_ehrshot(tmp_path / "c")
    bad = folder / "EHRSHOT_ASSETS" / "benchmark" / "guo_los" / "labeled_patients.csv"
    bad.parent.mkdir()
    bad.write_text("patient_id,value\n1,1\n")
    checked = check(folder)
    assert list(checked["labels"]) == ["lab_anemia"]
    assert "lacks the columns prediction_time" in checked["skipped"][0]["reason"]


def test_pickles_are_refused_by_name(tmp_path):
    folder = write_ehrshot(tmp_path / "c")
    features = folder / "EHRSHOT_ASSETS" / "features" / "clmbr_features.pkl"
    features.parent.mkdir()
    features.write_bytes(b"\x80\x04.")
    assert "clmbr_features.pkl: pickled files are refused" in check(folder)["warnings"][0]
    with pytest.raises(DataError, match=r"clmbr_features\.pkl: is a pickle"):
        open_cohort(str(features))


def test_metadata_may_be_missing(tmp_path):
    folder = write_meds(tmp_path / "m")
    (folder / "metadata" / "subject_splits.parquet").unlink()
    (folder / "metadata" / "codes.parquet").unlink()
    checked = check(folder)
    warned = "\n".join(checked["warnings"])
    assert "subject_splits.parquet is missing — no patient is in a split" in warned
    assert "codes.parquet is missing" in warned
    assert checked["labels"]["anemia"]["n"] == 4


def test_split_rows_without_an_id_or_a_split_are_counted(tmp_path):
    folder = write_meds(tmp_path / "m")
    rows = {"subject_id": ["1", None, "x", "3"], "split": ["train", "train", "tuning", None]}
    parquet.write_table(pa.table(rows), folder / "metadata" / "subject_splits.parquet")
    cohort = open_cohort(str(folder))
    assert labelled(cohort).splits == {1: 0}
    (skip,) = cohort.skipped
    assert skip.reason.startswith("3 rows have no patient id that is a whole number, or no split")
    splits = SPLITS + "train,--4\ntrain,99999999999999999999\n"
    checked = check(write_ehrshot(tmp_path / "c", splits=splits))
    assert checked["skipped"][0]["reason"].startswith("2 rows have no patient id")
    assert checked["labels"]["lab_anemia"]["n"] == 4


def test_folders_stand_in_for_splits_next_to_events_without_an_id(tmp_path):
    (tmp_path / "train").mkdir()
    table = {"subject_id": [1, None], "time": pa.nulls(2, pa.timestamp("us")), "code": ["A", "B"]}
    parquet.write_table(pa.table(table), tmp_path / "train" / "0.parquet")
    cohort = open_cohort(str(tmp_path))
    assert labelled(cohort).splits == {1: 0}


def test_a_shard_that_is_no_parquet_leaves_the_others(tmp_path):
    folder = write_meds(tmp_path / "m")
    (folder / "data" / "a" / "1.parquet").write_bytes(b"PAR1 no")
    checked = check(folder)
    assert checked["events"] == 7
    assert checked["skipped"][0]["file"] == "data/a/1.parquet"


def test_meds_without_its_columns_is_refused(tmp_path):
    (tmp_path / "m" / "metadata").mkdir(parents=True)
    (tmp_path / "m" / "data").mkdir()
    parquet.write_table(pa.table({"subject_id": [1]}), tmp_path / "m" / "data" / "0.parquet")
    with pytest.raises(DataError, match="lacks the columns time, code"):
        open_cohort(str(tmp_path / "m"))


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
