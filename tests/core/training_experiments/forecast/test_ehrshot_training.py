"""Training of the EHRSHOT encoders: repeatable to the last bit, resumed exactly, guarded against
non-finite loss; tokens, baselines, examination and saved models."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from midchart.core.attention import ATTENTIONS
from midchart.core.errors import DataError
from midchart.core.stats.auroc import ranking_areas
from midchart.core.training import Aborted
from midchart.core.training_experiments.forecast.evaluation import (
    pr_points,
    roc_points,
    sparsity,
)
from midchart.core.training_experiments.forecast.examples import (
    BASELINES,
    UNKNOWN,
    Examples,
    counts,
    fit,
    learn_vocabulary,
)
from midchart.core.training_experiments.forecast.spec import EncoderRecipe, collapsed
from midchart.core.training_experiments.forecast.training import (
    EncoderConfig,
    ForecastTrainer,
    load_model,
    save_model,
)
from midchart.core.training_experiments.measures import calibration_rows
from tests.support.forecasts import LENGTH, make_examples

SMALL = {"positions": LENGTH, "dim": 16, "heads": 2, "feedforward": 32, "head": 8}


def trainer(
    examples: Examples,
    attention: str = "softmax",
    recipe: EncoderRecipe | None = None,
    **options: object,
) -> ForecastTrainer:
    config = EncoderConfig(examples.vocabulary.size, attention, options, **SMALL)
    texts = tuple(f"code {i}" if i else "" for i in range(examples.vocabulary.size))
    return ForecastTrainer(
        examples, config, recipe or EncoderRecipe(epochs=3, seed=5), "anemia?", texts, "cpu"
    )


def test_a_task_is_learned_and_the_best_tuning_epoch_selected() -> None:
    examples = make_examples(512, 256)
    one = trainer(examples, recipe=EncoderRecipe(epochs=12, rate=3e-3, seed=1))
    one.run()
    area = ranking_areas(one.logits(examples.held_out), examples.held_out.label)[0]
    assert area > 0.75
    best = max(epoch.tuning_auroc for epoch in one.history)
    assert one.best_epoch.tuning_auroc == best
    # The weights are those of the best epoch, not of the last.
    again = ranking_areas(one.logits(examples.tuning), examples.tuning.label)[0]
    assert again == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("attention", ATTENTIONS.names())
def test_a_seed_determines_the_weights_also_after_an_interruption(
    attention: str, tmp_path: Path
) -> None:
    examples = make_examples(96, 48)
    uninterrupted = trainer(examples, attention)
    uninterrupted.run()
    cut = trainer(examples, attention)
    with pytest.raises(Aborted):
        cut.run(lambda epoch, _: epoch.epoch < 2, tmp_path / "c.safetensors")
    rest = trainer(examples, attention)
    torch.rand(3)  # what others draw meanwhile must not matter
    rest.run(checkpoint=tmp_path / "c.safetensors")
    for name, tensor in uninterrupted.network.state_dict().items():
        other = rest.network.state_dict()[name]
        assert np.array_equal(tensor, other, equal_nan=True), name  # a joint gate has no table
    assert [dataclasses.replace(e, seconds=0, **_known(e)) for e in uninterrupted.history] == [
        dataclasses.replace(e, seconds=0, **_known(e)) for e in rest.history
    ]
    other = trainer(examples, attention, EncoderRecipe(epochs=3, seed=6))
    other.run()
    assert not np.array_equal(other.logits(examples.tuning), uninterrupted.logits(examples.tuning))


def _known(epoch: object) -> dict[str, float]:
    """nan is unequal to itself; -1 stands for it."""
    fields = dataclasses.asdict(epoch)  # type: ignore[call-overload]
    return {k: -1.0 for k, v in fields.items() if v != v}


@pytest.mark.parametrize(("training", "loss"), [("joint", "focal"), ("frozen", "bce")])
def test_a_gate_is_trained_reported_and_resumed(training: str, loss: str, tmp_path: Path) -> None:
    examples = make_examples(128, 64)
    recipe = EncoderRecipe(epochs=2, seed=2, gate_training=training, gate_loss=loss, gate_epochs=2)  # type: ignore[arg-type]
    one = trainer(examples, "gated_differential", recipe, sign="1-g")
    before = one.gate_spread(examples.tuning) if training == "joint" else None
    one.run(checkpoint=tmp_path / "c.safetensors")
    last = one.history[-1]
    assert 0 < last.gate_mean < 1 and last.gate_sd >= 0 and last.head_gradient > 0
    if training == "joint":
        assert last.gate_gradient > 0 and one.gate_spread(examples.tuning) != before
    else:
        assert last.gate_gradient == 0.0
        assert len({(e.gate_mean, e.gate_sd) for e in one.history}) == 1
    again = trainer(examples, "gated_differential", recipe, sign="1-g")
    again.run(checkpoint=tmp_path / "c.safetensors")
    assert np.array_equal(again.logits(examples.held_out), one.logits(examples.held_out))
    save_model(tmp_path, "m", one, examples.vocabulary)
    network, vocabulary = load_model(tmp_path, "m")
    with torch.no_grad():
        logits, _ = network(torch.from_numpy(examples.held_out.tokens))
    assert np.allclose(logits.numpy(), one.logits(examples.held_out), atol=1e-5)
    assert vocabulary.size == examples.vocabulary.size and vocabulary.edges.keys()
    (tmp_path / "m.json").write_text("{}")
    with pytest.raises(DataError, match="no forecast model"):
        load_model(tmp_path, "m")


def test_tokens_tell_ranges_apart_and_know_only_the_training_part() -> None:
    codes = np.array([[1] * 40 + [2] * 40 + [3] * 2], np.int32)
    values = np.array([[*range(40), *[np.nan] * 42]], np.float32)
    plain = learn_vocabulary(codes, values, with_values=False)
    assert plain.size == 4 and not plain.edges  # padding, unknown, codes 1 and 2
    examples = learn_vocabulary(codes, values, with_values=True)
    # 40 values make two ranges, split at the median 19.5; code 3 is too rare.
    assert examples.edges[1].tolist() == [19.5] and set(examples.edges) == {1}
    asked = np.array([[0, 1, 1, 1, 2, 3, 9]], np.int32)
    readings = np.array([[np.nan, np.nan, -5, 19.5, 7, np.nan, np.nan]], np.float32)
    first = examples.first[1]
    assert examples.tokens(asked, readings).tolist() == [
        [0, first, first + 1, first + 2, examples.first[2], UNKNOWN, UNKNOWN]
    ]
    assert examples.code_of()[[first, first + 1, first + 2, examples.first[2]]].tolist() == [
        1,
        1,
        1,
        2,
    ]


def test_baselines_rank_well_and_repeat() -> None:
    examples = make_examples(400, 200)
    areas = {}
    for name in BASELINES:
        one, two = fit(name, examples, 1), fit(name, examples, 1)
        assert np.array_equal(one.held_out, two.held_out)
        areas[name] = ranking_areas(one.held_out, examples.held_out.label)[0]
    assert areas["constant"] == 0.5
    assert areas["logistic_counts"] > 0.75 and areas["boosting_counts"] > 0.7
    table = counts(examples.train, examples.vocabulary.size)
    assert table.sum() == (examples.train.tokens != 0).sum() and table[:, 0].sum() == 0


def test_sparsity_counts_real_pairs_alone() -> None:
    """Two sequences of 3 places, one with an event: pairs 4·4 + 2·2 = 20 of one head. The map is
    0 at keys that are even places and −1 at place 1 else 1."""
    tokens = np.array([[5, 6, 7], [0, 0, 8]], np.int32)

    def maps(some: np.ndarray) -> np.ndarray:
        row = np.array([0, -1, 0, 1], np.float32)
        return np.tile(row, (len(some), 1, 4, 1))

    # Sequence 1: each of 4 rows has 2 zeros, 1 negative. Sequence 2 (CLS and position 3): 1 zero.
    assert sparsity(tokens, maps) == {
        "zeros": 10 / 20, "negatives": 4 / 20, "cls_zeros": 3 / 6, "cls_negatives": 1 / 6,
        "sequences": 2, "entries": 20,
    }  # fmt: skip


def test_curves_and_calibration_computed_by_hand() -> None:
    labels = [1, 0, 1, 0]
    scores = [0.9, 0.8, 0.7, 0.1]
    assert [(p["x"], p["y"]) for p in roc_points(scores, labels)] == [
        (0, 0), (0, 0.5), (0.5, 0.5), (0.5, 1), (1, 1)
    ]  # fmt: skip
    assert [(p["x"], round(p["y"], 3)) for p in pr_points(scores, labels)] == [
        (0.5, 1), (0.5, 0.5), (1, 0.667), (1, 0.5)
    ]  # fmt: skip
    bins = calibration(np.repeat([0, 1], 10), np.arange(20))
    assert [b["n"] for b in bins] == [2] * 10
    assert [b["positive_rate"] for b in bins] == [0.0] * 5 + [1.0] * 5
    assert {(b["low"], b["high"]) for b in bins} == {(None, None)}, "two patients a bin"
    many = calibration(np.tile([0, 1], 100), np.arange(200))[0]
    assert many["low"] < many["positive_rate"] == 0.5 < many["high"]
    few = calibration(np.tile([0, 1], 100), np.repeat(np.arange(40), 5))[0]
    assert (few["low"], few["high"]) == (None, None), "four patients"


def calibration(label: np.ndarray, patient: np.ndarray) -> list[dict[str, object]]:
    """Calibration of evenly spaced probabilities."""
    n = len(label)
    return calibration_rows({"raw": np.linspace(0, 1, n)}, label, patient)


@pytest.mark.parametrize(
    ("mean", "sd", "expected"),
    [
        (0.5, 0.02, True),
        (0.45, 0.05, True),
        (0.55, 0.05, True),
        (0.5, 0.051, False),
        (0.5, 0.2, False),
        (0.2, 0.05, False),
        (0.716, 0.022, False),
        (0.449, 0.02, False),
        (0.56, 0.2, False),
        # The four focal gates of the paper's table, none of which it calls collapsed.
        (0.210, 0.053, False),
        (0.163, 0.041, False),
        (0.180, 0.059, False),
        (0.147, 0.051, False),
    ],
)
def test_collapse_is_defined_as_in_the_paper(mean: float, sd: float, expected: bool) -> None:
    assert collapsed(mean, sd) is expected


@pytest.mark.parametrize("kind", ["bce", "focal"])
@pytest.mark.parametrize("attention", ATTENTIONS.names())
def test_a_step_of_fixed_sizes_is_the_step_of_the_batch_s_sizes(attention: str, kind: str) -> None:
    """What a GPU records: the complete window and every code, with the same gradients."""
    examples = make_examples(64, 32)
    one = trainer(examples, attention, EncoderRecipe(seed=3, clip=0, gate_loss=kind))
    one.network.eval()  # without dropout, which is drawn for other sizes
    rows = np.flatnonzero(one.train.counts < LENGTH)[:8]
    index = torch.from_numpy(rows)
    computed = []
    for every in (False, True):
        tokens = one.train.tokens[index] if every else one.train.tokens_of(rows, index)
        if one.network.gate is not None:
            one.network.gate.every = every
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            before = {k: v.clone() for k, v in one.network.state_dict().items()}
            values = one._step(index, tokens)
            grads = [None if p.grad is None else p.grad.clone() for p in one.network.parameters()]
            one.network.load_state_dict(before)
        computed.append((values, grads))
    (values, grads), (again, those) = computed
    assert one.train.tokens_of(rows, index).shape[1] < LENGTH
    torch.testing.assert_close(values, again, rtol=1e-4, atol=1e-6)
    for a, b in zip(grads, those, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)
