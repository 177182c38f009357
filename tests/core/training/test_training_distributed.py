"""Training by two processes equals one process up to rounding, and ends early on request."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from midchart.core.training.trainer import train_distributed
from midchart.core.training_experiments.forecast.spec import EncoderRecipe, Epoch
from midchart.core.training_experiments.forecast.training import EncoderConfig, ForecastTrainer
from tests.support.forecasts import LENGTH, make_examples

# 101 labels leave a last batch of one, of which one of two processes has none.
FOUND = make_examples(101, 48)
# Without dropout nothing is drawn that a process draws for itself.
CONFIG = EncoderConfig(
    FOUND.vocabulary.size, "softmax", {}, LENGTH, dim=16, heads=2, feedforward=32, head=8,
    dropout=0.0,
)  # fmt: skip


def training(epochs: int) -> partial[ForecastTrainer]:
    return partial(
        ForecastTrainer, FOUND, CONFIG, EncoderRecipe(epochs=epochs, batch=20, seed=5), "", ()
    )


def by_one(epochs: int) -> ForecastTrainer:
    return training(epochs)("cpu")


@pytest.mark.slow
def test_two_processes_train_the_weights_of_one_and_are_reported(tmp_path: Path) -> None:
    epochs: list[Epoch] = []
    path = tmp_path / "training" / "c.safetensors"
    train_distributed(
        training(2), 2, path, lambda epoch, of: epochs.append(epoch) is None and of == 2, cpu=True
    )
    two_processes = by_one(2)
    two_processes.run(checkpoint=path)
    single = by_one(2)
    single.run()
    assert [one.epoch for one in epochs] == [1, 2]
    for epoch, other in zip(two_processes.history, single.history, strict=True):
        assert epoch.loss == pytest.approx(other.loss, rel=1e-4)
        assert epoch.head_gradient == pytest.approx(other.head_gradient, rel=1e-3)
        assert epoch.tuning_loss == pytest.approx(other.tuning_loss, rel=1e-4)
    logits = two_processes.logits(FOUND.held_out)
    assert np.allclose(logits, single.logits(FOUND.held_out), atol=1e-3)
    assert np.abs(logits - by_one(2).logits(FOUND.held_out)).max() > 0.01  # they did learn
