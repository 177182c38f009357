"""Training a gate: the paper's recipe at many times the speed of a DataLoader loop.

What a batch needs is laid out in one stretch of memory an epoch ahead, question and sentence
embeddings are pooled in one call, and the optimiser is fused; the arithmetic is that of the plain
loop (``tests/reference/gate.py``), which a test compares step by step. Every epoch draws its order
and its dropout from a seed of its own, so a training that was cut off goes on exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from core.errors import WorkFailed
from core.files import replacing
from core.gate.examples import Pairs
from core.gate.measures import auroc
from core.gate.model import GateModel
from core.gate.ngrams import bags
from core.gate.recipe import FOCAL_GAMMA, Aborted, Epoch, Progress, Recipe
from core.gate.shape import GateConfig


def _seed(recipe: Recipe, epoch: int) -> int:
    return int(np.random.SeedSequence([recipe.seed, epoch]).generate_state(1, np.uint64)[0] >> 1)


def epoch_order(recipe: Recipe, epoch: int, rows: int) -> NDArray[np.int64]:
    """The order in which an epoch takes its rows."""
    return np.random.default_rng([recipe.seed, epoch]).permutation(rows)


def loss_of(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Mean loss: binary cross-entropy, or focal with γ = 2 (Lin et al. 2017, equation 4)."""
    if kind == "bce":
        return F.binary_cross_entropy_with_logits(logits, labels)
    each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return ((1 - torch.exp(-each)) ** FOCAL_GAMMA * each).mean()


class Trainer:
    """Trains a gate on ``pairs`` and watches it on ``validation``."""

    def __init__(self, config: GateConfig, pairs: Pairs, validation: Pairs, recipe: Recipe) -> None:
        self.config, self.recipe = config, recipe
        self.pairs, self.validation = pairs, validation
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_seed(recipe, 0))
            self.model = GateModel(config)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=recipe.rate, fused=True)
        self.curve: list[Epoch] = []
        self._bags = bags(config.hashing, [*pairs.questions, *pairs.sentences])

    def run(self, progress: Progress | None = None, checkpoint: Path | None = None) -> None:
        """All epochs that are left. ``checkpoint``: a file to go on from and to keep up to date.

        Raises Aborted when told to stop, WorkFailed for a loss that is no number.
        """
        if checkpoint is not None and checkpoint.exists():
            self._load(checkpoint)
        for epoch in range(len(self.curve) + 1, self.recipe.epochs + 1):
            order = epoch_order(self.recipe, epoch, len(self.pairs))
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(_seed(self.recipe, epoch))
                loss = self.epoch(order)
            if not math.isfinite(loss):
                raise WorkFailed(f"training came to a loss that is no number in epoch {epoch}")
            self.curve.append(Epoch(epoch, loss, *self._validate()))
            if checkpoint is not None:
                self._save(checkpoint)
            if progress is not None and not progress(self.curve[-1], self.recipe.epochs):
                raise Aborted

    def epoch(self, order: NDArray[np.int64]) -> float:
        """One pass over the rows in ``order``; the mean loss."""
        recipe, pairs, sides = self.recipe, self.pairs, 2 if self.config.query else 1
        batches = [order[i : i + recipe.batch] for i in range(0, len(order), recipe.batch)]
        first = len(pairs.questions)
        rows = [
            np.concatenate([pairs.question[b], first + pairs.sentence[b]][2 - sides :])
            for b in batches
        ]
        laid = self._bags.take(np.concatenate(rows))
        ids, offsets = torch.from_numpy(laid.ids), torch.from_numpy(laid.offsets)
        labels = torch.from_numpy(pairs.label[order])
        weight = self.model.embedding.weight
        self.model.train()
        total = torch.zeros(())
        at = 0
        for batch in batches:
            n = len(batch)
            begin, end = sides * at, sides * (at + n)
            low, high = int(laid.offsets[begin]), int(laid.offsets[end])
            pooled = F.embedding_bag(
                ids[low:high], weight, offsets[begin:end] - low, mode="mean", padding_idx=0
            )
            logits = self.model.head(torch.cat(pooled.split(n), dim=1) if sides == 2 else pooled)
            loss = loss_of(logits, labels[at : at + n], recipe.loss)
            self.optimiser.zero_grad()
            loss.backward()  # pyright: ignore[reportUnknownMemberType]
            self.optimiser.step()
            total += loss.detach() * n
            at += n
        return float(total) / max(len(order), 1)

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

        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        state: Mapping[int, Mapping[str, Tensor]] = self.optimiser.state_dict()["state"]
        tensors |= {f"adamw.{i}.{k}": v for i, s in state.items() for k, v in s.items()}
        curve = torch.tensor(
            [[e.loss, e.validation_loss, e.validation_auroc] for e in self.curve],
            dtype=torch.float64,
        )
        with replacing(path) as fresh:
            save_file({**tensors, "curve": curve}, fresh)

    def _load(self, path: Path) -> None:
        from safetensors.torch import load_file

        tensors = load_file(path)
        self.curve = [
            Epoch(i, *row) for i, row in enumerate(tensors.pop("curve").tolist(), start=1)
        ]
        own = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(own)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("adamw."):
                _, index, key = name.split(".", 2)
                state.setdefault(int(index), {})[key] = tensor
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
