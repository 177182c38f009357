"""The network of every attention variant, its training, and the trained model on disk.

All data are on the device. On one machine's CPU the same seed gives bit-identical weights; another
CPU's kernels, and a GPU, which computes in bfloat16, round differently.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import AttentionModule, Keys, Shape
from midchart.core.attention.code_gate import CodeGate, gate_loss
from midchart.core.errors import DataError
from midchart.core.stats.auroc import ranking_areas
from midchart.core.storage.files import replacing
from midchart.core.text import one_line
from midchart.core.training import Progress, require_finite
from midchart.core.training.recorded import RecordedStep
from midchart.core.training.trainer import (
    Trainer,
    epoch_order,
    forked_rng,
    one_thread,
    seed_of,
)
from midchart.core.training_experiments.forecast.examples import Examples, SplitExamples, Vocabulary
from midchart.core.training_experiments.forecast.spec import EncoderRecipe, Epoch, GateLoss

LOG = logging.getLogger(__name__)

# The network: one encoder, and a gate of its tokens where gated. Paper, Experiment 2: 2 layers, dim
# 64, 4 heads, feed-forward 256, a CLS token, head 64 → 32 → 1. Norm, residual and dropout are the
# same for all variants, unlike in the published run. Only CLS's row of the last layer is computed,
# since nothing else is read.


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The shape of an encoder.

    vocabulary: number of codes, padding (0) included. positions: events in a sequence.
    attention, options: a name of ATTENTIONS and its options. norm: before each part and once
    before the head ("pre"), or after each residual sum ("post", as PyTorch's encoder, the published
    baseline). cls_gate: the gate of CLS's own key: "neutral", as in an ungated attention, or
    "zero", as in the published run.
    """

    vocabulary: int
    attention: str = "softmax"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    positions: int = 256
    dim: int = 64
    heads: int = 4
    layers: int = 2
    feedforward: int = 256
    head: int = 32
    dropout: float = 0.1
    norm: Literal["pre", "post"] = "pre"
    cls_gate: Literal["neutral", "zero"] = "neutral"


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each with its residual and norm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads, self.pre = config.heads, config.norm == "pre"
        self.query, self.key_value = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, config.feedforward), nn.Linear(config.feedforward, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.dropout = nn.Dropout(config.dropout)
        self.attention: AttentionModule

    def _split(self, x: Tensor) -> Tensor:
        batch, time, dim = x.shape
        return x.view(batch, time, self.heads, dim // self.heads).transpose(1, 2)

    def forward(
        self, x: Tensor, keys: Keys, rows: int | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """x [batch, rows, dim] of the first ``rows`` positions (None: all), and the maps."""
        read = self.norm1(x) if self.pre else x
        x = x[:, :rows]
        k, v = self.key_value(read).chunk(2, dim=-1)
        mixed, weights = self.attention(
            self._split(self.query(read[:, :rows])),
            self._split(k),
            self._split(v),
            keys.mask,
            keys.gate,
            keys.norms,
            need_weights,
        )
        mixed = mixed.transpose(1, 2).reshape(x.shape)
        x = x + self.dropout(self.out(mixed))
        if not self.pre:
            x = self.norm1(x)
        read = self.norm2(x) if self.pre else x
        x = x + self.dropout(self.down(self.dropout(F.gelu(self.up(read)))))
        return (x if self.pre else self.norm2(x)), weights


class Encoder(nn.Module):
    """Codes of a patient's last events → logit of the label.

    Shared weights are initialised before those of the attentions, so encoders of one seed start
    with the same weights whatever their attention.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        dim = config.dim
        self.codes = nn.Embedding(config.vocabulary, dim, padding_idx=0)
        self.places = nn.Parameter(torch.randn(config.positions, dim))
        self.cls = nn.Parameter(torch.randn(dim))
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.last_norm = nn.LayerNorm(dim) if config.norm == "pre" else nn.Identity()
        self.head = nn.Sequential(
            nn.Linear(dim, config.head),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.head, 1),
        )
        for depth, layer in enumerate(self.layers):
            shape = Shape(config.heads, dim // config.heads, depth)
            attention = ATTENTIONS.build(config.attention, shape, **config.options)
            layer.attention = cast("AttentionModule", attention)

    @property
    def attention(self) -> AttentionModule:
        """The first layer's attention; gates are the same for all."""
        return cast("AttentionModule", self.layers[0].attention)

    def _keys(self, embedded: Tensor, mask: Tensor, gate: Tensor | None) -> Keys:
        """Mask, gate and norms with CLS in front."""
        if gate is not None:
            neutral = self.config.cls_gate == "neutral"
            gate = F.pad(gate, (1, 0), value=self.attention.neutral_gate if neutral else 0.0)
        norms = embedded.detach().norm(dim=-1)
        return Keys(F.pad(mask, (1, 0), value=True), gate, F.pad(norms, (1, 0)))

    def forward(
        self,
        codes: Tensor,
        mask: Tensor,
        gate: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits [batch] and, where needed, each layer's maps [batch, heads, 1 + t, 1 + t].

        ``codes`` int [batch, t], ``mask`` bool [batch, t], True at events; ``gate`` [batch, t] for
        a gated attention. CLS is position 0 of the maps. The last position is the latest event, so
        t may be less than ``positions``.
        """
        embedded = self.codes(codes)
        keys = self._keys(embedded, mask, gate)
        x = embedded + self.places[self.config.positions - codes.shape[1] :]
        x = torch.cat([self.cls.expand(len(x), 1, -1), x], 1)
        maps: list[Tensor] = []
        last = len(self.layers) - 1
        for depth, layer in enumerate(self.layers):
            rows = 1 if depth == last and not need_weights else None
            x, weights = layer(x, keys, rows, need_weights)
            if weights is not None:
                maps.append(weights)
        return self.head(self.last_norm(x[:, 0])).squeeze(-1), tuple(maps)


DRAWN_EVENTS = 8
"""Events of a sequence in the gate's own loss of a step."""


class EncoderNetwork(nn.Module):
    """Tokens of a patient's last events → logit of the label.

    ``question`` and ``texts`` (of each token) are inputs of a gate; others ignore them.
    """

    def __init__(
        self,
        config: EncoderConfig,
        question: str = "",
        texts: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.gate: CodeGate | None = None
        if getattr(ATTENTIONS.get(config.attention), "gated", False):
            self.gate = CodeGate(question, texts)

    def forward(
        self, tokens: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits [batch] of tokens int [batch, t], 0 where padded, and each layer's maps."""
        mask = tokens != 0
        gate = None if self.gate is None else self.gate(tokens)
        return self.encoder(tokens, mask, gate, need_weights=need_weights)

    def gate_loss(
        self, tokens: Tensor, counts: Tensor, label: Tensor, draws: Tensor, kind: GateLoss
    ) -> Tensor:
        """The gate's own loss: some events of each sequence, each with the sequence's label.

        ``counts`` [batch]: events a sequence; ``draws`` [batch, k] in [0, 1): which of them.
        Sequences without an event give none.
        """
        assert self.gate is not None
        back = (draws * counts[:, None]).long()
        events = tokens.gather(1, tokens.shape[1] - 1 - back)
        labels = label[:, None].expand_as(events)
        real = (counts > 0)[:, None].expand_as(events)
        if self.gate.every:
            logits = self.gate.logits(events.flatten())
            return gate_loss(logits, labels.flatten(), kind, real.flatten())
        distinct, positions = events[real].unique(return_inverse=True)
        return gate_loss(self.gate.logits(distinct)[positions], labels[real], kind)


def _event_counts(tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    """Events of each sequence [n] of tokens [n, t], 0 where padded."""
    return (tokens != 0).sum(axis=1)


def _distinct_events(part: SplitExamples) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The tokens of a part's events, each once, and how many events have it."""
    return np.unique(part.tokens[part.tokens != 0], return_counts=True)


# Training.


SCORED, GPU_SCORED = 512, 1024
"""Sequences scored at once."""
FORMAT = "midchart-forecast-1"


class _OnDevice:
    def __init__(self, part: SplitExamples, device: torch.device) -> None:
        self.tokens = torch.from_numpy(part.tokens).to(device)
        self.label = torch.from_numpy(part.label.astype(np.float32)).to(device)
        self.counts = _event_counts(part.tokens)  # on the host, since it decides shapes
        self.device_counts = torch.from_numpy(self.counts).to(device)

    def tokens_of(self, rows: NDArray[np.int64], index: Tensor) -> Tensor:
        """Tokens of some rows, cut on the left to the longest of them (one column at least)."""
        longest = max(1, int(self.counts[rows].max(initial=1)))
        return self.tokens[:, self.tokens.shape[1] - longest :][index]


class ForecastTrainer(Trainer[EncoderNetwork, Epoch]):
    """Trains ``config`` on a task's training part and chooses the epoch on its tuning part.

    ``device``: "cpu", "cuda", …; None is a GPU where there is one. ``question`` and ``texts``: the
    task's question and the text of each token, for a gate.
    """

    entry = Epoch
    optimizer: torch.optim.AdamW

    def __init__(
        self,
        examples: Examples,
        config: EncoderConfig,
        recipe: EncoderRecipe,
        question: str = "",
        texts: tuple[str, ...] = (),
        device: str | None = None,
    ) -> None:
        self.examples, self.config, self.recipe = examples, config, recipe
        self.question, self.texts = question, texts
        with forked_rng(seed=seed_of(recipe.seed, 0)):
            network = EncoderNetwork(config, question, texts)
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        super().__init__(network.to(place), recipe.epochs, device=place)
        self.train = _OnDevice(examples.train, self.device)
        self.tuning = _OnDevice(examples.tuning, self.device)
        self.weight = (len(examples.train) - examples.train.positive) / examples.train.positive
        self._weight = torch.tensor(self.weight, device=self.device)  # once, not every step
        self.optimizer = self._adamw()
        self.best: dict[str, Tensor] = {}

    def _adamw(self) -> torch.optim.AdamW:
        return torch.optim.AdamW(
            [p for p in self.network.parameters() if p.requires_grad],
            lr=self.recipe.rate,
            weight_decay=self.recipe.decay,
            fused=self.device.type == "cuda",
            capturable=self.device.type == "cuda",
        )

    @property
    def best_epoch(self) -> Epoch:
        """The epoch of largest tuning AUROC, the first of equals; or the last, by the recipe."""
        return self._best(self.history)

    def _best(self, history: Sequence[Epoch]) -> Epoch:
        if self.recipe.choose == "last":
            return history[-1]
        return max(history, key=lambda one: (one.tuning_auroc, -one.epoch))

    def run(self, progress: Progress[Epoch] | None = None, checkpoint: Path | None = None) -> None:
        """Do all epochs that are left; the network then has the weights of the best one."""
        super().run(progress, checkpoint)
        self.network.load_state_dict(self.best)

    def advance(self) -> Epoch:
        if not self.history and self._gate_frozen:
            self._train_gate_alone()
        entry = self._epoch(self.done + 1)
        if self._best([*self.history, entry]) is entry:
            state = self.network.state_dict()
            self.best = {k: v.detach().clone() for k, v in state.items()}
        return entry

    def _epoch(self, epoch: int) -> Epoch:
        start = time.perf_counter()
        self.network.train()
        recorded = self._recorded
        torch.manual_seed(seed_of(self.recipe.seed, epoch))
        rows = epoch_order(self.recipe.seed, epoch, len(self.train.counts))
        index = torch.from_numpy(rows).to(self.device)
        sums = torch.zeros(4, device=self.device)
        begins = range(0, len(rows), self.recipe.batch)
        for begin in begins:
            batch = slice(begin, begin + self.recipe.batch)
            if recorded is not None and len(index[batch]) == self.recipe.batch:
                sums += recorded(index[batch])
            else:
                sums += self._step(index[batch], self.train.tokens_of(rows[batch], index[batch]))
        loss, gate_loss, gate_norm, head_norm = (sums / len(begins)).tolist()
        require_finite(loss + gate_loss + head_norm, f"epoch {epoch}")
        logits = self.logits(self.tuning)
        label = self.examples.tuning.label
        areas = ranking_areas(logits, label)
        tuning_loss = float(self._loss(torch.from_numpy(logits), torch.from_numpy(label).float()))
        mean, sd = self._spread(*self._tuning_events)
        gated = self.network.gate is not None
        return Epoch(
            epoch, loss, gate_loss if gated else math.nan, tuning_loss, *areas,
            gate_norm if gated else math.nan, head_norm, mean, sd,
            time.perf_counter() - start,
        )  # fmt: skip

    def _loss(self, logits: Tensor, label: Tensor) -> Tensor:
        weight = self._weight.to(logits.device)
        return F.binary_cross_entropy_with_logits(logits, label, pos_weight=weight)

    @cached_property
    def _recorded(self) -> RecordedStep | None:
        """A step on complete batches as one call of a GPU; None on a processor, and where a
        component's step cannot be recorded, which is logged."""
        batch = self.recipe.batch
        if self.device.type != "cuda" or len(self.train.counts) < batch:
            return None
        rows = torch.arange(batch, device=self.device)
        gate = self.network.gate

        def step(index: Tensor) -> Tensor:
            return self._step(index, self.train.tokens[index])

        if gate is not None:
            gate.every = True
        try:
            return RecordedStep(step, rows, self.network, self.optimizer)
        except RuntimeError as error:
            LOG.warning(
                "the training's step cannot be recorded on this GPU (%s); it runs call by call",
                one_line(str(error))[:200],
            )
            return None
        finally:
            if gate is not None:
                gate.every = False

    def _step(self, index: Tensor, tokens: Tensor) -> Tensor:
        """One step; loss, gate's loss, norms of the gate's and the head's gradients [4].

        ``index``: the batch's rows [n]; ``tokens`` of them, int [n, t].
        """
        gate = self.network.gate
        if gate is not None and not gate.joint:
            gate = None
        self.optimizer.zero_grad(set_to_none=True)
        label, gate_term = self.train.label[index], torch.zeros((), device=self.device)
        with self._autocast():
            logits, _ = self.network(tokens)
        loss = self._loss(logits.float(), label)
        if gate is not None:
            gate_term = self._gate_loss(tokens, index, label)
        (loss + gate_term).backward()
        norms = [_norm(module, loss) for module in (gate, self.network.encoder.head)]
        if self.recipe.clip:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        return torch.stack([loss.detach(), gate_term.detach(), *norms])

    def _gate_loss(self, tokens: Tensor, index: Tensor, label: Tensor) -> Tensor:
        draws = torch.rand(len(tokens), DRAWN_EVENTS, device=self.device)
        counts = self.train.device_counts[index]
        return self.network.gate_loss(tokens, counts, label, draws, self.recipe.gate_loss)

    @property
    def _gate_frozen(self) -> bool:
        return self.network.gate is not None and self.recipe.gate_training == "frozen"

    def _train_gate_alone(self) -> None:
        gate = self.network.gate
        assert gate is not None
        optimizer = torch.optim.AdamW(gate.parameters(), lr=self.recipe.rate)
        gate.train()
        for epoch in range(self.recipe.gate_epochs):
            torch.manual_seed(seed_of(self.recipe.seed, 10_000 + epoch))
            order = torch.randperm(len(self.train.counts))
            for rows in order.split(self.recipe.batch):
                index = rows.to(self.device)
                tokens = self.train.tokens_of(rows.numpy(), index)
                loss = self._gate_loss(tokens, index, self.train.label[index])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
        self._freeze_gate(gate)

    def _freeze_gate(self, gate: CodeGate) -> None:
        gate.freeze()
        self.optimizer = self._adamw()
        vars(self).pop("_recorded", None)

    def _autocast(self) -> Any:
        on = self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=on)

    @torch.no_grad()
    def logits(self, part: _OnDevice | SplitExamples) -> NDArray[np.float32]:
        """Logits [n] of a part, without dropout."""
        data = _OnDevice(part, self.device) if isinstance(part, SplitExamples) else part
        self.network.eval()
        out = torch.zeros(len(data.counts), device=self.device)
        most = GPU_SCORED if self.device.type == "cuda" else SCORED
        for begin in range(0, len(data.counts), most):
            rows = np.arange(begin, min(begin + most, len(data.counts)))
            tokens = data.tokens_of(rows, torch.from_numpy(rows).to(self.device))
            with one_thread(self.device), self._autocast():
                out[begin : begin + len(rows)] = self.network(tokens)[0].float()
        return out.cpu().numpy()

    @torch.no_grad()
    def last_maps(self, tokens: NDArray[np.int32]) -> NDArray[np.float32]:
        """The last layer's maps [n, heads, 1 + t, 1 + t] of sequences [n, t], in float32."""
        self.network.eval()
        with one_thread(self.device):
            maps = self.network(torch.from_numpy(tokens).to(self.device), need_weights=True)[1]
            return maps[-1].cpu().numpy()

    def gate_spread(self, part: SplitExamples) -> tuple[float, float]:
        """Mean and standard deviation of the gate over a part's events; nan without a gate."""
        return self._spread(*_distinct_events(part)) if self.network.gate else (math.nan, math.nan)

    @cached_property
    def _tuning_events(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        return _distinct_events(self.examples.tuning)

    @torch.no_grad()
    def _spread(self, tokens: NDArray[np.int32], counts: NDArray[np.int64]) -> tuple[float, float]:
        gate = self.network.gate
        if gate is None:
            return math.nan, math.nan
        self.network.eval()
        values = gate(torch.from_numpy(tokens).to(self.device)).double().cpu().numpy()
        mean = float(np.average(values, weights=counts))
        return mean, math.sqrt(float(np.average((values - mean) ** 2, weights=counts)))

    def identity(self) -> Any:
        # A finished training may be continued with more epochs.
        recipe = {k: v for k, v in asdict(self.recipe).items() if k != "epochs"}
        data = hashlib.blake2b(digest_size=16)
        for _, part in self.examples.parts:
            data.update(part.tokens.tobytes())
            data.update(part.label.tobytes())
        return [asdict(self.config), recipe, data.hexdigest()]

    def state(self) -> dict[str, Tensor]:
        return self.best

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.best = {k: v.to(self.device) for k, v in state.items()}
        if self._gate_frozen and self.network.gate is not None:
            self._freeze_gate(self.network.gate)


def _norm(module: torch.nn.Module | None, like: Tensor) -> Tensor:
    """The norm of a module's gradients; 0 where it is None or has none."""
    parameters = module.parameters() if module is not None else ()
    grads = [p.grad for p in parameters if p.grad is not None]
    return torch.nn.utils.get_total_norm(grads).detach() if grads else like.new_zeros(())


def save_model(folder: Path, name: str, trainer: ForecastTrainer, vocabulary: Vocabulary) -> None:
    """Write ``<name>.safetensors`` (weights, vocabulary) and ``<name>.json``, each atomically."""
    from safetensors.torch import save_file

    network = trainer.network
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors["vocabulary.first"] = torch.from_numpy(vocabulary.first)
    codes = sorted(vocabulary.edges)
    tensors["vocabulary.codes"] = torch.tensor(codes, dtype=torch.int64)
    tensors["vocabulary.counts"] = torch.tensor([len(vocabulary.edges[c]) for c in codes])
    edges = [np.empty(0, np.float32), *(vocabulary.edges[code] for code in codes)]
    tensors["vocabulary.edges"] = torch.from_numpy(np.concatenate(edges))
    card = {
        "format": FORMAT,
        "encoder": asdict(trainer.config),
        "recipe": asdict(trainer.recipe),
        "question": trainer.question,
        "texts": list(trainer.texts) if network.gate is not None else [],
        "hash": asdict(network.gate.model.config.hashing) if network.gate is not None else None,
        "size": vocabulary.size,
        "best_epoch": trainer.best_epoch.epoch,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{name}.safetensors") as fresh:
        save_file({k: v.detach().contiguous().cpu().clone() for k, v in tensors.items()}, fresh)
    with replacing(folder / f"{name}.json") as fresh:
        fresh.write_text(json.dumps(card, ensure_ascii=False, indent=1) + "\n", "utf-8")


def load_model(folder: Path, name: str) -> tuple[EncoderNetwork, Vocabulary]:
    """The model and vocabulary that :func:`save_model` wrote, on the CPU.

    Raises DataError where files are missing or do not match.
    """
    from safetensors.torch import load

    path = folder / f"{name}.safetensors"
    try:
        card: dict[str, Any] = json.loads((folder / f"{name}.json").read_bytes())
        if card["format"] != FORMAT:
            raise ValueError(f"format {card['format']!r}")
        tensors = load(path.read_bytes())
        config = EncoderConfig(**card["encoder"])
        network = EncoderNetwork(config, card["question"], tuple(card["texts"]))
        weights = {k: v for k, v in tensors.items() if k.startswith("network.")}
        network.load_state_dict({k.removeprefix("network."): v for k, v in weights.items()})
        # The table of a frozen gate is among the weights.
        if network.gate is not None and card["recipe"]["gate_training"] == "frozen":
            network.gate.requires_grad_(False)
            network.gate.joint = False
    except OSError as error:
        raise DataError(str(path), None, f"cannot be read ({error.strerror})") from None
    except Exception as error:  # noqa: BLE001 - a damaged file may fail anywhere
        reason = f"is no forecast model of this version ({type(error).__name__})"
        raise DataError(str(path), None, reason, "run the forecast again") from None
    counts = tensors["vocabulary.counts"].tolist()
    edges = tensors["vocabulary.edges"].split(counts) if counts else ()
    codes = tensors["vocabulary.codes"].tolist()
    first = tensors["vocabulary.first"].numpy()
    by_code = {code: part.numpy() for code, part in zip(codes, edges, strict=True)}
    return network.eval(), Vocabulary(first, by_code, card["size"])
