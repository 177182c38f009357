"""Experiment ``inhibition``: does attention that can subtract read a long record more evenly?

A work item is a decoder trained from scratch and evaluated with needles: variant × placement of the
evidence in training × seed. A training writes checkpoints, from which a resumed run continues. The
run generates its records and needs no cohort.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from midchart.core.format import about_left, finite, time_left
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.experiment import Experiment, Table
from midchart.core.runs.job import Job, Row, TrainingJobs
from midchart.core.runs.plan import Plan, Spec
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.training import history_rows
from midchart.core.types import Cohort, Instruction
from midchart.extras.lab.inhibition import tables as inhibition_tables
from midchart.extras.lab.inhibition import views
from midchart.extras.lab.inhibition.spec import (
    InhibitionOptions,
    Stage,
    decoder_of,
    measures_of,
    recipe_of,
)
from midchart.extras.lab.inhibition.tables import MODELS, attended_rows


@dataclass(frozen=True, slots=True)
class DecoderItem:
    """A decoder to train: a variant (as in a plan), a placement and a seed."""

    variant: Mapping[str, Any]
    placement: str
    seed: int

    @property
    def name(self) -> str:
        """The item's name in rows and files."""
        return digest(self.variant["label"], self.placement, str(self.seed))

    def __str__(self) -> str:
        return f"{self.variant['label']}, {self.placement}, seed {self.seed}"


def items(options: Mapping[str, Any]) -> list[DecoderItem]:
    """Every decoder of a run, seed by seed, so that an incomplete run can compare all variants."""
    return [
        DecoderItem(variant, placement, seed)
        for seed in options["seeds"]
        for placement in options["placements"]
        for variant in options["variants"]
    ]


class InhibitionJobs(TrainingJobs[DecoderItem]):
    """One pass over the decoders of a run."""

    table: ClassVar[str] = "models"
    schema: ClassVar[Schema] = MODELS

    def __init__(self, job: Job) -> None:
        super().__init__(job, items(job.plan.options))
        self._timed, self._evaluation_seconds = (0, 0.0), 0.0

    def columns(self, one: DecoderItem) -> Row:
        return {
            "variant": one.variant["label"],
            "attention": one.variant["name"],
            "placement": one.placement,
            "seed": one.seed,
        }

    def train(
        self, one: DecoderItem, row: Row, checkpoint: Path, later: Sequence[DecoderItem]
    ) -> None:
        from midchart.extras.lab.inhibition.training import (
            DecoderTrainer,
            evaluate,
            gate_quality,
            own_parameters,
            strengths,
        )

        # Train, with the time left of this run.
        recipe = recipe_of(self.options, one.variant, one.placement, one.seed)
        config, device = decoder_of(self.options, one.variant), self.options["device"] or None
        trainer = DecoderTrainer(config, recipe, device)

        def report(stage: Stage, of: int) -> bool:
            steps = stage.step % recipe.save_every or recipe.save_every
            remaining = of - stage.step + len(later) * of
            self._timed = self._timed[0] + steps, self._timed[1] + stage.seconds
            left = time_left(*self._timed, remaining)
            if left is not None:
                left += (len(later) + 1) * self._evaluation_seconds
            self.job.watch(
                f"{one}: step {stage.step} of {of}, {100 * stage.accuracy:.0f} % correct in "
                f"training{about_left(left, 'for this run')}"
            )
            return True

        trainer.run(report, checkpoint)
        # Evaluate at every length, number of distractors and depth.
        start, plan = time.perf_counter(), measures_of(self.options)
        cells = evaluate(
            trainer,
            plan,
            lambda done, of: self.job.watch(f"{one}: evaluated at {done} of {of} positions"),
        )
        gate = gate_quality(trainer, plan)
        self._evaluation_seconds = time.perf_counter() - start
        parameters, added = own_parameters(trainer.network)
        last = trainer.history[-1]
        row |= {
            "parameters": parameters,
            "added_parameters": added,
            "loss": finite(last.loss),
            "training_accuracy": finite(last.accuracy),
            "seconds": sum(stage.seconds for stage in trainer.history),
            "device": str(trainer.device),
            "stages": history_rows(trainer.history),
            "strength": strengths(trainer.network),
            "gate": gate,
            "cells": [
                {
                    "length": cell.length,
                    "distractors": cell.distractors,
                    "depth": cell.depth,
                    "correct": cell.correct.tolist(),
                }
                for cell in cells
            ],
            "attended": attended_rows(cells),
        }


class InhibitionRun(Experiment):
    """Small decoders that differ in their attention alone, compared by the needle's depth."""

    name, title = "inhibition", "Inhibition, attentions compared in reading"
    views = views.VIEWS
    options_model = InhibitionOptions
    refuses: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("limit", "part"), "it makes its own records"
    )
    schemas: ClassVar[Mapping[str, Schema]] = {"models": MODELS}
    main, shard = "models", "item"
    gpu = True
    makes_records, has_evidence = True, False

    def options(self, table: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        measures = table.get("measures", {})
        if isinstance(measures, Mapping):
            measures = {"seed": protocol.seed, **measures}
        return super().options({**table, "measures": measures}, protocol)

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        return len(items(spec.options))

    def shards(self, cohort: Cohort, plan: Plan) -> list[str]:
        return [one.name for one in items(plan.options)]

    def execute(self, job: Job) -> None:
        InhibitionJobs(job).run()

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        return views.conclusion(report)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return inhibition_tables.tables(store, plan.options, plan.protocol)

    def warnings(self, plan: Plan) -> list[str]:
        options = plan.options
        decoder, seeds = options["decoder"], len(options["seeds"])
        warnings = [
            "synthetic records in a vocabulary of their own, and decoders of "
            f"{decoder['layers']} layers of width {decoder['dim']}: results need not generalise "
            "to a large model, in either direction",
            "variants have the same decoder, data and steps; what a variant adds (λ and norms, and "
            "the gate's own network and labels) comes on top: added_parameters",
            f"records have at most {options['training']['longest']} lines in training; longer ones "
            "test extrapolation",
        ]
        if any("gated" in variant["name"] for variant in options["variants"]):
            warnings.append(
                "a gate is trained with the line of the evidence, which the other variants must "
                "infer by answering: a gain of a gated variant may be due to these labels and not "
                "to inhibition; where λ is negative (table strength) it adds instead of subtracting"
            )
        if seeds < 5:
            warnings.append(
                f"{seeds} seeds: an interval over so few is too narrow; nothing is claimed that "
                "not every seed shows"
            )
        return warnings
