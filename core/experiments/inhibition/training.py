"""Training one decoder: many questions a record, loss on the answers alone.

Every step draws its records from a seed of its own, so all variants of a seed see the same data in
the same order. On one machine's CPU the same seed gives the same weights to the last bit; on
another machine, or on a GPU in bfloat16, nearly.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from core.attention.parts.gate import gate_loss
from core.experiments.inhibition.config import DecoderConfig, Recipe, Stage
from core.experiments.inhibition.decoder import Network, Output, slow_parameters
from core.experiments.inhibition.records import Batch, draw_batch
from core.training import require_finite
from core.training.repeatable import forked_rng
from core.training.trainer import Trainer

BETAS = (0.9, 0.98)
SHUFFLE = 1
"""Sets the draws of shuffled labels apart from those of the records."""
SLOW = 0.05
"""The share of the learning rate of the heads that start looking back."""


def batch_of(recipe: Recipe, step: int) -> Batch:
    """The records and questions of a step; placements of one seed share their records.

    Records grow from ``shortest`` to ``longest`` over the first half of the steps, since lookup
    is learned sooner in short ones.
    """
    rng = np.random.default_rng([recipe.seed, step])
    grown = recipe.shortest + (recipe.longest - recipe.shortest) * min(1.0, 2 * step / recipe.steps)
    lines = int(rng.integers(recipe.shortest, math.ceil(grown) + 1))
    lines = min(lines, recipe.longest)
    return draw_batch(rng, recipe.batch, lines, recipe.questions, recipe.placement)


def labels_of(batch: Batch, recipe: Recipe, step: int) -> NDArray[np.int64]:
    """The lines [batch, questions] that a gate's own loss takes for evidence at a step.

    Shuffled ones are the true ones of a record, dealt to its questions at random: as many, at the
    same places, and by chance alone the right one.
    """
    if recipe.labels == "true":
        return batch.line
    rng = np.random.default_rng([recipe.seed, step, SHUFFLE])
    return rng.permuted(batch.line, axis=1)


def rate_at(recipe: Recipe, step: int) -> float:
    """The learning rate of a step."""
    warm = min(1.0, (step + 1) / max(1, recipe.warm_up))
    past = max(0.0, 2 * step / recipe.steps - 1)
    return recipe.rate * warm * 0.5 * (1 + math.cos(math.pi * past))


def device_of(name: str | None) -> torch.device:
    """The device called so; None: a GPU where there is one."""
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


class DecoderTrainer(Trainer[Network, Stage]):
    """Trains a network in stages of ``save_every`` steps; ``device`` as in :func:`device_of`."""

    entry = Stage

    def __init__(self, config: DecoderConfig, recipe: Recipe, device: str | None = None) -> None:
        self.config, self.recipe = config, recipe
        with forked_rng(seed=recipe.seed):
            network = Network(config)
        super().__init__(network.to(device_of(device)), recipe.steps, device=device_of(device))
        self.optimizer = torch.optim.AdamW(
            self._groups(),
            lr=recipe.rate,
            betas=BETAS,
            weight_decay=recipe.decay,
            fused=self.device.type == "cuda",
        )

    def _groups(self) -> list[dict[str, Any]]:
        """All parameters at the full rate but those that place the heads that look back.

        What these start with would be gone before the layers above have learned to use it.
        """
        slow = slow_parameters(self.network.decoder)
        held = {id(p) for p in slow}
        rest = [p for p in self.network.parameters() if id(p) not in held]
        return [{"params": rest, "share": 1.0}, {"params": slow, "share": SLOW}]

    def read(self, batch: Batch, need_weights: bool = False) -> Output:
        """What the network says; in bfloat16 on a GPU."""
        on = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on):
            return self.network(batch, need_weights)

    def advance(self) -> Stage:
        begun, first = time.perf_counter(), self.done
        last = min(first + self.recipe.save_every, self.recipe.steps)
        told = torch.zeros(3, device=self.device)
        for step in range(first, last):
            told += self._step(step)
        loss, accuracy, of_gate = (told / (last - first)).tolist()
        require_finite(loss + of_gate, f"steps {first + 1} to {last}")
        gated = self.network.gate is not None
        spent = time.perf_counter() - begun
        return Stage(last, loss, accuracy, of_gate if gated else math.nan, spent)

    def _step(self, step: int) -> Tensor:
        """One step; loss, accuracy and the gate's loss [3]."""
        batch = batch_of(self.recipe, step)
        answer = torch.from_numpy(batch.answer).to(self.device).flatten()
        told = self.read(batch)
        logits = told.answers.float().flatten(0, 1)
        loss = F.cross_entropy(logits, answer)
        of_gate = loss.new_zeros(())
        if told.gate is not None:
            positive = torch.zeros_like(told.gate, dtype=torch.float32)
            line = torch.from_numpy(labels_of(batch, self.recipe, step)).to(self.device)
            positive.scatter_(2, line[:, :, None], 1.0)
            of_gate = gate_loss(told.gate.float().flatten(), positive.flatten(), "bce")
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.recipe, step) * group["share"]
        self.optimizer.zero_grad(set_to_none=True)
        (loss + of_gate).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        right = (logits.argmax(-1) == answer).float().mean()
        return torch.stack([loss.detach(), right, of_gate.detach()])

    def identity(self) -> Any:
        return [self.config.model_dump(), self.recipe.model_dump()]
