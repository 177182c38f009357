"""One pass over an inhibition run: train, examine and write down every decoder not there yet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.inhibition.shape import Recipe, Stage
from core.run.folder import now
from core.run.inhibition.rows import MODELS, attended_rows, cell_rows, number, stage_rows
from core.run.inhibition.spec import decoder_of, measures_of, recipe_of
from core.run.job import Job, Row, Stopped, reason_of
from core.run.rows import blank, digest


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


class Pass:
    """One pass over the decoders of a run."""

    def __init__(self, job: Job) -> None:
        self.job, self.options = job, dict(job.plan.options)
        there = job.there("models")
        self.todo = [
            one for one in items(self.options) if one.name not in there and job.mine(one.name)
        ]
        self._steps, self._seconds, self._examining = 0, 0.0, 0.0

    def run(self) -> None:
        """Train and examine what is left."""
        for at, item in enumerate(self.todo):
            self.job.append("models", self._row(item, at))
            self._checkpoint(item).unlink(missing_ok=True)

    def _checkpoint(self, item: Item) -> Path:
        return self.job.folder / "training" / f"{item.name}.safetensors"

    def _row(self, item: Item, at: int) -> Row:
        row: Row = {
            **blank(MODELS),
            "key": digest(item.name, repr(self.job.protocol), repr(sorted(self.options.items()))),
            "item": item.name,
            "variant": item.label,
            "attention": item.variant["name"],
            "placement": item.placement,
            "seed": item.seed,
        }
        try:
            row |= self._trained(item, at)
            row["status"] = "ok"
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - becomes the row's reason
            row |= {"status": "failed", "reason": reason_of(error)}
        return {**row, "time": now()}

    def _trained(self, item: Item, at: int) -> Row:
        from core.inhibition.measure import gate_quality, measure  # these load torch
        from core.inhibition.network import own_parameters, strengths
        from core.inhibition.trainer import Trainer

        recipe = recipe_of(self.options, item.placement, item.seed)
        trainer = Trainer(
            decoder_of(self.options, item.variant), recipe, self.options["device"] or None
        )
        trainer.run(lambda stage, _: self._told(item, stage, recipe, at), self._checkpoint(item))
        begun = time.perf_counter()
        plan = measures_of(self.options)

        def told(done: int, of: int) -> None:
            self.job.watch(f"{_named(item)}: examined at {done} of {of} places")

        cells = measure(trainer, plan, told)
        gate = gate_quality(trainer, plan)
        self._examining = time.perf_counter() - begun
        own, added = own_parameters(trainer.network)
        last = trainer.stages[-1]
        return {
            "parameters": own,
            "added_parameters": added,
            "loss": number(last.loss),
            "training_accuracy": number(last.accuracy),
            "seconds": sum(one.seconds for one in trainer.stages),
            "device": str(trainer.device),
            "stages": stage_rows(trainer.stages),
            "strength": strengths(trainer.network),
            "gate": None if gate is None else asdict(gate),
            "cells": cell_rows(cells),
            "attended": attended_rows(cells),
        }

    def _told(self, item: Item, stage: Stage, recipe: Recipe, at: int) -> bool:
        """Tell how far it is and how long the rest may take, by the steps of this pass."""
        self._steps += stage.step % recipe.save_every or recipe.save_every
        self._seconds += stage.seconds
        later = len(self.todo) - at - 1
        steps = recipe.steps - stage.step + later * recipe.steps
        left = steps * self._seconds / self._steps + (later + 1) * self._examining
        self.job.watch(
            f"{_named(item)}: step {stage.step} of {recipe.steps}, {100 * stage.accuracy:.0f} % "
            f"right in training; about {_shown(left)} left for this run"
        )
        return True


def _named(item: Item) -> str:
    return f"{item.label}, {item.placement}, seed {item.seed}"


def _shown(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
