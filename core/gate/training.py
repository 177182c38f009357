"""Networks of the gate and of QCCS plus, and their training (loads torch).

The gate (paper, QCCS; docs/methods.md, The QCCS gate): one ``EmbeddingBag(5000, 64, mean)`` for
question and sentence, concatenated (128), then 128 → 32 → 1 with ReLU and dropout.

Question and sentence n-grams of a batch are one sparse matrix M: pooling is M·E, its gradient Mᵀ·d.
Gradients are worked out layer by layer without PyTorch's bookkeeping; AdamW is PyTorch's own fused
kernel, which sees only the rows of the table that the training texts use, while the others merely
decay. The arithmetic is that of the plain loop (``tests/reference/gate.py``), which a test compares
step by step.

QCCS plus is trained to rank a question's evidence above all other sentences of its record. A
question with its record is one example, every other sentence a negative. The loss is that of a
softmax over the record, half for any evidence sentence, half for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix
from torch import Tensor, nn

from midchart.core.gate.checkpoint import (
    FOCAL_GAMMA,
    GateConfig,
    GateEpoch,
    GateRecipe,
    PlusRecipe,
    PlusStep,
    widths,
)
from midchart.core.gate.examples import Pairs
from midchart.core.gate.measures import auroc
from midchart.core.gate.ngrams import Bags, bags
from midchart.core.gate.plus import (
    GATE_SCALE,
    HASHING,
    POWER,
    START,
    PlusWeights,
    QuestionWords,
    RecordWords,
)
from midchart.core.training import require_finite
from midchart.core.training.trainer import Trainer, epoch_order, forked_rng, one_thread, seed_of


class GateModel(nn.Module):
    """Scores (question, sentence) pairs.

    ``embedding``: EmbeddingBag [buckets, dim] without gradient on row 0. ``layers``: Linear
    layers, ReLU and dropout between them.
    """

    def __init__(self, config: GateConfig) -> None:
        super().__init__()
        self.config = config
        buckets, steps = config.hashing.buckets, widths(config)
        self.embedding = nn.EmbeddingBag(buckets, config.dim, mode="mean", padding_idx=0)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(steps))
        self.dropout = nn.Dropout(config.dropout)

    def head(self, pooled: Tensor) -> Tensor:
        """Logits [batch] of pooled pairs [batch, width]."""
        *hidden, last = linear_layers(self)
        for layer in hidden:
            pooled = self.dropout(torch.relu(layer(pooled)))
        return last(pooled).squeeze(-1)

    def forward(self, questions: tuple[Tensor, Tensor], sentences: tuple[Tensor, Tensor]) -> Tensor:
        """Logits [batch] of pairs; each side is (ids, offsets) as EmbeddingBag takes them."""
        sides = [self.embedding(*sentences)]
        if self.config.query:
            sides.insert(0, self.embedding(*questions))
        return self.head(torch.cat(sides, dim=1))


def linear_layers(model: GateModel) -> list[nn.Linear]:
    """The head's layers, first to last."""
    return [layer for layer in model.layers if isinstance(layer, nn.Linear)]


_AHEAD = 64
"""Batches whose n-grams are laid out at once: bounds memory, changes no result."""
_BETA1, _BETA2, EPSILON, _DECAY = 0.9, 0.999, 1e-8, 0.01
"""AdamW as PyTorch sets it by default (Loshchilov and Hutter 2019)."""
_adamw: Any = torch._fused_adamw_  # pyright: ignore[reportPrivateImportUsage, reportPrivateUsage]
"""What torch.optim.AdamW(fused=True) calls, whose own preparations would cost as much again."""


