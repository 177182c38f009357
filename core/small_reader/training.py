"""Trains the small reader on synthetic examples generated on the fly by parallel threads.

Example ``number`` of the recipe's seed is always the same, so a resumed training equals an
uninterrupted one; on one machine in float32 to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from midchart.core.small_reader.batches import (
    BRACKET,
    END,
    PAD,
    beginnings,
    dates_of,
    encode,
    predict,
    rarity,
    right_answers,
    save_tokenizer,
    train_tokenizer,
)
from midchart.core.small_reader.network import NAME, VocabularyStatistics, make_network
from midchart.core.small_reader.recipe import Recipe, Shape, Step
from midchart.core.storage.files import replacing
from midchart.core.synthetic.training_examples import (
    ExamplePlan,
    TrainingExample,
    make_example,
    require,
)
from midchart.core.synthetic.training_wordings import READINGS, name_words
from midchart.core.training import Progress, require_finite
from midchart.core.training.trainer import Trainer

_BETAS = (0.9, 0.98)
"""Of AdamW, with a shorter memory than usual for a training of thousands of steps."""
_MOMENTUM = 0.95
"""Of Muon."""
_PARTS = 2


class _Mixed:
    """Muon for the matrices of ``model``, in ``PARTS`` parts that are computed in parallel, and
    AdamW for its other parameters, at one learning rate."""

    def __init__(self, model: Any, rate: float, decay: float) -> None:
        named = list(model.named_parameters())
        matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        taken = {id(p) for p in matrices}
        rest = [p for _, p in named if id(p) not in taken]
        size = -(-len(matrices) // _PARTS)
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                matrices[begin : begin + size],
                lr=rate,
                weight_decay=decay,
                momentum=_MOMENTUM,
                adjust_lr_fn="match_rms_adamw",
            )
            for begin in range(0, len(matrices), size)
        ]
        self.parts.append(torch.optim.AdamW(rest, lr=rate, weight_decay=decay, betas=_BETAS))

    def step(self, rate: float, pool: Executor) -> None:
        """Update the weights from their gradients."""
        for one in self.parts:
            for group in one.param_groups:
                group["lr"] = rate
        for started in [pool.submit(one.step) for one in self.parts]:
            started.result()

    def _first(self) -> list[int]:
        """The number of each part's first parameter."""
        sizes = [len(one.param_groups[0]["params"]) for one in self.parts]
        return [sum(sizes[:i]) for i in range(len(sizes) + 1)]

    def state_dict(self) -> dict[str, Any]:
        """The state of every parameter."""
        parts = zip(self.parts, self._first(), strict=False)
        return {
            "state": {
                number + first: state
                for one, first in parts
                for number, state in one.state_dict()["state"].items()
            }
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of every parameter."""
        state, first = state_dict["state"], self._first()
        for i, one in enumerate(self.parts):
            optimizer_state = {
                n - first[i]: state[n] for n in range(first[i], first[i + 1]) if n in state
            }
            one.load_state_dict({**one.state_dict(), "state": optimizer_state})


SAVE_EVERY = 50
"""Steps from one checkpoint to the next."""
TOKENIZER_EXAMPLES = 300
"""Training examples for the tokenizer and the leakage check."""


@dataclass(frozen=True, slots=True)
class _ExampleResult:
    """An example's gradient (of each parameter), loss, attention to the evidence, and whether each
    question was answered correctly."""

    gradient: tuple[torch.Tensor, ...]
    loss: float
    evidence_attention: float
    right: list[bool]


class ReaderTrainer(Trainer[Any, Step]):
    """Trains a network of ``shape`` by ``recipe`` in parts of ``save_every`` steps.

    Raises WorkFailed where training examples share texts with evaluation material.
    """

    entry = Step

    def __init__(
        self, recipe: Recipe, shape: Shape | None = None, save_every: int = SAVE_EVERY
    ) -> None:
        self.recipe, self.shape, self.save_every = recipe, shape or Shape(), save_every
        self.all_kinds = True
        first = [self._example(-1 - n, 30, 30) for n in range(TOKENIZER_EXAMPLES)]
        require(first)
        self.tokenizer = train_tokenizer(first, self.shape.words, name_words())
        end, pad = (self.tokenizer.token_to_id(token) for token in (END, PAD))
        vocabulary = self.tokenizer.get_vocab_size()
        known = None
        if recipe.start == "copying":
            rare = rarity(self.tokenizer, first[:50])
            bracket = self.tokenizer.token_to_id(BRACKET)
            known = VocabularyStatistics(rare, dates_of(self.tokenizer), bracket, end)
        network = make_network(self.shape, vocabulary, end, pad, recipe.seed, known)
        optimizer = _Mixed(network, recipe.rate, recipe.decay)
        super().__init__(network, recipe.steps, optimizer)
        self.lines, self.all_kinds, self.grown = recipe.lines[1], False, 0
        self.judged: deque[tuple[float, ...]] = deque(maxlen=recipe.judged)

    def _size(self, step: int) -> int:
        """Lines of the examples of a step, the same for all, so that no thread waits long."""
        r = self.recipe
        rng = np.random.default_rng([r.seed, step + 2**41])
        if self.lines >= r.lines[2] and float(rng.random()) < r.long_share:
            return int(rng.integers(r.lines[2], r.long + 1))
        return int(rng.integers(r.lines[0], self.lines + 1))

    def _example(self, number: int, size: int, lines: int) -> TrainingExample:
        """Example ``number``, of ``size`` lines, when the longest have ``lines``."""
        r = self.recipe
        rng = np.random.default_rng([r.seed, number + 2**40])
        grown = lines >= r.lines[2]
        # Negative numbers are the tokenizer's examples, which have all kinds and distractors.
        plain = not self.all_kinds or (number >= 0 and float(rng.random()) < r.plain)
        falls = number // r.records >= r.steps * (1 - r.falling)
        others = min(r.distractors, 1) if lines < sum(r.lines[1:]) / 2 else r.distractors
        plan = ExamplePlan(
            lines=(size, size),
            distractors=0 if plain else others,
            asked=r.asked[int(grown)],
            absent=r.absent[int(falls)],
            withheld=r.withheld[int(falls)],
            facts=float(rng.uniform(*r.facts)) if number >= 0 and grown else r.facts[1],
            invented=r.made_up[int(grown)],
            kinds=r.kinds if self.all_kinds else tuple(READINGS),
            latest=r.latest if falls else 0.0,
        )
        return make_example(rng, plan)

    def rate(self, step: int) -> float:
        """The learning rate of a step: warm-up, constant, then linear decay."""
        r = self.recipe
        if step < r.warm_up:
            return r.rate * (step + 1) / r.warm_up
        falls = max(r.steps * r.falling, 1.0)
        return r.rate * max(min((r.steps - step) / falls, 1.0), r.least)

    def _learn(self, number: int, size: int, lines: int) -> _ExampleResult:
        """Gradient and outcome of an example; those of a step are computed in parallel."""
        r = self.recipe
        example = encode(self.tokenizer, self._example(number, size, lines), r.complete)
        with torch.autocast("cpu", torch.bfloat16, enabled=r.half):
            predicted = predict(self.network, example)
        each = F.cross_entropy(
            predicted.logits.float(), torch.from_numpy(example.wanted), reduction="none"
        )
        early = torch.from_numpy(beginnings(example))
        # Half the loss is that of beginnings, from which most of the rest follows.
        loss = each.mean() + each[early].mean()
        evidence = (predicted.evidence.mean() + predicted.evidence[:, early].mean()) / 2
        guided = loss - r.guide * (evidence + predicted.line_start.mean())
        gradient = torch.autograd.grad(guided / r.records, list(self.network.parameters()))
        share = float(predicted.evidence.detach()[:, early].exp().mean())
        right = right_answers(predicted.logits.detach(), example)
        return _ExampleResult(gradient, float(loss.detach()), share, right)

    def _update(self, step: int) -> None:
        r, size = self.recipe, self._size(step)
        numbers = range(step * r.records, (step + 1) * r.records)
        started = [self._pool.submit(self._learn, number, size, self.lines) for number in numbers]
        results = [one.result() for one in started]
        losses, evidence_attention = (
            [getattr(one, name) for one in results] for name in ("loss", "evidence_attention")
        )
        loss = require_finite(float(np.mean(losses)), f"step {step + 1}")
        for parameter, *parts in zip(
            self.network.parameters(), *(one.gradient for one in results), strict=True
        ):
            parameter.grad = torch.stack(parts).sum(0)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), r.clip)
        self.optimizer.step(self.rate(step), self._pool)
        right = [hit for one in results for hit in one.right]
        self.judged.append((loss, float(np.mean(right)), float(np.mean(evidence_attention))))
        self._grow(step + 1)

    def _grow(self, done: int) -> None:
        """All kinds of facts, then longer records, once the present ones are learned."""
        r = self.recipe
        learned = len(self.judged) == r.judged and self._mean(1) > r.enough
        late = done - self.grown >= r.patience * (1 if self.all_kinds else 4)
        if not (learned or late) or (self.all_kinds and self.lines >= r.lines[2]):
            return
        if self.all_kinds:
            self.lines = min(self.lines + r.grow, r.lines[2])
        self.all_kinds, self.grown = True, done
        self.judged.clear()

    def _mean(self, column: int) -> float:
        return float(np.mean([row[column] for row in self.judged])) if self.judged else math.nan

    def run(self, progress: Progress[Step] | None = None, checkpoint: Path | None = None) -> None:
        """Run the remaining steps with the attention for training examples."""
        self.network.set_attn_implementation(NAME)
        try:
            # Examples of a step are computed in parallel, each by one thread of torch: on one
            # machine any number of threads gives the same bits.
            with ThreadPoolExecutor(self.recipe.threads) as self._pool:
                super().run(progress, checkpoint)
        finally:
            self.network.set_attn_implementation("sdpa")

    def advance(self) -> Step:
        started = time.perf_counter()
        last = min(self.done + self.save_every, self.total)
        for step in range(self.done, last):
            self._update(step)
        means = (self._mean(0), self._mean(1), self._mean(2))
        return Step(last, *means, self.lines, time.perf_counter() - started)

    def identity(self) -> Any:
        # The number of steps or threads may change on resume: while the rate is constant, neither
        # changes a step.
        free = ("steps", "threads")
        recipe = {k: v for k, v in asdict(self.recipe).items() if k not in free}
        return [recipe, asdict(self.shape), self.tokenizer.to_str()]

    def state(self) -> dict[str, torch.Tensor]:
        curriculum = [self.lines, self.all_kinds, self.grown, self.recipe.steps]
        return {
            "judged": torch.tensor(list(self.judged), dtype=torch.float64),
            "curriculum": torch.tensor(curriculum),
        }

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        self.lines, all_kinds, self.grown, steps = state["curriculum"].tolist()
        self.all_kinds = bool(all_kinds)
        self.judged.clear()
        self.judged.extend(tuple(row) for row in state["judged"].tolist())
        if steps != self.recipe.steps and self.rate(self.done) != self.recipe.rate:
            raise ValueError(
                f"belongs to a training of {steps} steps whose learning rate is decaying"
            )


HASHED = ("config.json", "tokenizer.json", "tokenizer_config.json")


def ship(model: Any, tokenizer: Any, shape: Shape, recipe: Recipe, steps: int, folder: Path) -> str:
    """Write the reader into ``folder`` in the hub's format, its weights in half precision.

    Returns the SHA-256 of the weights' file, hex; its metadata hold the hashes of tokenizer and
    config, so it covers all.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(tokenizer, folder, shape.window)
    config: dict[str, Any] = {**model.config.to_dict(), "dtype": "float16"}
    config["architectures"] = ["Qwen2ForCausalLM"]
    for key in ("_name_or_path", "transformers_version"):
        config.pop(key, None)
    with replacing(folder / "config.json") as fresh:
        fresh.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in HASHED}
    metadata = {"recipe": asdict(recipe), "shape": asdict(shape), "steps": steps}
    # Tied weights are one tensor under two names; the hub keeps the first.
    state = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    half = {k: v.detach().to(torch.float16).contiguous().clone() for k, v in state.items()}
    weights = folder / "model.safetensors"
    with replacing(weights) as fresh:
        save_file(half, fresh, metadata={"format": "pt", "made": json.dumps(metadata), **hashes})
    return hashlib.sha256(weights.read_bytes()).hexdigest()
