"""One pass over an inhibition run: train, examine and write down every decoder not there yet."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from core.inhibition.config import Recipe, Stage
from core.run.inhibition.rows import MODELS, attended_rows, cell_rows, stage_rows
from core.run.inhibition.spec import decoder_of, measures_of, recipe_of
from core.run.job import Job, Row
from core.run.rows import digest, number
from core.run.training_jobs import TrainingJobs, lasting
from core.store import Schema
from core.training import TimeLeft


@dataclass(frozen=True, slots=True)
class Item:
    """A decoder to train: a variant (as a plan holds it), a placement and a seed."""

    variant: Mapping[str, Any]
    placement: str
    seed: int

    @property
    def label(self) -> str:
        """The variant's label."""
        return self.variant["label"]

    @property
    def name(self) -> str:
        """The item's name in rows and files."""
        return digest(self.label, self.placement, str(self.seed))


def items(options: Mapping[str, Any]) -> list[Item]:
    """Every decoder of a run. Seed by seed, so that a run cut short can compare all variants."""
    return [
        Item(variant, placement, seed)
        for seed in options["seeds"]
        for placement in options["placements"]
        for variant in options["variants"]
    ]


class Pass(TrainingJobs[Item]):
    """One pass over the decoders of a run."""

    table: ClassVar[str] = "models"
    schema: ClassVar[Schema] = MODELS

    def __init__(self, job: Job) -> None:
        super().__init__(job, items(job.plan.options))
        self._time_left, self._examining = TimeLeft(), 0.0

    def columns(self, one: Item) -> Row:
        return {
            "variant": one.label,
            "attention": one.variant["name"],
            "placement": one.placement,
            "seed": one.seed,
        }

    def train(self, one: Item, row: Row, checkpoint: Path, later: Sequence[Item]) -> None:
        from core.inhibition.measure import gate_quality, measure  # these load torch
        from core.inhibition.network import own_parameters, strengths
        from core.inhibition.trainer import DecoderTrainer

        recipe = recipe_of(self.options, one.variant, one.placement, one.seed)
        trainer = DecoderTrainer(
            decoder_of(self.options, one.variant), recipe, self.options["device"] or None
        )
        trainer.run(lambda stage, _: self._told(one, stage, recipe, len(later)), checkpoint)
        begun = time.perf_counter()
        plan = measures_of(self.options)

        def told(done: int, of: int) -> None:
            self.job.watch(f"{_named(one)}: examined at {done} of {of} places")

        cells = measure(trainer, plan, told)
        gate = gate_quality(trainer, plan)
        self._examining = time.perf_counter() - begun
        own, added = own_parameters(trainer.network)
        last = trainer.history[-1]
        row |= {
            "parameters": own,
            "added_parameters": added,
            "loss": number(last.loss),
            "training_accuracy": number(last.accuracy),
            "seconds": sum(stage.seconds for stage in trainer.history),
            "device": str(trainer.device),
            "stages": stage_rows(trainer.history),
            "strength": strengths(trainer.network),
            "gate": None if gate is None else asdict(gate),
            "cells": cell_rows(cells),
            "attended": attended_rows(cells),
        }

    def _told(self, item: Item, stage: Stage, recipe: Recipe, later: int) -> bool:
        """Report progress and how long the rest of this pass may take."""
        steps = stage.step % recipe.save_every or recipe.save_every
        remaining = recipe.steps - stage.step + later * recipe.steps
        left = self._time_left.after(steps, stage.seconds, remaining)
        left += (later + 1) * self._examining
        self.job.watch(
            f"{_named(item)}: step {stage.step} of {recipe.steps}, {100 * stage.accuracy:.0f} % "
            f"right in training; about {lasting(left)} left for this run"
        )
        return True


def _named(item: Item) -> str:
    return f"{item.label}, {item.placement}, seed {item.seed}"