def loss_of(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Mean loss: binary cross-entropy, or focal with γ = 2 (Lin et al. 2017, equation 4)."""
    if kind == "bce":
        return F.binary_cross_entropy_with_logits(logits, labels)
    each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return ((1 - torch.exp(-each)) ** FOCAL_GAMMA * each).mean()


def _slope_of(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Gradient of :func:`loss_of` with respect to ``logits`` [n]."""
    if kind == "bce":
        return torch.sigmoid(logits).sub_(labels).div_(len(labels))
    logits = logits.detach().requires_grad_()
    with torch.enable_grad():
        loss = loss_of(logits, labels, kind)
    return torch.autograd.grad(loss, logits)[0]


class _Stepper:
    """Trains ``model`` in place on ``pairs``, an epoch at a time."""

    def __init__(self, model: GateModel, pairs: Pairs, recipe: GateRecipe) -> None:
        self.model, self.pairs, self.recipe = model, pairs, recipe
        self._query, self._dropout = model.config.query, model.config.dropout
        ngrams = bags(model.config.hashing, [*pairs.questions, *pairs.sentences])
        # The rows of the table that the texts use, how often each text does, and one over how many
        # n-grams a text has.
        self._used, places = np.unique(ngrams.ids, return_inverse=True)
        self._texts = csr_matrix(
            (np.ones(len(places)), places.astype(np.int32), ngrams.offsets.astype(np.int32)),
            shape=(len(ngrams), len(self._used)),
            dtype=np.float32,
        )
        self._share = torch.from_numpy(1 / np.maximum(np.diff(ngrams.offsets), 1)).float()[:, None]
        self._table = model.embedding.weight.detach()[self._used]
        self._layers = [(w.weight.detach(), w.bias.detach()) for w in linear_layers(model)]
        self._tensors = [self._table, *(tensor for layer in self._layers for tensor in layer)]
        self._moments = [[torch.zeros_like(t) for t in self._tensors] for _ in range(2)]
        self._steps = torch.zeros(())

    @torch.no_grad()
    def epoch(self, order: NDArray[np.int64], draws: torch.Generator) -> float:
        """One pass over the pairs in ``order``, dropout from ``draws``; the mean loss."""
        batch, before = self.recipe.batch, float(self._steps)
        labels = torch.from_numpy(self.pairs.label[order])
        logits = torch.zeros(len(order))
        for begin in range(0, len(order), _AHEAD * batch):
            rows = order[begin : begin + _AHEAD * batch]
            masks = self._dropout_masks(len(rows), draws)
            for i, (grams, share) in enumerate(self._grams(rows)):
                batch_rows = slice(i * batch, (i + 1) * batch)
                there = slice(begin + i * batch, begin + (i + 1) * batch)
                logits[there] = self._step(
                    grams, share, labels[there], [k[batch_rows] for k in masks]
                )
        decay = np.float32(1 - self.recipe.rate * _DECAY)  # as the kernel rounds it
        weight = self.model.embedding.weight
        weight *= float(decay) ** (float(self._steps) - before)
        weight[self._used] = self._table
        return float(loss_of(logits, labels, self.recipe.loss)) if len(order) else 0.0

    def _step(self, grams: Any, share: Tensor, labels: Tensor, masks: list[Tensor]) -> Tensor:
        """One step on a batch; its logits before the step.

        ``grams`` [n-grams, texts] says how often, ``share`` [texts, 1] is one over all of a text;
        ``masks`` is what each layer's dropout multiplies by. Backwards through a layer: its
        weights' gradient is slopeᵀ·input, its input's slope·W; a ReLU lets a slope through where
        it let the value through.
        """
        pooled = F.embedding_bag(
            torch.from_numpy(grams.indices),
            self._table,
            torch.from_numpy(grams.indptr[:-1]),
            mode="sum",
        ).mul_(share)
        inputs = [torch.cat(pooled.chunk(2), dim=1) if self._query else pooled]
        for (weight, bias), times in zip(self._layers, masks, strict=False):
            hidden = torch.addmm(bias, inputs[-1], weight.T).relu_()
            inputs.append(hidden.mul_(times) if self._dropout else hidden)
        weight, bias = self._layers[-1]
        logits = torch.addmm(bias, inputs[-1], weight.T).squeeze(-1)
        slope = _slope_of(logits, labels, self.recipe.loss)[:, None]
        grads: list[Tensor] = []
        for i in reversed(range(len(self._layers))):
            grads += [slope.sum(0), slope.T @ inputs[i]]
            slope = slope @ self._layers[i][0]
            if i:
                slope.mul_(inputs[i] > 0)
                if self._dropout:
                    slope.mul_(masks[i - 1])
        both = torch.cat(slope.chunk(2, dim=1)) if self._query else slope
        grads.append(torch.from_numpy(np.asarray(grams @ both.mul_(share).numpy())))
        self._steps += 1
        _adamw(
            self._tensors,
            grads[::-1],
            *self._moments,
            [],
            [self._steps] * len(grads),
            lr=self.recipe.rate,
            beta1=_BETA1,
            beta2=_BETA2,
            weight_decay=_DECAY,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )
        return logits

    def _dropout_masks(self, rows: int, draws: torch.Generator) -> list[Tensor]:
        """What dropout multiplies each hidden layer of some rows by: 0, or what makes up for it."""
        dropout = self._dropout
        return [
            (torch.rand(rows, len(bias), generator=draws) >= dropout).float().div_(1 - dropout)
            for _, bias in self._layers[:-1]
        ]

    def _grams(self, rows: NDArray[np.int64]) -> Iterator[tuple[Any, Tensor]]:
        """For each batch of ``rows`` the sparse matrix [used n-grams, texts] and the texts' shares
        [texts, 1]: first its questions, if the gate sees any, and then its sentences."""
        batch, first = self.recipe.batch, len(self.pairs.questions)
        batches = [rows[i : i + batch] for i in range(0, len(rows), batch)]
        texts = [first + self.pairs.sentence[b] for b in batches]
        if self._query:
            asked = [self.pairs.question[b] for b in batches]
            texts = [np.concatenate(pair) for pair in zip(asked, texts, strict=True)]
        every = np.concatenate(texts)
        laid, share, at = self._texts[every], self._share[torch.from_numpy(every)], 0
        for some in texts:
            inside = laid.indptr[at : at + len(some) + 1]
            extent = slice(int(inside[0]), int(inside[-1]))
            grams = csc_matrix(
                (laid.data[extent], laid.indices[extent], inside - inside[0]),
                shape=(len(self._used), len(some)),
            )
            yield grams, share[at : at + len(some)]
            at += len(some)

    def state(self) -> dict[str, Tensor]:
        """The optimiser's tensors that an exact continuation needs, by name."""
        named = {
            f"adamw.{kind}.{i}": tensor
            for kind, tensors in zip(("first", "second"), self._moments, strict=True)
            for i, tensor in enumerate(tensors)
        }
        return {**named, "adamw.steps": self._steps}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a :meth:`state`; the model has its weights of that moment again."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
        self._table.copy_(self.model.embedding.weight.detach()[self._used])


class GateTrainer(Trainer[GateModel, GateEpoch]):
    """Trains a gate on ``pairs`` and measures it on ``validation`` after each epoch."""

    entry = GateEpoch

    def __init__(
        self, config: GateConfig, pairs: Pairs, validation: Pairs, recipe: GateRecipe
    ) -> None:
        with forked_rng(seed=seed_of(recipe.seed, 0)):
            network = GateModel(config)
        super().__init__(network, recipe.epochs)
        self.config, self.recipe = config, recipe
        self.pairs, self.validation = pairs, validation
        self.stepper = _Stepper(network, pairs, recipe)

    def advance(self) -> GateEpoch:
        epoch = self.done + 1
        loss = require_finite(self.epoch(epoch), f"epoch {epoch}")
        return GateEpoch(epoch, loss, *self._validate())

    def epoch(self, number: int) -> float:
        """Epoch ``number`` (from 1): one pass over all pairs; the mean loss."""
        draws = torch.Generator().manual_seed(seed_of(self.recipe.seed, number))
        order = epoch_order(self.recipe.seed, number, len(self.pairs))
        return self.stepper.epoch(order, draws)

    def _validate(self) -> tuple[float, float]:
        if not len(self.validation):
            return math.nan, math.nan
        logits = self.logits(self.validation)
        labels = torch.from_numpy(self.validation.label)
        loss = float(loss_of(torch.from_numpy(logits), labels, self.recipe.loss))
        return loss, auroc(logits, self.validation.label)

    @one_thread()
    def logits(self, pairs: Pairs) -> NDArray[np.float32]:
        """Logits [n] of pairs, without dropout; one thread, since the last layer's matrix-vector
        product rounds differently with more."""
        self.network.eval()
        with torch.no_grad():
            sides = [
                self.network.embedding(torch.from_numpy(b.ids), torch.from_numpy(b.offsets[:-1]))
                for b in (
                    bags(self.config.hashing, pairs.questions),
                    bags(self.config.hashing, pairs.sentences),
                )
            ]
            pooled = [sides[0][pairs.question], sides[1][pairs.sentence]]
            return self.network.head(torch.cat(pooled[0 if self.config.query else 1 :], 1)).numpy()

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """The network's weights by name."""
        return {k: v.detach().numpy().copy() for k, v in self.network.state_dict().items()}

    def identity(self) -> Any:
        return [
            asdict(self.config),
            asdict(self.recipe),
            *map(_digest, (self.pairs, self.validation)),
        ]

    def state(self) -> dict[str, Tensor]:
        return self.stepper.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.stepper.restore(state)


def _digest(pairs: Pairs) -> str:
    total = blake2b(repr((pairs.questions, pairs.sentences)).encode(), digest_size=16)
    for array in (pairs.question, pairs.sentence, pairs.label):
        total.update(array.tobytes())
    return total.hexdigest()


class PlusModel(nn.Module):
    """Scores all sentences of a record for a question (see :mod:`midchart.core.gate.plus`).

    ``embedding`` [buckets, dim] of n-grams; ``weight`` [buckets, 1], how much a word with this
    n-gram counts; ``idf`` [2], slope and level of a word's weight; ``head`` [features].
    """

    def __init__(self, buckets: int, dim: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(buckets, dim)
        nn.init.normal_(self.embedding.weight, 0.0, 0.3)
        self.weight = nn.Embedding(buckets, 1)
        nn.init.zeros_(self.weight.weight)
        self.idf = nn.Parameter(torch.tensor([1.0, 0.0]))
        self.head = nn.Parameter(torch.tensor(START))

    def _vectors(self, bags: Bags) -> Tensor:
        return F.normalize(_mean(bags, self.embedding.weight), dim=1)

    def forward(self, record: RecordWords, question: QuestionWords) -> Tensor:
        """Score of each sentence [n]."""
        level = self.idf[0] * torch.from_numpy(question.idf) + self.idf[1]
        share = F.softplus(level + _mean(question.bags, self.weight.weight)[:, 0])
        words, asked = self._vectors(record.bags), self._vectors(question.bags)
        near = (words @ asked.T).clamp(min=0.0) ** POWER
        nearest = torch.segment_reduce(
            near[torch.from_numpy(record.tokens)],
            "max",
            lengths=torch.from_numpy(record.offsets).diff(),
            initial=0.0,
        )
        learned = nearest @ (share / share.sum())
        features = torch.cat([torch.from_numpy(question.fixed), learned[:, None]], 1)
        return GATE_SCALE * (features @ self.head)


def _mean(bags: Bags, table: Tensor) -> Tensor:
    offsets = torch.from_numpy(bags.offsets[:-1])
    return F.embedding_bag(torch.from_numpy(bags.ids), table, offsets, mode="mean")


@dataclass(frozen=True, eq=False, slots=True)
class Example:
    """A question, its record, and which sentences [g] are its evidence (at least one)."""

    record: RecordWords
    question: QuestionWords
    gold: NDArray[np.int64]


def _loss_of(scores: Tensor, gold: Tensor) -> Tensor:
    """Negative log of the softmax over the record [n]: half of the evidence together, half of
    each of its sentences."""
    likely = F.log_softmax(scores, dim=0)[gold]
    return -0.5 * torch.logsumexp(likely, 0) - 0.5 * likely.mean()


class PlusTrainer(Trainer[PlusModel, PlusStep]):
    """Trains QCCS plus step by step; raises WorkFailed for a loss that is not finite."""

    entry = PlusStep

    def __init__(self, examples: Sequence[Example], recipe: PlusRecipe) -> None:
        with forked_rng(seed=recipe.seed):
            network = PlusModel(HASHING.buckets, recipe.dim)
        self.examples, self.recipe = examples, recipe
        self.epoch_steps = math.ceil(len(examples) / recipe.batch)
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=recipe.rate, weight_decay=recipe.decay, fused=True
        )
        super().__init__(network, recipe.epochs * self.epoch_steps, optimizer)
        self._sum = 0.0

    def advance(self) -> PlusStep:
        r, step = self.recipe, self.done
        epoch, number = divmod(step, self.epoch_steps)
        seen = number * r.batch
        rows = epoch_order(r.seed, epoch, len(self.examples))[seen : seen + r.batch]
        warm_up = min(1.0, (step + 1) / r.warm)
        cosine = max(0.02, 0.5 * (1 + math.cos(math.pi * step / self.total)))
        self.optimizer.param_groups[0]["lr"] = r.rate * warm_up * cosine
        self.optimizer.zero_grad()
        if number == 0:
            self._sum = 0.0
        for i in rows:
            one = self.examples[i]
            loss = _loss_of(self.network(one.record, one.question), torch.from_numpy(one.gold))
            (loss / r.batch).backward()  # pyright: ignore[reportUnknownMemberType]
            self._sum += float(loss.detach())
        self.optimizer.step()
        mean = require_finite(self._sum / (seen + len(rows)), f"epoch {epoch + 1}")
        return PlusStep(step + 1, mean)

    def epoch_losses(self) -> list[float]:
        """The mean loss of each epoch."""
        return [last.loss for last in self.history[self.epoch_steps - 1 :: self.epoch_steps]]

    def weights(self) -> PlusWeights:
        """The learned weights as plain arrays."""
        model = self.network
        tables = (model.embedding.weight, model.weight.weight[:, 0], model.idf, model.head)
        return PlusWeights(*(tensor.detach().numpy().copy() for tensor in tables))
