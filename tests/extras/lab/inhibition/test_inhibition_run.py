"""Runs of kind inhibition from spec to report, and what their verdict may claim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.errors import SpecError, UnknownName
from midchart.core.results.export import export_run
from midchart.core.results.report import report
from midchart.core.runs.directory import find_run, make_run
from midchart.core.runs.estimate import preflight
from midchart.core.runs.planner import plan
from midchart.core.runs.process import status
from midchart.core.runs.spec import parse_spec, read_spec
from midchart.core.runs.worker import do_run
from midchart.extras.lab.inhibition.experiment import items
from midchart.extras.lab.inhibition.training import DecoderTrainer
from tests.support.inhibition_rows import CONTROLS, GATED, make_rows, options
from tests.support.run_helpers import continue_run, finished_run, workspace_at

DOCS = Path(__file__).parents[4] / "docs"
SPEC = {
    "kind": "inhibition",
    "variants": ["softmax", {"name": "gated_differential", "sign": "1-g"}],
    "seeds": [1, 2],
    "training": {"steps": 3, "batch": 2, "questions": 2, "longest": 10},
    "decoder": {"dim": 24, "feedforward": 24},
    "measures": {"records": 4, "depths": 3, "lengths": [8, 12], "base": 8, "distractors": [0, 1]},
    "device": "cpu",
    "protocol": {"preset": "corrected", "resamples": 100},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    with workspace_at(tmp_path_factory.mktemp("inhibition")) as folder:
        yield folder


@pytest.fixture(scope="module")
def run(place: Path) -> str:
    return finished_run(SPEC)


def test_a_run_needs_no_cohort_and_holds_every_decoder(run: str) -> None:
    run_report = report(run)
    assert run_report["items"] == {"planned": 8, "done": 8, "failed": 0}
    tables = run_report["tables"]
    gated = "gated_differential sign=1-g"
    assert [(r["placement"], r["variant"], r["seed"]) for r in tables["inhibition"]] == [
        (placement, variant, seed)
        for placement in ("uniform", "edges")
        for variant in ("softmax", gated)
        for seed in (1, 2)
    ]
    assert len({r["parameters"] for r in tables["inhibition"]}) == 1
    # 4 groups × (8 and 12 lines at 2 distractors, 8 lines at 0 and 1) × 3 depths
    assert len(tables["depth"]) == 4 * 4 * 3 and tables["depth"][0]["n"] == 8
    assert {r["past"] for r in tables["length"]} == {False, True}
    assert {r["distractors"] for r in tables["distractors"]} == {0, 1}
    assert [r["variant"] for r in tables["gate"]] == [gated] * 4
    assert "Fewer than 3 seeds" in tables["verdict"][0]["text"]
    assert any("2 seeds" in warning for warning in run_report["warnings"])
    assert not list((find_run(run).path / "training").glob("*.pt"))


@pytest.mark.slow
def test_a_run_interrupted_in_a_training_resumes_to_the_same_rows(place: Path) -> None:
    spec = {**SPEC, "variants": ["softmax"], "placements": ["edges"], "seeds": [1],
            "training": {**SPEC["training"], "steps": 120}}  # fmt: skip
    cut, uninterrupted = (make_run(plan(read_spec(spec))) for _ in range(2))
    steps: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        usual = DecoderTrainer.save

        def cancelling(self: DecoderTrainer, file: Path) -> None:
            usual(self, file)
            steps.append(self.done)
            cut.cancel.touch()

        patch.setattr(DecoderTrainer, "save", cancelling)
        assert do_run(cut) == "cancelled"
    assert steps == [100], "in the middle of the training"
    assert status(cut.id)["status"] == "cancelled"
    checkpoints = list((cut.path / "training").glob("*.pt"))
    assert len(checkpoints) == 1
    assert continue_run(cut) == continue_run(uninterrupted) == "done"
    for name in ("depth", "contrasts", "attention"):
        assert report(cut.id)["tables"][name] == report(uninterrupted.id)["tables"][name]
    assert not list((cut.path / "training").glob("*.pt"))


def test_a_checkpoint_that_outlived_its_row_goes_with_the_next_pass(run: str) -> None:
    """A worker may end between the two."""
    folder = find_run(run)
    name = items(folder.plan().options)[0].name
    left = folder.path / "training" / f"{name}.pt"
    left.touch()
    folder.done.unlink()
    assert do_run(folder) == "done"
    assert not left.exists() and status(run)["done"] == 8


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data": "demo"}, "makes its own records"),
        ({"variants": ["h2o"]}, "attention of a decoder"),
        ({"variants": ["softmax", "softmax"]}, "'softmax' twice"),
        ({"placements": ["middle"]}, "uniform"),
        ({"decoder": {"dim": 26}}, "multiple of 4"),
        ({"decoder": {"width": 26}}, "feedforward"),
        ({"training": {"steps": 0}}, "training.steps"),
        ({"training": {"longest": 500}}, "at most 120 lines"),
        ({"measures": {"base": 9}}, "none of its lengths"),
        ({"measures": {"lengths": [3, 24]}}, "no more lines than"),
        ({"seeds": ["a"]}, "a valid integer"),
        ({"limit": 3}, "takes no limit"),
    ],
)
def test_impossible_specs_are_refused_in_one_line(change, says) -> None:
    with pytest.raises((SpecError, UnknownName), match=says) as error:
        parse_spec({**SPEC, **change})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name", ["inhibition.toml", "inhibition_controls.toml", "inhibition_quick.toml"]
)
def test_the_shipped_specs_are_valid(place: Path, name: str) -> None:
    spec = read_spec(DOCS / name)
    checked = preflight(DOCS / name)
    assert not checked["problems"] and checked["estimate"]["items"] == len(items(spec.options))
    assert checked["estimate"]["leaves"] is None


def test_a_plans_options_read_back_as_themselves() -> None:
    once = options(variants=["softmax", {"name": "gated_differential", "sign": "1-g"}])
    assert options(**json.loads(json.dumps(once))) == once


def test_a_dip_that_one_variant_lacks_is_a_higher_middle() -> None:
    def chance(variant: str, placement: str, length: int, depth: float) -> float:
        dips = variant == "softmax" and placement == "edges" and 0.3 <= depth <= 0.7
        return 0.3 if dips else 0.9

    tables = make_rows(chance)
    by_contrast = {(r["placement"], r["variant"], r["quantity"]): r for r in tables["contrasts"]}
    assert (
        by_contrast["uniform", "differential", "middle_inside"]["finding"] == "no difference shown"
    )
    row = by_contrast["edges", "differential", "middle_inside"]
    assert row["finding"] == "higher"
    # softmax: .3 at the one middle depth less .9 elsewhere; differential: 0
    assert row["difference"] == pytest.approx(0.6, abs=0.1) and row["seeds_agree"] == 3
    assert row["all_low"] < row["difference_low"] < row["difference_high"] < row["all_high"]


def test_decoders_that_are_always_right_have_intervals_with_a_width() -> None:
    """All alike: resamples have no width, 60 records of three seeds do. One record fewer right
    than the other variant's on every seed is a difference that the records do not show."""
    tables = make_rows(lambda *_: 1.0)
    for name, value in (("depth", "accuracy"), ("length", "accuracy")):
        for row in tables[name]:
            assert row[value] == row["ci_high"] == 1 and 0.9 < row["ci_low"] < 1
    rows = [r for r in tables["contrasts"] if r["quantity"] == "accuracy_inside"]
    for row in (r for r in rows if r["difference"] is not None):
        assert row["all_low"] < row["difference_low"] < row["difference"] == 0
        assert row["all_high"] > row["difference_high"] > 0
    few = make_rows(lambda *_: 1.0, seeds=(1, 2))
    assert all(row["ci_low"] is row["ci_high"] is None for row in few["depth"])
    assert all(row["value_low"] is row["all_low"] is None for row in few["contrasts"])
    assert "Fewer than 3 seeds" in few["verdict"][0]["text"]


