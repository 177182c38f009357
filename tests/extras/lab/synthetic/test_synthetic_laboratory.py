"""The laboratory cohort: reproducible, equal in both layouts, with a signal to learn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from midchart.core.cohorts.labelled import labelled
from midchart.core.errors import InputError
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort
from midchart.core.sequences.store import last_events
from midchart.extras.lab.synthetic import laboratory as codes
from midchart.extras.lab.synthetic.laboratory import (
    grades,
    make_laboratory,
    make_patient,
    patient_rng,
    split_of_patients,
)

EHRSHOT_PATIENTS, EHRSHOT_EVENTS = 6739, 6190
"""Patients, and events of an average one, of a cohort of EHRSHOT's size."""

TRUE = {"anemia": 69.0, "hyponatremia": 28.5, "thrombocytopenia": 33.2, "hyperkalemia": 2.38}
"""Published prevalences, % (docs/methods.md, Experiment 2)."""


@pytest.fixture(scope="module")
def default_cohort(tmp_path_factory):
    """The default cohort in EHRSHOT's layout, opened."""
    home = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_CACHE", str(home / "cache"))
        summary = make_laboratory(home / "lab")
        data = labelled(open_cohort(str(home / "lab")))
        data.store()
    return summary, data


def test_both_layouts_hold_the_same_events_and_labels(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    both = []
    for layout in ("ehrshot", "meds"):
        make_laboratory(tmp_path / layout, layout, 20, 100)
        cohort = open_cohort(str(tmp_path / layout))
        checked = check_cohort(cohort)
        assert checked["skipped"] == checked["warnings"] == []
        both.append((labelled(cohort), checked))
    (one, a), (other, b) = both
    assert a["labels"] == b["labels"]
    assert (one.store().code == other.store().code).all()
    assert np.array_equal(one.store().value, other.store().value, equal_nan=True)
    static = other.store().time != one.store().time
    gender = [w.startswith("Gender") for w in np.array(one.store().words("code"))[one.store().code]]
    assert static.tolist() == gender, "sex is static in MEDS alone"
    left, right = (last_events(d.store(), d.labels("anemia")) for d in (one, other))
    assert (left.codes == right.codes).all()


def test_prevalences_are_near_the_true_ones(default_cohort):
    summary, data = default_cohort
    for task, wanted in TRUE.items():
        counts = summary["labels"][task]
        assert 100 * counts["positive"] / counts["n"] == pytest.approx(wanted, rel=0.2), task
        assert data.labels(task).positive.sum() == counts["positive"]
    low = summary["labels"]["hypoglycemia"]
    assert 1.0 < 100 * low["positive"] / low["n"] < 2.5


def test_grades_are_those_of_the_readings():
    # Anemia below 120, 110, 70; hyperkalemia above 5.5, 6, 7: the edge itself is the milder.
    readings = np.array(
        [[1200, 1350, 1500, 55, 39], [1199, 1349, 1499, 56, 38], [1099, 1299, 999, 61, 34],
         [699, 1249, 499, 71, 29]], np.int32,
    )  # fmt: skip
    assert grades(readings).tolist() == [[grade] * 5 for grade in range(4)]


def test_labels_grade_the_reading_a_minute_later():
    patient = make_patient(patient_rng(1, 0), 300)
    for k, lab in enumerate(codes.labs()):
        of_lab = patient.code == codes.offset_of("lab") + k
        at, read = patient.time[of_lab][1:], patient.tenths[of_lab][1:]
        assert (at - 1 == patient.asked).all()
        abnormal = read < lab.mild * 10 if lab.abnormal == "low" else read > lab.mild * 10
        assert (abnormal == (patient.grade[:, k] >= 1)).all()
    assert (np.diff(patient.time) >= 0).all()


def test_splits_are_ehrshot_s_at_its_size():
    names = split_of_patients(EHRSHOT_PATIENTS, 42)
    assert [names.count(s) for s in ("train", "tuning", "held_out")] == [2295, 2232, 2212]


def test_other_data_are_never_replaced(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.csv").write_text("x")
    with pytest.raises(InputError, match="choose an empty folder"):
        make_laboratory(tmp_path, patients=3, events_per_patient=60)
    assert (tmp_path / "data" / "mine.csv").read_text() == "x"
    with pytest.raises(InputError, match="≥ 3"):
        make_laboratory(tmp_path / "new", patients=2)
    make_laboratory(tmp_path / "new", "ehrshot", 3, 60)
    make_laboratory(tmp_path / "new", "meds", 3, 60)
    assert not (tmp_path / "new" / "EHRSHOT_ASSETS").exists()


def test_the_meds_layout_passes_the_schema_of_its_package(tmp_path):
    """The facts of ``meds`` 0.4's ``schema.py``, which is no dependency of the program: names and
    types of columns, which may hold a null, and where others may stand."""
    make_laboratory(tmp_path, "meds", 6, 60)
    integer, text, moment = pa.int64(), pa.string(), pa.timestamp("us")
    needed = {"subject_id": integer, "prediction_time": moment}
    values = {
        "boolean_value": pa.bool_(), "integer_value": integer, "float_value": pa.float32(),
        "categorical_value": text,
    }  # fmt: skip
    labels = list(tmp_path.glob("labels/*/*.parquet"))
    events = list(tmp_path.glob("data/*/*.parquet"))
    assert labels and events
    for file in labels:
        table = parquet.read_table(file)
        assert (
            needed.items() <= dict(zip(table.column_names, table.schema.types, strict=True)).items()
        )
        for name in table.column_names:
            assert table.schema.field(name).type == (needed | values)[name]
            assert table[name].null_count == 0, "no label column may hold a null"
        assert len(table.column_names) > len(needed), "a label has a value"
    for file in events:
        table = parquet.read_table(file)
        for name, type in {
            "subject_id": integer, "time": moment, "code": text, "numeric_value": pa.float32(),
            "text_value": pa.large_string(),
        }.items():  # fmt: skip
            assert table.schema.field(name).type == type, name
        assert table["subject_id"].null_count == table["code"].null_count == 0
    splits = parquet.read_table(tmp_path / "metadata" / "subject_splits.parquet")
    assert splits.schema.equals(pa.schema({"subject_id": integer, "split": text}))
    codes = parquet.read_table(tmp_path / "metadata" / "codes.parquet")
    assert codes.schema.equals(
        pa.schema({"code": text, "description": text, "parent_codes": pa.list_(text)})
    )
