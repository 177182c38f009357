"""Training a gate: the paper's recipe at many times the speed of a DataLoader loop.

Every epoch draws its order and its dropout from a seed of its own, so a training that was cut off
goes on exactly. One thread does it all: the matrices are small, threads would wait for one
another, and sums do not hang on how many there are; on one machine a training repeats to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from core.errors import WorkFailed
from core.files import replacing
from core.gate.examples import Pairs
from core.gate.measures import auroc
from core.gate.model import GateModel
from core.gate.ngrams import bags
from core.gate.recipe import Aborted, Epoch, Progress, Recipe
from core.gate.shape import GateConfig
from core.gate.stepper import Stepper, loss_of


@contextmanager
def _one_thread() -> Generator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _seed(recipe: Recipe, epoch: int) -> int:
    return int(np.random.SeedSequence([recipe.seed, epoch]).generate_state(1, np.uint64)[0] >> 1)


def epoch_order(recipe: Recipe, epoch: int, rows: int) -> NDArray[np.int64]:
    """The order in which an epoch takes its rows."""
    return np.random.default_rng([recipe.seed, epoch]).permutation(rows)


class Trainer:
    """Trains a gate on ``pairs`` and watches it on ``validation``."""

    def __init__(self, config: GateConfig, pairs: Pairs, validation: Pairs, recipe: Recipe) -> None:
        self.config, self.recipe = config, recipe
        self.pairs, self.validation = pairs, validation
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_seed(recipe, 0))
            self.model = GateModel(config)
        self.stepper = Stepper(self.model, pairs, recipe)
        self.curve: list[Epoch] = []

    def run(self, progress: Progress | None = None, checkpoint: Path | None = None) -> None:
        """All epochs that are left. ``checkpoint``: a file to go on from and to keep up to date.

        Raises Aborted when told to stop, WorkFailed for a loss that is no number.
        """
        if checkpoint is not None and checkpoint.exists():
            self._load(checkpoint)
        with _one_thread():
            for epoch in range(len(self.curve) + 1, self.recipe.epochs + 1):
                loss = self.epoch(epoch)
                if not math.isfinite(loss):
                    raise WorkFailed(f"training came to a loss that is no number in epoch {epoch}")
                self.curve.append(Epoch(epoch, loss, *self._validate()))
                if checkpoint is not None:
                    self._save(checkpoint)
                if progress is not None and not progress(self.curve[-1], self.recipe.epochs):
                    raise Aborted

    def epoch(self, number: int) -> float:
        """Epoch ``number`` (from 1): one pass over all rows; the mean loss."""
        draws = torch.Generator().manual_seed(_seed(self.recipe, number))
        return self.stepper.epoch(epoch_order(self.recipe, number, len(self.pairs)), draws)

    def _validate(self) -> tuple[float, float]:
        if not len(self.validation):
            return math.nan, math.nan
        logits = self.logits(self.validation)
        labels = torch.from_numpy(self.validation.label)
        loss = float(loss_of(torch.from_numpy(logits), labels, self.recipe.loss))
        return loss, auroc(logits, self.validation.label)

    def logits(self, pairs: Pairs) -> NDArray[np.float32]:
        """Logits [n] of pairs, without dropout."""
        self.model.eval()
        with torch.no_grad():
            sides = [
                self.model.embedding(torch.from_numpy(b.ids), torch.from_numpy(b.offsets[:-1]))
                for b in (
                    bags(self.config.hashing, pairs.questions),
                    bags(self.config.hashing, pairs.sentences),
                )
            ]
            pooled = [sides[0][pairs.question], sides[1][pairs.sentence]]
            return self.model.head(torch.cat(pooled[0 if self.config.query else 1 :], 1)).numpy()

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """The model's weights by name."""
        return {k: v.detach().numpy().copy() for k, v in self.model.state_dict().items()}

    def _save(self, path: Path) -> None:
        from safetensors.torch import save_file

        model = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        curve = torch.tensor(
            [[e.loss, e.validation_loss, e.validation_auroc] for e in self.curve],
            dtype=torch.float64,
        )
        with replacing(path) as fresh:
            save_file({**model, **self.stepper.state(), "curve": curve}, fresh)

    def _load(self, path: Path) -> None:
        from safetensors.torch import load_file

        tensors = load_file(path)
        self.curve = [
            Epoch(i, *row) for i, row in enumerate(tensors.pop("curve").tolist(), start=1)
        ]
        own = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(own)
        self.stepper.restore(tensors)
