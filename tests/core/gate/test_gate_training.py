"""Gate training is reproducible from a seed and resumes exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit

from midchart.core.gate.checkpoint import GateConfig, GateRecipe
from midchart.core.gate.examples import Pairs
from midchart.core.gate.measures import (
    fit_temperature,
    score_gap,
)
from midchart.core.gate.training import GateTrainer
from midchart.core.training import Aborted
from midchart.core.training_experiments.measures import calibration_error, calibration_rows

WORDS = [
    "metformin",
    "warfarin",
    "sodium",
    "potassium",
    "chest",
    "pain",
    "clear",
    "daily",
    "started",
    "stopped",
    "normal",
]


def some_pairs(rows: int = 100, seed: int = 0) -> Pairs:
    """Pairs of made-up texts, one of them empty and one shorter than an n-gram."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(30)]
    texts = list(dict.fromkeys(["", "no", *texts]))
    return Pairs(
        ("Which dose of metformin?", "Was warfarin stopped?", "?"),
        tuple(texts),
        rng.integers(0, 3, rows),
        rng.integers(0, len(texts), rows),
        (rng.random(rows) < 0.3).astype(np.float32),
    )


PAIRS, HELD = some_pairs(), some_pairs(40, 1)


def focal(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Focal loss with γ = 2, as its paper writes it: −(1 − p_t)² log p_t."""
    right = torch.where(labels > 0.5, torch.sigmoid(logits), torch.sigmoid(-logits))
    return (-((1 - right) ** 2) * torch.log(right)).mean()


@pytest.mark.parametrize("loss", ["bce", "focal"])
@pytest.mark.parametrize(("head", "query"), [("standard", True), ("linear", False), ("deep", True)])
def test_the_loss_before_training_is_that_of_the_logits_and_falls(head, query, loss):
    config, recipe = GateConfig(head=head, query=query, dropout=0.0), GateRecipe(3, 1000, loss=loss)
    trainer = GateTrainer(config, PAIRS, HELD, recipe)
    labels, logits = torch.from_numpy(PAIRS.label), torch.from_numpy(trainer.logits(PAIRS))
    trainer.run()
    expected = focal if loss == "focal" else torch.nn.BCEWithLogitsLoss()
    losses = [epoch.loss for epoch in trainer.history]
    assert losses[0] == pytest.approx(float(expected(logits, labels)), abs=1e-6)
    assert losses == sorted(losses, reverse=True)


def test_logits_do_not_depend_on_the_number_of_threads():
    # MKL divides the last layer's matrix-vector product among threads; at these sizes the last bits
    # then differ, and with them the temperature and the hash of the checkpoint's card.
    before, logits = torch.get_num_threads(), set[bytes]()
    many = [some_pairs(rows) for rows in (300, 500, 700)]
    trainer = GateTrainer(GateConfig(), PAIRS, HELD, GateRecipe())
    try:
        for threads in (1, 2, 3, 4):
            torch.set_num_threads(threads)
            logits.add(b"".join(trainer.logits(pairs).tobytes() for pairs in many))
    finally:
        torch.set_num_threads(before)
    assert len(logits) == 1


def test_an_interrupted_training_resumes_to_identical_bits(tmp_path):
    config, recipe = GateConfig(dim=8), GateRecipe(epochs=5)
    uninterrupted = GateTrainer(config, PAIRS, HELD, recipe)
    uninterrupted.run()
    file = tmp_path / "training.safetensors"
    epochs_run: list[int] = []

    def stop_at(last: int):
        def progress(epoch, epochs):
            epochs_run.append(epoch.epoch)
            assert epochs == 5
            return epoch.epoch < last

        return progress

    for last in (2, 3):
        with pytest.raises(Aborted):
            GateTrainer(config, PAIRS, HELD, recipe).run(stop_at(last), file)
    ended = GateTrainer(config, PAIRS, HELD, recipe)
    ended.run(stop_at(9), file)
    assert epochs_run == [1, 2, 3, 4, 5]
    assert ended.history == uninterrupted.history
    for name, array in uninterrupted.weights().items():
        assert array.tobytes() == ended.weights()[name].tobytes()


def test_the_score_gap_is_of_mean_probabilities():
    # Positives .5 and .8 (logit ln 4), negatives .2 and .5: .65 − .35.
    logits = np.log([1.0, 4.0, 0.25, 1.0])
    assert score_gap(logits, np.array([1.0, 1, 0, 0])) == pytest.approx(0.3)
    assert np.isnan(score_gap(logits, np.ones(4)))


@pytest.mark.parametrize("truth", [0.5, 1.0, 4.0])
def test_the_fitted_temperature_is_the_true_one(truth: float):
    rng = np.random.default_rng(6)
    logits = rng.normal(0, 3, 40_000)
    labels = (rng.random(40_000) < expit(logits / truth)).astype(float)
    # The log of the temperature has a standard error below .02 at this n.
    assert fit_temperature(logits, labels) == pytest.approx(truth, rel=0.06)
    assert fit_temperature(logits, np.ones(40_000)) == 1.0


def test_calibration_computed_by_hand():
    # Probabilities .05 (twice), .95 and 1: bins 0 and 9; observed 1/2 and 1/2.
    probability = {"raw": np.array([0.05, 0.05, 0.95, 1 - 1e-12])}
    labels, patients = np.array([0.0, 1, 1, 0]), np.arange(4)
    rows = calibration_rows(probability, labels, patients, equal_width=True)
    assert [(row["bin"], row["n"], row["positive_rate"]) for row in rows] == [
        (0, 2, 0.5), (9, 2, 0.5)
    ]  # fmt: skip
    assert [row["mean_score"] for row in rows] == pytest.approx([0.05, 0.975])
    # (2 · |.05 − .5| + 2 · |.975 − .5|) / 4
    assert calibration_error(rows) == pytest.approx(0.4625)
