"""The laboratory cohort: reproducible, equal in both layouts, with a signal to learn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

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
from tests.support.synthetic_files import digest

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


@pytest.mark.parametrize("layout", ["ehrshot", "meds"])
def test_one_seed_gives_the_same_bytes(tmp_path, layout):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        make_laboratory(tmp_path / name, layout, 12, 80, seed)
    a, b, c = (digest(tmp_path / name) for name in "abc")
    assert a == b != c


def test_events_are_the_same_whatever_the_number_of_patients(tmp_path):
    make_laboratory(tmp_path / "a", patients=4, events_per_patient=80)
    make_laboratory(tmp_path / "b", patients=6, events_per_patient=80)
    few, more = (
        (tmp_path / n / "EHRSHOT_ASSETS" / "data" / "ehrshot.csv").read_text() for n in "ab"
    )
    assert more.startswith(few)


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


def test_ehrshot_s_size_is_met_on_average():
    sizes = [len(make_patient(patient_rng(42, i), EHRSHOT_EVENTS).time) for i in range(60)]
    assert np.mean(sizes) * EHRSHOT_PATIENTS == pytest.approx(41_661_637, rel=0.1)


def test_codes_predict_the_label_and_values_predict_it_better(default_cohort):
    """Logistic regression, trained on training patients, on held-out ones."""
    _, data = default_cohort
    store = data.store()
    words = store.words("code")
    for task, code in (("anemia", "LOINC/718-7"),):
        labels = data.labels(task)
        events = last_events(store, labels)
        n, width = len(labels), len(words)
        cells = np.arange(n)[:, None] * width + events.codes
        counts = np.bincount(cells.ravel(), minlength=n * width).reshape(n, width)[:, 1:]
        lab = events.codes == words.index(code)
        read = np.where(lab, np.nan_to_num(events.values), 0).sum(1) / np.maximum(lab.sum(1), 1)
        train, test = labels.part("train"), labels.part("held_out")
        assert not set(labels.patient[train]) & set(labels.patient[test])
        scaled = np.log1p(counts.astype(float))
        standard = (read - read[train].mean()) / read[train].std()
        both = np.column_stack([scaled, 3 * standard])
        auroc = []
        for features in (scaled, both):
            model = LogisticRegression(C=0.01, max_iter=200).fit(
                features[train], labels.positive[train]
            )
            auroc.append(
                roc_auc_score(labels.positive[test], model.decision_function(features[test]))
            )
        assert auroc[0] > 0.57, task
        assert auroc[1] > auroc[0] + 0.08, task


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