@pytest.mark.parametrize(
    ("right", "there", "verdict", "words"),
    [
        # The gate's subtraction does what neither control does.
        ({GATED: 0.9}, CONTROLS, "higher", "gated_differential (edges) +"),
        # Whoever is taught where the evidence is does as well.
        ({GATED: 0.9, CONTROLS[0]: 0.9}, CONTROLS, "not beyond its controls",
         "not shown against both of its controls"),
        # A gate taught nothing true does as well.
        ({GATED: 0.9, CONTROLS[1]: 0.9}, CONTROLS, "not beyond its controls", "Not claimed: "),
        # The run has not both controls.
        ({GATED: 0.9}, CONTROLS[:1], "no controls", "lacks controls"),
        ({GATED: 0.9}, (), "no controls", "this run lacks controls"),
    ],
)  # fmt: skip
def test_a_gate_effect_is_claimed_only_beyond_its_controls(right, there, verdict, words) -> None:
    def chance(variant: str, placement: str, length: int, depth: float) -> float:
        return right.get(variant, 0.3) if 0.3 <= depth <= 0.7 else 0.9

    tables = make_rows(chance, variants=("softmax", GATED, *there))
    verdicts = {
        (r["placement"], r["variant"], r["reference"], r["quantity"]): r["finding"]
        for r in tables["contrasts"]
    }
    assert verdicts["edges", GATED, "softmax", "middle_inside"] == verdict
    text = tables["verdict"][0]["text"]
    assert words in text
    assert ("gated_differential (edges) +" in text) == (verdict == "higher")
    references = {r["reference"] for r in tables["contrasts"] if r["variant"] == GATED}
    assert references == {"softmax", *there}
    for row in tables["contrasts"]:
        if row["reference"] != row["variant"]:
            assert row["comparisons"] == 2 * (1 + 2 * len(there)) * 5
    if there:
        row = next(r for r in tables["contrasts"] if r["variant"] == GATED
                   and (r["reference"], r["quantity"]) == (there[0], "middle_inside"))  # fmt: skip
        wanted = 0.9 - right.get(there[0], 0.3)
        assert row["difference"] == pytest.approx(wanted, abs=0.1)


