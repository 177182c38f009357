"""Runs of kind forecast from spec to report: counts, tables, resume in the middle of a training,
refusals, what the verdict may say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from midchart.core.cohorts.labelled import labelled
from midchart.core.errors import DataUseError, InputError
from midchart.core.loaders.open import open_cohort
from midchart.core.results.report import report, report_csv
from midchart.core.runs.directory import find_run, run_ids
from midchart.core.runs.process import cancel, start
from midchart.core.stats.auroc import ranking_areas
from midchart.core.training_experiments.forecast.evaluation import (
    prediction_files,
    read_columns,
)
from midchart.core.training_experiments.forecast.examples import shuffled
from midchart.core.training_experiments.forecast.tables import compared_tables, finding
from tests.support.forecasts import write_cohort
from tests.support.run_helpers import (
    continue_run,
    finished_run,
    until,
    wait_until,
    workspace_at,
)

SPEC = {
    "kind": "forecast",
    "tasks": ["anemia"],
    "variants": ["softmax", {"name": "gated_differential", "gate": "frozen", "loss": "focal"}],
    "baselines": ["constant", "logistic_counts"],
    "seeds": [1, 2],
    "epochs": 2,
    "values": True,
    "length": 16,
    "device": "cpu",
    "protocol": {"preset": "corrected", "resamples": 200},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    with workspace_at(tmp_path_factory.mktemp("forecast")) as folder:
        write_cohort(folder / "labs")
        yield folder


@pytest.fixture(scope="module")
def run(place: Path) -> str:
    return finished_run({**SPEC, "data": str(place / "labs")})


def test_a_run_holds_every_model_and_table(run: str, tmp_path: Path) -> None:
    run_report = report(run)
    assert run_report["items"] == {"planned": 6, "done": 6, "failed": 0}
    tables = run_report["tables"]
    gated = "gated_differential gate=frozen loss=focal"
    assert [(r["variant"], r["seed"]) for r in tables["forecast"]] == [
        ("softmax", 1), ("softmax", 2), (gated, 1), (gated, 2),
        ("constant", None), ("logistic_counts", None),
    ]  # fmt: skip
    for row in tables["forecast"]:
        assert row["n"] == 80 and row["prevalence"] == row["positive"] / 80
        assert row["patients"] == 20
        assert row["ci_low"] <= row["auroc"] <= row["ci_high"]
        folder = find_run(run).path
        labels, draws = prediction_files(folder, _item(run, row))
        stored = read_columns(folder, labels)
        assert ranking_areas(stored["score"], stored["label"]) == pytest.approx(
            (row["auroc"], row["auprc"])
        )
        assert len(read_columns(folder, draws)["auroc"]) == 200
        assert len(set(stored["label_index"])) == 80
    assert {len(tables[name]) > 0 for name in tables if name != "failures"} == {True}
    assert {r["variant"] for r in tables["gate"]} == {gated}
    assert {r["seed"] for r in tables["epochs"]} == {1, 2} and len(tables["epochs"]) == 8
    assert {r["zeros"] for r in tables["sparsity"] if r["variant"] == "softmax"} == {0.0}
    by = {r["variant"]: r for r in tables["summary"]}
    assert by["softmax"]["difference"] is None and by["softmax"]["auroc_sd"] > 0
    areas = [r["auroc"] for r in tables["forecast"] if r["variant"] == gated]
    base = [r["auroc"] for r in tables["forecast"] if r["variant"] == "softmax"]
    assert by[gated]["difference"] == pytest.approx(np.mean(areas) - np.mean(base))
    assert by[gated]["difference_low"] <= by[gated]["difference"] <= by[gated]["difference_high"]
    assert by["constant"]["auroc_mean"] == 0.5
    assert by["constant"]["auprc_mean"] == pytest.approx(by["constant"]["prevalence"])
    assert by["logistic_counts"]["auroc_mean"] > 0.6
    published = {(r["task"], r["variant"]): r for r in tables["published"]}
    assert published["anemia", "differential"]["paper_auroc"] == 0.824
    assert published["anemia", "softmax"]["auroc"] == pytest.approx(np.mean(base))
    assert len(report_csv(run, tmp_path)) == len(tables)


def test_a_difference_is_over_the_seeds_that_both_have(run: str) -> None:
    folder = find_run(run)
    rows = [
        row
        for row in folder.store(folder.plan()).select("models", "*")
        if (row["variant"], row["seed"]) != ("softmax", 2)
    ]
    area = {(row["attention"], row["seed"]): row["auroc"] for row in rows}
    summed, _ = compared_tables(rows, folder.path, folder.plan().protocol)
    by_variant = {row["variant"]: row for row in summed}
    gated = next(row for name, row in by_variant.items() if name.startswith("gated"))
    assert (gated["seeds"], gated["seeds_paired"]) == (2, 1)
    assert gated["difference"] == pytest.approx(area["gated_differential", 1] - area["softmax", 1])
    without, means = compared_tables(
        [row for row in rows if row["variant"] != "softmax"], folder.path, folder.plan().protocol
    )
    assert means == []
    assert all(row["difference"] is None and row["holm_p"] is None for row in without)
    assert {finding(row) for row in without} <= {"not compared", "collapsed"}


def test_a_mean_over_tasks_pairs_the_resamples_of_the_same_patients(run: str) -> None:
    folder = find_run(run)
    gated = "gated_differential gate=frozen loss=focal"
    rows = [
        row
        for row in folder.store(folder.plan()).select("models", "*")
        if row["variant"] in (gated, "softmax")
    ]
    swapped = {gated: "softmax", "softmax": gated}
    # A second task with the same models, their names swapped: each difference cancels, and so does
    # that of every resample of the same patients.
    other = [{**row, "task": "other", "variant": swapped[row["variant"]]} for row in rows]
    plain = dataclasses.replace(folder.plan().protocol, intervals="percentile")
    for protocol in (plain, folder.plan().protocol):
        summed, (mean,) = compared_tables([*rows, *other], folder.path, protocol)
        differences = [row["difference"] for row in summed if row["variant"] == gated]
        assert differences[0] == pytest.approx(-differences[1]) and differences[0] != 0
        assert (mean["variant"], mean["tasks"], mean["of_tasks"]) == (gated, 2, 2)
        assert mean["mean"] == pytest.approx(0)
        assert (mean["lowest"], mean["highest"]) == pytest.approx(sorted(differences))
        if protocol is plain:
            assert (mean["mean_low"], mean["mean_high"]) == pytest.approx((0, 0))
        else:
            # The score interval remains, of tasks taken as independent.
            assert mean["mean_low"] < 0 < mean["mean_high"]
    single = compared_tables(rows, folder.path, plain)[1]
    assert [(row["mean"], row["of_tasks"]) for row in single] == [(differences[0], 1)]
    (_, summary_row) = compared_tables(rows, folder.path, plain)[0]
    assert (single[0]["mean_low"], single[0]["mean_high"]) == pytest.approx(
        (summary_row["difference_low"], summary_row["difference_high"])
    )


def _item(run: str, row: dict[str, object]) -> str:
    store = find_run(run).store(find_run(run).plan())
    model_rows = store.select("models", "item, variant, seed")
    return next(
        r["item"] for r in model_rows if (r["variant"], r["seed"]) == (row["variant"], row["seed"])
    )


@pytest.mark.slow
def test_a_cancelled_run_resumes_within_a_training(place: Path, run: str) -> None:
    """That it then comes to the same weights is shown where trainings are tested."""
    cut = start(
        {
            **SPEC,
            "data": str(place / "labs"),
            "variants": ["softmax"],
            "baselines": [],
            "seeds": [1],
            "epochs": 40,
        }
    )
    training = find_run(cut).path / "training"
    until(lambda: list(training.glob("*.pt")), "an epoch is saved")
    cancel(cut)
    wait_until(cut, "cancelled")
    (left,) = training.glob("*.pt")
    done = len(torch.load(left, weights_only=True)["history"])
    assert 1 <= done < 40
    assert continue_run(find_run(cut)) == "done"
    epochs = report(cut)["tables"]["epochs"]
    assert [row["epoch"] for row in epochs] == list(range(1, 41))
    assert not list(training.glob("*.pt"))


def test_forbidden_and_impossible_runs_are_refused_before_a_folder_is_made(place: Path) -> None:
    write_cohort(place / "closed", patients=6, training=False)
    (place / "notes").mkdir()
    (place / "notes" / "a.txt").write_text("a note")
    before = run_ids()
    for changes, words in (
        ({"data": str(place / "closed")}, "does not allow training"),
        ({"tasks": ["anaemia"]}, "Did you mean anemia"),
        ({"data": str(place / "notes")}, "no coded events"),
    ):
        with pytest.raises((InputError, DataUseError), match=words) as error:
            start({**SPEC, "data": str(place / "labs"), **changes})
        assert "\n" not in str(error.value)
    assert run_ids() == before


def test_a_random_split_keeps_patients_whole_and_repeats(place: Path) -> None:
    labels = labelled(open_cohort(place / "labs")).labels("anemia")
    one, two, other = shuffled(labels, 7), shuffled(labels, 7), shuffled(labels, 8)
    assert np.array_equal(one.split, two.split) and not np.array_equal(one.split, other.split)
    counted = [len(np.unique(one.patient[one.split == i])) for i in range(3)]
    assert counted == [42, 9, 9]
    for patient in np.unique(one.patient):
        assert len(set(one.split[one.patient == patient])) == 1


ROW = {
    "task": "anemia", "variant": "differential", "seeds": 3, "auroc_mean": 0.8, "auroc_sd": 0.01,
    "ci_low": 0.77, "ci_high": 0.83, "auprc_mean": 0.7, "prevalence": 0.3, "n": 1000,
    "patients": 100, "difference": 0.02, "difference_low": 0.01, "difference_high": 0.03,
    "seeds_better": 3, "seeds_paired": 3, "holm_p": 0.004, "collapsed": None, "gate_mean": None,
    "gate_sd": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "better"),
        ({"holm_p": 0.06}, "no difference shown"),
        ({"seeds_better": 2}, "no difference shown"),
        ({"difference": -0.02, "seeds_better": 0}, "worse"),
        ({"difference": -0.02, "seeds_better": 1}, "no difference shown"),
        ({"variant": "softmax", "holm_p": None}, "reference"),
        ({"variant": "logistic_counts", "seeds_better": 0, "seeds_paired": 0}, "better"),
        ({"holm_p": None}, "not compared"),
        ({"collapsed": 2, "gate_mean": 0.5, "gate_sd": 0.02}, "collapsed"),
        ({"collapsed": 0, "gate_mean": 0.3, "gate_sd": 0.2}, "better"),
    ],
)
def test_the_verdict_claims_no_more_than_the_row_shows(
    changes: dict[str, object], expected: str
) -> None:
    row = {**ROW, **changes}
    assert finding(row) == expected
