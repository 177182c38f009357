"""Training and evaluation of one decoder.

Training asks many questions a record, with the loss on the answers alone. Every step has its own
seed, so all variants of a seed are trained on the same data in the same order. On one machine's CPU
the same seed gives bit-identical weights; another machine or a GPU (bfloat16) rounds differently.
All decoders are evaluated on the same needle records, so every comparison is paired.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from core.attention.code_gate import gate_loss
from core.experiments.inhibition.decoder import Network, Output, slow_parameters
from core.experiments.inhibition.records import (
    LINE,
    Batch,
    Haystacks,
    Placed,
    draw_batch,
    haystacks,
    needle_positions,
    place,
)
from core.experiments.inhibition.spec import Cell, DecoderConfig, Measures, Recipe, Stage
from core.stats.auroc import ranking_areas
from core.training import require_finite
from core.training.repeatable import forked_rng, one_thread
from core.training.trainer import Trainer

BETAS = (0.9, 0.98)
SHUFFLE = 1
"""Added to the seed of shuffled labels, which differs from that of the records."""
SLOW = 0.05
"""Relative learning rate of the heads initialised to look back."""
BATCH = 64
"""Needle records read at once."""
Floats = NDArray[np.float64]


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
    """The lines [batch, questions] that are a gate's targets at a step.

    Shuffled ones are the true ones of a record, permuted among its questions.
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
    """The device of that name; None: a GPU where there is one."""
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
        """Parameters with their relative learning rates: slow for the heads that look back.

        At the full rate their initialisation would be lost before the layers above can use it.
        """
        slow = slow_parameters(self.network.decoder)
        ids = {id(p) for p in slow}
        rest = [p for p in self.network.parameters() if id(p) not in ids]
        return [{"params": rest, "share": 1.0}, {"params": slow, "share": SLOW}]

    def read(self, batch: Batch, need_weights: bool = False) -> Output:
        """The network's output; in bfloat16 on a GPU."""
        on = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on):
            return self.network(batch, need_weights)

    def advance(self) -> Stage:
        start, first = time.perf_counter(), self.done
        last = min(first + self.recipe.save_every, self.recipe.steps)
        sums = torch.zeros(3, device=self.device)
        for step in range(first, last):
            sums += self._step(step)
        loss, accuracy, gate = (sums / (last - first)).tolist()
        require_finite(loss + gate, f"steps {first + 1} to {last}")
        gate = math.nan if self.network.gate is None else gate
        return Stage(last, loss, accuracy, gate, time.perf_counter() - start)

    def _step(self, step: int) -> Tensor:
        """One step; loss, accuracy and the gate's loss [3]."""
        batch = batch_of(self.recipe, step)
        answer = torch.from_numpy(batch.answer).to(self.device).flatten()
        output = self.read(batch)
        logits = output.answers.float().flatten(0, 1)
        loss = F.cross_entropy(logits, answer)
        gate_term = loss.new_zeros(())
        if output.gate is not None:
            positive = torch.zeros_like(output.gate, dtype=torch.float32)
            line = torch.from_numpy(labels_of(batch, self.recipe, step)).to(self.device)
            positive.scatter_(2, line[:, :, None], 1.0)
            gate_term = gate_loss(output.gate.float().flatten(), positive.flatten(), "bce")
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.recipe, step) * group["share"]
        self.optimizer.zero_grad(set_to_none=True)
        (loss + gate_term).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        correct = (logits.argmax(-1) == answer).float().mean()
        return torch.stack([loss.detach(), correct, gate_term.detach()])

    def identity(self) -> Any:
        return [self.config.model_dump(), self.recipe.model_dump()]


def stacks_of(plan: Measures) -> dict[int, Haystacks]:
    """The needle records of each length, with the most distractors of its conditions."""
    stacks: dict[int, Haystacks] = {}
    for length in dict.fromkeys(length for length, _ in plan.conditions):
        most = max(count for other, count in plan.conditions if other == length)
        rng = np.random.default_rng([plan.seed, length])
        stacks[length] = haystacks(rng, plan.records, length, plan.depths, most)
    return stacks


@torch.no_grad()
def evaluate(
    trainer: DecoderTrainer, plan: Measures, progress: Callable[[int, int], None]
) -> list[Cell]:
    """Every condition at every depth; ``progress`` gets the numbers done and in all."""
    stacks, cells = stacks_of(plan), list[Cell]()
    trainer.network.eval()
    with one_thread(trainer.device):
        for length, count in plan.conditions:
            for at in needle_positions(length, plan.depths):
                placed = place(stacks[length], int(at), count)
                cells.append(Cell(length, count, float(at) / (length - 1), *_read(trainer, placed)))
                progress(len(cells), len(plan.conditions) * plan.depths)
    return cells


def _read(trainer: DecoderTrainer, placed: Placed) -> tuple[NDArray[np.bool_], Floats]:
    """Whether each record is answered correctly [records], and its attention masses."""
    correct, mass = list[NDArray[np.bool_]](), list[Floats]()
    every = placed.batch
    for begin in range(0, len(placed.distractor), BATCH):
        some = slice(begin, begin + BATCH)
        batch = Batch(
            *(part[some] for part in (every.tokens, every.question, every.answer, every.line))
        )
        output = trainer.read(batch, need_weights=True)
        correct.append(output.answers[:, 0].argmax(-1).cpu().numpy() == batch.answer[:, 0])
        mass.append(attention_mass(output.maps, batch.line[:, 0], placed.distractor[some]))
    return np.concatenate(correct), np.concatenate(mass, axis=2)


def attention_mass(
    maps: tuple[Tensor, ...], line: NDArray[np.int64], distractor: NDArray[np.bool_]
) -> Floats:
    """Mass of the last token's attention [layers, parts, records], mean over heads."""
    count, lines = distractor.shape
    of_line = np.stack([np.arange(lines) == line[:, None], distractor], axis=0)
    masses: list[Floats] = []
    for layer in maps:
        rows = layer[:, :, -1].float().mean(1).cpu().numpy().astype(np.float64)
        by_line = rows[:, 1 : 1 + lines * LINE].reshape(count, lines, LINE).sum(2)
        both = (by_line[None] * of_line).sum(2)
        rest = rows.sum(1) - both.sum(0) - rows[:, 0]
        masses.append(np.stack([*both, rows[:, 0], rest]))
    return np.stack(masses)


@torch.no_grad()
def gate_quality(trainer: DecoderTrainer, plan: Measures) -> dict[str, float] | None:
    """AUROC, mean and SD of a gate's scores of the lines of the base records, the needle at every
    depth; None without a gate."""
    gate = trainer.network.gate
    if gate is None:
        return None
    stack, scores, labels = stacks_of(plan)[plan.base], list[Floats](), list[NDArray[np.bool_]]()
    for at in needle_positions(plan.base, plan.depths):
        batch = place(stack, int(at), plan.usual).batch
        tokens, question = (
            torch.from_numpy(x).to(trainer.device) for x in (batch.tokens, batch.question)
        )
        score = gate.logits(tokens, question)[:, 0].float().sigmoid().cpu().numpy()
        scores.append(score.astype(np.float64).ravel())
        labels.append((np.arange(plan.base) == batch.line).ravel())
    every = np.concatenate(scores)
    area, _ = ranking_areas(every, np.concatenate(labels))
    return {"auroc": float(area), "mean": float(every.mean()), "sd": float(every.std())}
