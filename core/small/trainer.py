"""Trains the small reader from lessons made as they are needed, a few beside each other.

Lesson ``number`` of the recipe's seed is always the same, and the state of a training is saved
whole; so a training that was cut off goes on exactly, on one machine in float32 to the last bit.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from core.checkpoints import identity_of, load_training, save_training
from core.errors import DataError, WorkFailed
from core.small.attending import NAME
from core.small.batches import beginnings, encode, foretell, right_answers
from core.small.network import Known, make_network
from core.small.optimizer import Mixed
from core.small.recipe import Progress, Recipe, Shape, Step
from core.small.tokens import BRACKET, END, PAD, dates_of, rarity, train_tokenizer
from core.synthetic.lessons import Lesson, LessonPlan, make_lesson
from core.synthetic.lessons.apart import require
from core.synthetic.lessons.readings import READINGS
from core.synthetic.lessons.tables import name_words

TOKENIZER_LESSONS = 300
"""Lessons that the tokenizer is trained on, and that are compared with what is examined."""


@dataclass(frozen=True, slots=True)
class _Learnt:
    """A lesson's gradient (of each parameter), loss, attention to the evidence, and whether each
    question was answered right."""

    gradient: tuple[torch.Tensor, ...]
    loss: float
    found: float
    right: list[bool]


class Trainer:
    """A training of ``shape`` by ``recipe``; raises WorkFailed where lessons are not apart."""

    def __init__(self, recipe: Recipe, shape: Shape | None = None) -> None:
        self.recipe, self.shape = recipe, shape or Shape()
        self.all_kinds = True
        first = [self._lesson(-1 - n, 30, 30) for n in range(TOKENIZER_LESSONS)]
        require(first)
        self.tokenizer = train_tokenizer(first, self.shape.words, name_words())
        end, pad = (self.tokenizer.token_to_id(token) for token in (END, PAD))
        vocabulary = self.tokenizer.get_vocab_size()
        known = None
        if recipe.start == "copying":
            rare = rarity(self.tokenizer, first[:50])
            bracket = self.tokenizer.token_to_id(BRACKET)
            known = Known(rare, dates_of(self.tokenizer), bracket, end)
        self.model = make_network(self.shape, vocabulary, end, pad, recipe.seed, known)
        self.optimizer = Mixed(self.model, recipe.rate, recipe.decay)
        self.step, self.lines, self.seconds = 0, recipe.lines[1], 0.0
        self.all_kinds, self.grown = False, 0
        self.judged: deque[tuple[float, ...]] = deque(maxlen=recipe.judged)

    def _size(self) -> int:
        """Lines of the lessons of the next step: of like length, no thread waits long."""
        r = self.recipe
        rng = np.random.default_rng([r.seed, self.step + 2**41])
        if self.lines >= r.lines[2] and float(rng.random()) < r.long_share:
            return int(rng.integers(r.lines[2], r.long + 1))
        return int(rng.integers(r.lines[0], self.lines + 1))

    def _lesson(self, number: int, size: int, lines: int) -> Lesson:
        """Lesson ``number``, of ``size`` lines, when those of most are ``lines``."""
        r = self.recipe
        rng = np.random.default_rng([r.seed, number + 2**40])
        grown = lines >= r.lines[2]
        # Lessons before the first are the tokenizer's, and have everything.
        plain = not self.all_kinds or (number >= 0 and float(rng.random()) < r.plain)
        falls = number // r.records >= r.steps * (1 - r.falling)
        others = min(r.distractors, 1) if lines < sum(r.lines[1:]) / 2 else r.distractors
        plan = LessonPlan(
            lines=(size, size),
            distractors=0 if plain else others,
            asked=r.asked[int(grown)],
            absent=r.absent[int(falls)],
            withheld=r.withheld[int(falls)],
            facts=float(rng.uniform(*r.facts)) if number >= 0 and grown else r.facts[1],
            made_up=r.made_up[int(grown)],
            kinds=r.kinds if self.all_kinds else tuple(READINGS),
            latest=r.latest if falls else 0.0,
        )
        return make_lesson(rng, plan)

    def rate(self, step: int) -> float:
        """The learning rate of a step: warm-up, level, and straight down over the last part."""
        r = self.recipe
        if step < r.warm_up:
            return r.rate * (step + 1) / r.warm_up
        falls = max(r.steps * r.falling, 1.0)
        return r.rate * max(min((r.steps - step) / falls, 1.0), r.least)

    def _learn(self, taught: Lesson) -> _Learnt:
        """What one lesson teaches; lessons of a step are learnt beside each other."""
        r = self.recipe
        lesson = encode(self.tokenizer, taught, r.whole)
        with torch.autocast("cpu", torch.bfloat16, enabled=r.half):
            foretold = foretell(self.model, lesson)
        each = F.cross_entropy(
            foretold.logits.float(), torch.from_numpy(lesson.wanted), reduction="none"
        )
        early = torch.from_numpy(beginnings(lesson))
        # Half the loss is that of beginnings: of the rest, most follows from them.
        loss = each.mean() + each[early].mean()
        found = (foretold.found.mean() + foretold.found[:, early].mean()) / 2
        whole = loss - r.guide * (found + foretold.told.mean())
        gradient = torch.autograd.grad(whole / r.records, list(self.model.parameters()))
        share = float(foretold.found.detach()[:, early].exp().mean())
        right = right_answers(foretold.logits.detach(), lesson)
        return _Learnt(gradient, float(loss.detach()), share, right)

    def _taught(self, number: int, size: int, lines: int) -> _Learnt:
        return self._learn(self._lesson(number, size, lines))

    def _update(self, pool: ThreadPoolExecutor) -> None:
        r = self.recipe
        first = self.step * r.records
        size = self._size()
        begun = [pool.submit(self._taught, first + i, size, self.lines) for i in range(r.records)]
        learnt = [one.result() for one in begun]
        if not all(math.isfinite(one.loss) for one in learnt):
            raise WorkFailed(f"training came to a loss that is no number at step {self.step + 1}")
        for parameter, *parts in zip(
            self.model.parameters(), *(one.gradient for one in learnt), strict=True
        ):
            parameter.grad = torch.stack(parts).sum(0)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), r.clip)
        self.optimizer.step(self.rate(self.step), pool)
        self.step += 1
        right = [hit for one in learnt for hit in one.right]
        losses, found = ([getattr(one, name) for one in learnt] for name in ("loss", "found"))
        self.judged.append((float(np.mean(losses)), float(np.mean(right)), float(np.mean(found))))
        self._grow()

    def _grow(self) -> None:
        """All kinds of facts, and then longer records, once the present ones are learned."""
        r = self.recipe
        learned = len(self.judged) == r.judged and self._mean(1) > r.enough
        late = self.step - self.grown >= r.patience * (1 if self.all_kinds else 4)
        if not (learned or late) or (self.all_kinds and self.lines >= r.lines[2]):
            return
        if self.all_kinds:
            self.lines = min(self.lines + r.grow, r.lines[2])
        self.all_kinds, self.grown = True, self.step
        self.judged.clear()

    def _mean(self, column: int) -> float:
        return float(np.mean([row[column] for row in self.judged])) if self.judged else math.nan

    def run(
        self,
        checkpoint: Path | None = None,
        progress: Progress | None = None,
        every: int = 50,
        until: int | None = None,
    ) -> None:
        """All steps that are left, or those up to ``until``.

        ``checkpoint``: a file to go on from and to keep, every ``every`` steps. Raises WorkFailed
        for a loss that is no number, DataError for a checkpoint of another training.
        """
        if checkpoint is not None and checkpoint.exists():
            self.load(checkpoint)
        threads = torch.get_num_threads()
        # Lessons are learnt at the same time, each by one thread: on one machine the same bits
        # with any number of threads.
        torch.set_num_threads(1)
        pool = ThreadPoolExecutor(self.recipe.threads)
        self.model.train()
        self.model.set_attn_implementation(NAME)
        begun, before = time.perf_counter(), self.seconds
        first = self.step
        last = min(self.recipe.steps, until if until is not None else self.recipe.steps)
        try:
            while self.step < last:
                self._update(pool)
                spent = time.perf_counter() - begun
                self.seconds = before + spent
                if progress is not None and (self.step % 10 == 0 or self.step == last):
                    left = spent / (self.step - first) * (self.recipe.steps - self.step)
                    progress(self._told(left))
                if checkpoint is not None and (self.step % every == 0 or self.step == last):
                    self.save(checkpoint)
        finally:
            pool.shutdown()
            torch.set_num_threads(threads)
            self.model.eval()
            self.model.set_attn_implementation("sdpa")

    def _told(self, left: float) -> Step:
        means = (self._mean(0), self._mean(1), self._mean(2))
        return Step(self.step, self.recipe.steps, *means, self.lines, self.seconds, left)

    def _identity(self) -> str:
        # More steps or threads may be wanted on the way: while the rate is level, neither changes
        # what a step is.
        free = ("steps", "threads")
        recipe = {k: v for k, v in asdict(self.recipe).items() if k not in free}
        return identity_of([recipe, asdict(self.shape), self.tokenizer.to_str()])

    def save(self, path: Path) -> None:
        """The whole state, in one file, put in place at once."""
        # Tied weights are one tensor under two names.
        state = {k: v for k, v in self.model.state_dict().items() if k != "lm_head.weight"}
        tensors: dict[str, Any] = {f"now.{k}": v for k, v in state.items()}
        tensors["judged"] = torch.tensor([list(row) for row in self.judged], dtype=torch.float64)
        told = {
            "steps": str(self.recipe.steps),
            "where": json.dumps([self.step, self.lines, self.seconds, self.all_kinds, self.grown]),
        }
        save_training(path, self._identity(), tensors, self.optimizer, told)

    def load(self, path: Path) -> None:
        """Go on from a saved state; raises DataError for one of another training."""
        saved = load_training(path, self._identity())
        where = json.loads(saved.said["where"])
        self.step, self.lines, self.seconds, self.all_kinds, self.grown = where
        if self.rate(self.step) != self.recipe.rate and saved.said.get("steps") != str(
            self.recipe.steps
        ):
            reason = "was left by a training of another length whose rate has begun to change"
            raise DataError(str(path), None, reason, "delete it to begin anew")
        self.model.load_state_dict(saved.under("now."), strict=False)
        saved.put_back(self.optimizer)
        self.judged.clear()
        self.judged.extend(tuple(row) for row in saved.tensors["judged"].tolist())
