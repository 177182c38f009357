"""On a GPU a training's step is recorded once and replayed: it is the step of single calls."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from midchart.core.attention import ATTENTIONS
from midchart.core.stats.auroc import ranking_areas
from midchart.core.training import Aborted
from midchart.core.training.recorded import RecordedStep
from midchart.core.training_experiments.forecast.spec import EncoderRecipe
from midchart.core.training_experiments.forecast.training import EncoderConfig, ForecastTrainer
from tests.support.forecasts import LENGTH, make_examples

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def trainer(attention: str, dropout: float, **recipe: object) -> ForecastTrainer:
    examples = make_examples(512, 256)
    size = examples.vocabulary.size
    config = EncoderConfig(size, attention, {}, LENGTH, 16, 2, 2, 32, 8, dropout)
    texts = tuple(f"code {i}" if i else "" for i in range(size))
    return ForecastTrainer(
        examples, config, EncoderRecipe(**{"seed": 1, **recipe}), "anemia?", texts, "cuda"
    )


@pytest.mark.parametrize("attention", ATTENTIONS.names())
def test_it_is_recorded_and_trains_as_call_by_call(
    attention: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[ForecastTrainer] = []
    for recorded in (True, False):
        one = trainer(attention, 0.0, epochs=3, gate_loss="focal")
        if one.network.gate is not None:
            one.network.gate.model.dropout.p = 0.0
        if not recorded:
            one.__dict__["_recorded"] = None
        with caplog.at_level(logging.WARNING):
            one.run()
        runs.append(one)
    fast, slow = runs
    assert not caplog.records, caplog.text
    assert isinstance(fast._recorded, RecordedStep) and slow._recorded is None
    for a, b in zip(fast.history, slow.history, strict=True):
        assert a.loss == pytest.approx(b.loss, rel=0.02)
        assert a.tuning_auroc == pytest.approx(b.tuning_auroc, abs=0.02)
        assert a.head_gradient == pytest.approx(b.head_gradient, rel=0.1)


@pytest.mark.parametrize("attention", ["softmax", "gated_differential"])
def test_it_learns_and_draws_new_dropout_at_each_step(attention: str) -> None:
    one = trainer(attention, 0.1, epochs=12, rate=3e-3)
    one.run()
    area = ranking_areas(one.logits(one.examples.held_out), one.examples.held_out.label)[0]
    assert area > 0.7
    step = one._recorded
    assert step is not None
    one.network.train()
    rows = torch.arange(64, device="cuda")
    for group in one.optimizer.param_groups:
        assert group["capturable"]
    losses = {float(step(rows)[0]) for _ in range(8)}
    assert len(losses) == 8


def test_a_resumed_training_is_the_uninterrupted_one(tmp_path: Path) -> None:
    complete = trainer("softmax", 0.1, epochs=4)
    complete.run()
    first = trainer("softmax", 0.1, epochs=4)
    with pytest.raises(Aborted):
        first.run(lambda entry, total: entry.epoch < 2, tmp_path / "it.checkpoint")
    second = trainer("softmax", 0.1, epochs=4)
    second.run(checkpoint=tmp_path / "it.checkpoint")
    assert [e.epoch for e in second.history] == [1, 2, 3, 4]
    losses = [[e.loss for e in t.history] for t in (complete, second)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.01)
