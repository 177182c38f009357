"""Runs of kind forecast from spec to report: counts, tables, resume in the middle of a training,
refusals, what the verdict may say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from midchart.core.cohorts.labelled import labelled
from midchart.core.errors import DataUseError, InputError
from midchart.core.loaders.open import open_cohort
from midchart.core.results.report import report, report_csv
from midchart.core.runs import process
from midchart.core.runs.directory import find_run, make_run, run_ids
from midchart.core.runs.planner import plan
from midchart.core.runs.process import cancel, start, status
from midchart.core.runs.spec import parse_spec, read_spec
from midchart.core.runs.worker import do_run
from midchart.core.services.curve import attention_map
from midchart.core.stats.auroc import ranking_areas
from midchart.core.training_experiments.forecast.evaluation import (
    prediction_files,
    read_columns,
    stages,
)
from midchart.core.training_experiments.forecast.examples import examples, shuffled
from midchart.core.training_experiments.forecast.experiment import items
from midchart.core.training_experiments.forecast.spec import most_of
from midchart.core.training_experiments.forecast.tables import compared_tables, finding, in_words
from tests.support.forecasts import write_cohort
from tests.support.run_helpers import (
    allow,
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

DEVIANT = {
    "name": "differential", "clip": 0, "choose": "last", "split": "random", "norm": False,
    "encoder": {"norm": "post"},
}  # fmt: skip
"""What the published run did otherwise, all at once."""


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


def test_a_run_waits_for_a_gpu_unless_its_spec_says_cpu(run: str) -> None:
    plan = find_run(run).plan()
    assert process.wanted(plan) == "cpu"
    left_open = dataclasses.replace(plan, options={**plan.options, "device": ""})
    assert process.wanted(left_open) == "gpu"


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
    assert "describes these trainings only" in in_words(gated)
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
    until(lambda: list(training.glob("*.safetensors")), "an epoch is saved")
    cancel(cut)
    wait_until(cut, "cancelled")
    (left,) = training.glob("*.safetensors")
    with safe_open(left, "pt") as file:
        done = len(file.get_tensor("history"))
    assert 1 <= done < 40
    assert continue_run(find_run(cut)) == "done"
    epochs = report(cut)["tables"]["epochs"]
    assert [row["epoch"] for row in epochs] == list(range(1, 41))
    assert not list(training.glob("*.safetensors"))


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"variants": ["softmaxx"]}, "Did you mean softmax"),
        ({"variants": ["softmax", "softmax"]}, "twice"),
        ({"variants": [{"name": "softmax", "gate": "joint"}]}, "no gate"),
        ({"variants": [{"name": "gated_differential", "gate": "sometimes"}]}, "frozen, joint"),
        ({"variants": [{"name": "gated_differential", "sign": "-"}]}, "1-g"),
        ({"variants": [{"name": "h2o", "shares": 1}]}, "shares"),
        ({"baselines": ["forest"]}, "boosting_counts"),
        ({"seeds": [1, 1]}, "holds 1 twice"),
        ({"epochs": 0}, "from 1"),
        ({"devices": 0}, "from 1"),
        ({"values": "yes"}, "true or false"),
        ({"variants": [{"name": "softmax", "clip": -1}]}, "from 0"),
        ({"variants": [{"name": "softmax", "choose": "first"}]}, "best, last"),
        ({"variants": [{"name": "softmax", "split": "mine"}]}, "official, random"),
        ({"variants": [{"name": "softmax", "encoder": {"norm": "no"}}]}, "post, pre"),
        ({"limit": 5}, "subsample"),
        ({"subsample": {"test": 5}}, "held_out"),
        ({"subsample": {"train": -1}}, "from 0"),
        ({"part": "test"}, "official split"),
        ({"encoder": {"norm": "both"}}, "post, pre"),
        ({"encoder": {"depth": 3}}, "norm"),
        ({"arms": ["bm25"]}, "takes no arms"),
    ],
)
def test_a_spec_is_checked(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_spec({**SPEC, "data": "labs", **changes})


def test_labels_of_each_split_can_be_limited_by_themselves(place: Path) -> None:
    limited = {**SPEC, "data": "labs", "subsample": {"train": 2500, "held_out": 6000}}
    options = parse_spec(limited).options
    assert most_of(options) == {"train": 2500, "tuning": 0, "held_out": 6000}
    data = labelled(open_cohort(place / "labs"))
    limits = {"train": 70, "held_out": 50}
    sample = examples(data.store(), data.labels("anemia"), with_values=True, most=limits)
    assert [len(part) for _, part in sample.parts] == [70, 80, 50]


def test_published_choices_are_off_by_default_and_separate(place: Path) -> None:
    plain, single = parse_spec(
        {**SPEC, "data": "labs", "variants": ["differential", DEVIANT]}
    ).options["variants"]
    assert (plain["clip"], plain["choose"], plain["split"]) == (1.0, "best", "official")
    assert plain["encoder"] == {} and plain["label"] == "differential"
    assert single["label"] == (
        "differential choose=last clip=0 encoder.norm=post norm=False split=random"
    )
    assert single["options"] == {"norm": False} and single["encoder"] == {"norm": "post"}


@pytest.mark.slow
def test_a_tag_that_forbids_training_since_the_run_was_planned_is_obeyed(place: Path) -> None:
    write_cohort(place / "closing")
    folder = make_run(plan(read_spec({**SPEC, "data": str(place / "closing")})))
    tag = place / "closing" / "midchart.toml"
    tag.write_text(tag.read_text().replace("training_allowed = true", "training_allowed = false"))
    with pytest.raises(DataUseError, match="does not allow training"):
        do_run(folder)
    assert not list(folder.path.glob("items/*")) and not (folder.path / "training").exists()


def test_a_variant_on_a_split_of_its_own_is_compared_with_none(place: Path) -> None:
    id = finished_run({
        **SPEC, "data": str(place / "labs"), "baselines": [], "seeds": [1],
        "variants": ["softmax", DEVIANT, {"name": "softmax", "choose": "last"}],
    })  # fmt: skip
    run_report = report(id)
    by = {row["variant"]: row for row in run_report["tables"]["forecast"]}
    apart = next(name for name in by if "split=random" in name)
    # 15 % of 60 patients, with four labels each; the official third of them for the others.
    assert (by[apart]["patients"], by[apart]["n"]) == (9, 36)
    assert by[apart]["best_epoch"] == by["softmax choose=last"]["best_epoch"] == 2
    summed = {row["variant"]: row for row in run_report["tables"]["summary"]}
    assert summed[apart]["difference"] is None
    assert summed["softmax choose=last"]["difference"] is not None
    assert [row["n"] for row in run_report["tables"]["splits"]] == [80, 80, 80]
    assert any("patients of another split" in warning for warning in run_report["warnings"])
    assert set(attention_map(id, "anemia", 0, 1).models) and apart not in {
        one.variant for one in attention_map(id, "anemia", 0, 1).models
    }


def test_a_random_split_keeps_patients_whole_and_repeats(place: Path) -> None:
    labels = labelled(open_cohort(place / "labs")).labels("anemia")
    one, two, other = shuffled(labels, 7), shuffled(labels, 7), shuffled(labels, 8)
    assert np.array_equal(one.split, two.split) and not np.array_equal(one.split, other.split)
    counted = [len(np.unique(one.patient[one.split == i])) for i in range(3)]
    assert counted == [42, 9, 9]
    for patient in np.unique(one.patient):
        assert len(set(one.split[one.patient == patient])) == 1


def test_a_task_goes_by_the_papers_name_or_the_folders(place: Path) -> None:
    folder = write_cohort(place / "prefixed", patients=6)
    benchmark = folder / "EHRSHOT_ASSETS" / "benchmark"
    (benchmark / "anemia").rename(benchmark / "lab_anemia")
    cohort = open_cohort(folder)
    options = parse_spec({**SPEC, "data": "labs", "tasks": ["anemia", "hyperkalemia"]}).options
    assert {one.task for one in items(options, cohort)} == {"lab_anemia", "hyperkalemia"}
    every = items({**options, "tasks": []}, cohort)
    assert len(every) == 2 * (2 + 2 * 2)
    assert len({one.name for one in every}) == len(every)


def test_a_task_without_both_classes_fails_with_its_reason(place: Path) -> None:
    folder = write_cohort(place / "one", patients=9)
    file = folder / "EHRSHOT_ASSETS/benchmark/anemia/labeled_patients.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], *(line.rsplit(",", 1)[0] + ",0" for line in lines[1:])]))
    allow(folder, "training_allowed")
    run = finished_run({**SPEC, "data": str(folder), "variants": ["softmax"], "seeds": [1]})
    assert status(run)["failed"] == 3
    tables = report(run)["tables"]
    assert all("need both classes" in row["reason"] for row in tables["failures"])
    assert tables["forecast"] == tables["summary"] == tables["verdict"] == []
    assert tables["mean_difference"] == []


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
    assert ("collapsed in 2 of 3 seeds" in in_words(row)) is (expected == "collapsed")
    assert "1,000 labels of 100 patients" in in_words(row) and "30.0 %" in in_words(row)


def test_a_p_that_is_not_estimable_is_stated_with_its_reason() -> None:
    reason = "all positive labels are of one patient"
    row = {**ROW, "holm_p": None, "difference_low": None, "difference_high": None}
    text = in_words({**row, "not_estimable": reason})
    assert f"+2.0 points against softmax, p not estimable as {reason}: not compared." in text


def test_the_positive_weight_is_taken_out_of_probabilities_again() -> None:
    """A calibrated model of prevalence 1/5 trained with weight 4 says 1/2 of everyone."""
    shown = stages(np.zeros(3, np.float32), 4.0)
    assert shown["raw"].tolist() == [0.5] * 3
    assert shown["corrected"] == pytest.approx([0.2] * 3)