def test_labels_are_shuffled_of_a_gate_alone_and_named_in_the_variant() -> None:
    variants = options(variants=["softmax", {"name": GATED, "labels": "shuffled"}])["variants"]
    assert [one["label"] for one in variants] == ["softmax", CONTROLS[1]]
    assert variants[1]["labels"] == "shuffled" and variants[1]["options"] == {}
    with pytest.raises(SpecError, match="has no gate"):
        options(variants=[{"name": "softmax", "labels": "shuffled"}])
    with pytest.raises(UnknownName, match="true"):
        options(variants=[{"name": GATED, "labels": "wrong"}])


def test_without_differences_nothing_is_claimed() -> None:
    tables = make_rows(lambda variant, placement, length, depth: 0.7)
    assert "none shows a difference." in tables["verdict"][0]["text"]
    assert {r["finding"] for r in tables["contrasts"]} == {"reference", "no difference shown"}


def test_two_seeds_and_untrained_decoders_are_reported() -> None:
    tables = make_rows(lambda variant, placement, length, depth: 0.2, seeds=(1, 2))
    text = tables["verdict"][0]["text"]
    assert "Fewer than 3 seeds" in text and "8 of 12 decoders are trained so far" in text
    assert "Hardly learned to look facts up: differential (edges)" in text


def test_what_is_shipped_is_offered_and_opened(run, tmp_path, monkeypatch) -> None:
    from midchart.core import config as settings

    shelf = tmp_path / "shelf"
    shelf.mkdir()
    export_run(run, shelf / "lab.zip")
    (shelf / "commands.json").write_text('{"lab.zip": "midchart run lab.toml"}')
    monkeypatch.setattr(settings, "shipped_folder", lambda: shelf)
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "fresh"))
    (offered,) = api.shipped_runs("inhibition")
    assert offered["run"] == run and offered["command"] == "midchart run lab.toml"
    assert api.shipped_runs("forecast") == []
    assert api.open_examples() == {"opened": 1, "already_here": 0}
    assert status(run)["imported"] and report(run)["tables"]["depth"]
    assert api.open_examples() == {"opened": 0, "already_here": 1}
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "other"))
    assert api.open_examples() == {"opened": 1, "already_here": 0}
    assert [row["run"] for row in api.status(None)] == [run]


def test_the_run_that_comes_with_the_program_opens(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path))
    (offered,) = api.shipped_runs("inhibition")
    assert offered["command"] == "midchart run docs/inhibition_controls.toml"
    api.open_examples()
    run_report = report(offered["run"])
    assert run_report["items"] == {"planned": 12, "done": 12, "failed": 0}
    [headline] = run_report["tables"]["verdict"]
    assert headline["text"].count("comparisons with softmax") == 1
    # What both controls do not leave is not claimed of the gate.
    assert "not shown against both of its controls" in headline["text"]
    gated = [
        row
        for row in run_report["tables"]["contrasts"]
        if row["variant"] == "gated_differential" and row["reference"] == "softmax"
    ]
    assert {row["finding"] for row in gated} == {"not beyond its controls", "no difference shown"}
