"""The training loop resumes exactly, stops on request and refuses non-finite losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from midchart.core.errors import DataError, WorkFailed
from midchart.core.training import Aborted, require_finite
from midchart.core.training.trainer import Trainer, forked_rng, seed_of


@dataclass(frozen=True, slots=True)
class Epoch:
    epoch: int
    loss: float
    rows: int


class LineTrainer(Trainer[nn.Linear, Epoch]):
    """Fits y = 2x with noise drawn by epoch; ``drawn`` is a state of its own."""

    entry = Epoch

    def __init__(self, total: int = 4, slope: float = 2.0) -> None:
        with forked_rng(seed=seed_of(1, 0)):
            network = nn.Linear(1, 1)
        super().__init__(network, total, torch.optim.AdamW(network.parameters(), lr=0.1))
        self.slope, self.drawn = slope, torch.zeros(())

    def advance(self) -> Epoch:
        epoch = self.done + 1
        torch.manual_seed(seed_of(1, epoch))
        x = torch.randn(8, 1)
        self.drawn += x.sum()
        loss = (self.network(x) - self.slope * x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return Epoch(epoch, require_finite(float(loss.detach()), f"epoch {epoch}"), len(x))

    def identity(self) -> Any:
        return [self.slope]

    def state(self) -> dict[str, Tensor]:
        return {"drawn": self.drawn}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.drawn = state["drawn"]


def test_a_training_stopped_after_any_part_resumes_to_identical_bits(tmp_path: Path) -> None:
    uninterrupted, file = LineTrainer(), tmp_path / "line.safetensors"
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    uninterrupted.run()
    assert torch.equal(torch.rand(2), expected)  # the caller's random state is untouched
    for last in (1, 2, 3):
        with pytest.raises(Aborted):
            LineTrainer().run(lambda epoch, of, last=last: epoch.epoch < last and of == 4, file)
    resumed, seen = LineTrainer(), list[Epoch]()
    resumed.run(lambda epoch, _: seen.append(epoch) is None, file)
    assert seen == resumed.history[3:]
    assert resumed.history == uninterrupted.history and type(resumed.history[0].rows) is int
    assert torch.equal(resumed.network.weight, uninterrupted.network.weight)
    assert torch.equal(resumed.drawn, uninterrupted.drawn)
    longer = LineTrainer(total=5)
    longer.run(checkpoint=file)
    assert longer.done == 5 and longer.history[:4] == uninterrupted.history


def test_checkpoints_of_other_trainings_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "line.safetensors"
    LineTrainer(total=1).run(checkpoint=file)
    with pytest.raises(DataError, match="other data or another recipe"):
        LineTrainer(slope=3.0).run(checkpoint=file)
    file.write_bytes(b"?" * 40)
    with pytest.raises(DataError, match="not a checkpoint"):
        LineTrainer().run(checkpoint=file)


def test_a_non_finite_loss_stops_before_saving(tmp_path: Path) -> None:
    trainer = LineTrainer(slope=float("nan"))
    with pytest.raises(WorkFailed, match="NaN or infinite in epoch 1"):
        trainer.run(checkpoint=tmp_path / "line.safetensors")
    assert not list(tmp_path.iterdir()) and not trainer.history
