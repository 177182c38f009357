"""Training one decoder: many questions a record, loss on the answers alone.

Every step draws its records from a seed of its own, so all variants of a seed see the same data in
the same order, and a training that was cut off goes on exactly: on one machine's processor the same
seed gives the same weights to the last bit (one thread), on another or on a GPU, in bfloat16,
nearly.
"""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from core.attention.parts.gate import gate_loss
from core.checkpoints import identity_of, load_training, save_training
from core.errors import WorkFailed
from core.gate.threads import one_thread
from core.inhibition.decoder import slow_parameters
from core.inhibition.network import Network, Told
from core.inhibition.records import Batch, draw_batch
from core.inhibition.shape import DecoderConfig, Progress, Recipe, Stage

BETAS = (0.9, 0.98)
SHUFFLE = 1
"""Sets the draws of shuffled labels apart from those of the records."""
SLOW = 0.05
"""The share of the learning rate of the heads that start looking back."""


class Aborted(Exception):
    """Training was stopped; what was done is in the checkpoint, if there is one."""


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


class Trainer:
    """Trains a network; ``device`` as in :func:`device_of`."""

    def __init__(self, config: DecoderConfig, recipe: Recipe, device: str | None = None) -> None:
        self.config, self.recipe = config, recipe
        self.device = device_of(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            network = Network(config)
        self.network = network.to(self.device)
        self.optimizer = torch.optim.AdamW(
            self._groups(),
            lr=recipe.rate,
            betas=BETAS,
            weight_decay=recipe.decay,
            fused=self.device.type == "cuda",
        )
        self.stages: list[Stage] = []

    def _groups(self) -> list[dict[str, Any]]:
        """All parameters at the full rate but those that place the heads that look back.

        What these start with would be gone before the layers above have learned to use it.
        """
        slow = slow_parameters(self.network.decoder)
        held = {id(p) for p in slow}
        rest = [p for p in self.network.parameters() if id(p) not in held]
        return [{"params": rest, "share": 1.0}, {"params": slow, "share": SLOW}]

    @property
    def step(self) -> int:
        """How many steps are done."""
        return self.stages[-1].step if self.stages else 0

    def run(self, progress: Progress | None = None, checkpoint: Path | None = None) -> None:
        """All steps that are left.

        ``checkpoint``: a file to go on from and to keep up to date. Raises Aborted when told to
        stop, WorkFailed for a loss that is no number.
        """
        if checkpoint is not None and checkpoint.exists():
            self._load(checkpoint)
        self.network.train()
        with self.steady():
            while self.step < self.recipe.steps:
                self.stages.append(self._stage())
                if checkpoint is not None:
                    self._save(checkpoint)
                if progress is not None and not progress(self.stages[-1], self.recipe.steps):
                    raise Aborted
        self.network.eval()

    def steady(self) -> AbstractContextManager[None]:
        """One thread on a processor; nothing is changed on other devices."""
        return one_thread() if self.device.type == "cpu" else nullcontext()

    def read(self, batch: Batch, need_weights: bool = False) -> Told:
        """What the network says; in bfloat16 on a GPU."""
        on = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on):
            return self.network(batch, need_weights)

    def _stage(self) -> Stage:
        begun, first = time.perf_counter(), self.step
        last = min(first + self.recipe.save_every, self.recipe.steps)
        told = torch.zeros(3, device=self.device)
        for step in range(first, last):
            told += self._step(step)
        loss, accuracy, of_gate = (told / (last - first)).tolist()
        if not math.isfinite(loss + of_gate):
            raise WorkFailed(f"training came to a loss that is no number by step {last}")
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

    def _identity(self) -> str:
        """What a checkpoint must have been made with to be gone on from."""
        return identity_of([asdict(self.config), asdict(self.recipe)])

    def _save(self, path: Path) -> None:
        tensors = {f"now.{k}": v for k, v in self.network.state_dict().items()}
        rows = [list(asdict(one).values()) for one in self.stages]
        tensors["stages"] = torch.tensor(rows, dtype=torch.float64)
        save_training(path, self._identity(), tensors, self.optimizer)

    def _load(self, path: Path) -> None:
        saved = load_training(path, self._identity())
        self.stages = [Stage(int(row[0]), *row[1:]) for row in saved.tensors["stages"].tolist()]
        self.network.load_state_dict(saved.under("now."))
        saved.put_back(self.optimizer)
