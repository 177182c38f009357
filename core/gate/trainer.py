"""Training a gate: the paper's recipe at many times the speed of a DataLoader loop.

Question and sentence n-grams of a batch are one sparse matrix M: pooling is M·E, its gradient
Mᵀ·d. Gradients are worked out layer by layer without PyTorch's bookkeeping, the optimiser is fused
and sees only the rows of the table that the training texts use; the others merely decay. The
arithmetic is that of the plain loop (``tests/reference/gate.py``), which a test compares step by
step. Every epoch draws its order and its dropout from a seed of its own, so a training that was
cut off goes on exactly. One thread does it all: the matrices are small, threads would wait for one
another, and sums do not hang on how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix
from torch import Tensor, nn

from core.errors import WorkFailed
from core.files import replacing
from core.gate.examples import Pairs
from core.gate.measures import auroc
from core.gate.model import GateModel, linear_layers
from core.gate.ngrams import bags
from core.gate.recipe import FOCAL_GAMMA, Aborted, Epoch, Progress, Recipe
from core.gate.shape import GateConfig

AHEAD = 64
"""Batches whose n-grams are laid out at once: bounds memory, changes no result."""


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


def loss_of(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Mean loss: binary cross-entropy, or focal with γ = 2 (Lin et al. 2017, equation 4)."""
    if kind == "bce":
        return F.binary_cross_entropy_with_logits(logits, labels)
    each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return ((1 - torch.exp(-each)) ** FOCAL_GAMMA * each).mean()


def loss_and_slope(logits: Tensor, labels: Tensor, kind: str) -> tuple[float, Tensor]:
    """:func:`loss_of` and its gradient with respect to ``logits`` [n]."""
    if kind == "bce":
        slope = torch.sigmoid(logits).sub_(labels).div_(len(labels))
        return float(loss_of(logits, labels, kind)), slope
    logits = logits.detach().requires_grad_()
    with torch.enable_grad():
        loss = loss_of(logits, labels, kind)
    return float(loss.detach()), torch.autograd.grad(loss, logits)[0]


class Trainer:
    """Trains a gate on ``pairs`` and watches it on ``validation``."""

    def __init__(self, config: GateConfig, pairs: Pairs, validation: Pairs, recipe: Recipe) -> None:
        self.config, self.recipe = config, recipe
        self.pairs, self.validation = pairs, validation
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_seed(recipe, 0))
            self.model = GateModel(config)
        self.curve: list[Epoch] = []
        # The rows of the table that the texts use, and each text's shares of them.
        found = bags(config.hashing, [*pairs.questions, *pairs.sentences])
        self._used, places = np.unique(found.ids, return_inverse=True)
        self._texts = csr_matrix(
            (found.shares(), places.astype(np.int32), found.offsets.astype(np.int32)),
            shape=(len(found), len(self._used)),
        )
        self._table = nn.Parameter(self.model.embedding.weight.detach()[self._used])
        self._layers = [(each.weight, each.bias) for each in linear_layers(self.model)]
        tensors = [self._table, *(tensor for layer in self._layers for tensor in layer)]
        self.optimiser = torch.optim.AdamW(tensors, lr=recipe.rate, fused=True)

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
        order = epoch_order(self.recipe, number, len(self.pairs))
        labels = torch.from_numpy(self.pairs.label[order])
        draws = torch.Generator().manual_seed(_seed(self.recipe, number))
        batch = self.recipe.batch
        total, steps = 0.0, 0
        with torch.no_grad():
            for begin in range(0, len(order), AHEAD * batch):
                rows = order[begin : begin + AHEAD * batch]
                kept = self._kept(len(rows), draws)
                for i, grams in enumerate(self._grams(rows)):
                    of_batch = slice(i * batch, (i + 1) * batch)
                    asked = labels[begin:][of_batch]
                    total += len(asked) * self._step(grams, asked, [k[of_batch] for k in kept])
                    steps += 1
            usual = self.optimiser.param_groups[0]
            weight = self.model.embedding.weight
            decay = np.float32(1 - usual["lr"] * usual["weight_decay"])  # as a step rounds it
            weight *= float(decay) ** steps
            weight[self._used] = self._table
        return total / max(len(order), 1)

    def _step(self, grams: Any, labels: Tensor, kept: list[Tensor]) -> float:
        """One step on a batch; its loss.

        ``grams`` [n-grams, texts] are the shares, ``kept`` what each layer's dropout multiplies
        by. Backwards through a layer: its weights' gradient is slopeᵀ·input, its input's slope·W;
        a ReLU lets a slope through where it let the value through.
        """
        query = self.config.query
        pooled = F.embedding_bag(
            torch.from_numpy(grams.indices),
            self._table,
            torch.from_numpy(grams.indptr[:-1]),
            mode="mean",
        )
        inputs = [torch.cat(pooled.chunk(2), dim=1) if query else pooled]
        for (weight, bias), times in zip(self._layers, kept, strict=False):
            hidden = torch.addmm(bias, inputs[-1], weight.T).relu_()
            inputs.append(hidden.mul_(times) if self.config.dropout else hidden)
        weight, bias = self._layers[-1]
        logits = torch.addmm(bias, inputs[-1], weight.T).squeeze(-1)
        loss, slope = loss_and_slope(logits, labels, self.recipe.loss)
        slope = slope[:, None]
        for i in reversed(range(len(self._layers))):
            weight, bias = self._layers[i]
            weight.grad, bias.grad = slope.T @ inputs[i], slope.sum(0)
            slope = slope @ weight
            if i:
                slope.mul_(inputs[i] > 0)
                if self.config.dropout:
                    slope.mul_(kept[i - 1])
        both = torch.cat(slope.chunk(2, dim=1)) if query else slope
        self._table.grad = torch.from_numpy(np.asarray(grams @ both.numpy()))
        self.optimiser.step()
        return loss

    def _kept(self, rows: int, draws: torch.Generator) -> list[Tensor]:
        """What dropout multiplies each hidden layer of some rows by: 0, or what makes up for it."""
        dropout = self.config.dropout
        return [
            (torch.rand(rows, len(bias), generator=draws) >= dropout).float().div_(1 - dropout)
            for _, bias in self._layers[:-1]
        ]

    def _grams(self, rows: NDArray[np.int64]) -> Iterator[Any]:
        """For each batch of ``rows`` the sparse matrix [used n-grams, texts] of shares: first its
        questions, if the gate sees any, and then its sentences."""
        batch, first = self.recipe.batch, len(self.pairs.questions)
        batches = [rows[i : i + batch] for i in range(0, len(rows), batch)]
        texts = [first + self.pairs.sentence[b] for b in batches]
        if self.config.query:
            asked = [self.pairs.question[b] for b in batches]
            texts = [np.concatenate(pair) for pair in zip(asked, texts, strict=True)]
        laid, at = self._texts[np.concatenate(texts)], 0
        for some in texts:
            inside = laid.indptr[at : at + len(some) + 1]
            here = slice(int(inside[0]), int(inside[-1]))
            at += len(some)
            yield csc_matrix(
                (laid.data[here], laid.indices[here], inside - inside[0]),
                shape=(len(self._used), len(some)),
            )

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
        with torch.no_grad():
            self._table.copy_(self.model.embedding.weight[self._used])
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
