"""Experiment ``forecast``: attentions compared fairly on laboratory forecasts (Experiment 2).

A work item is a trained and evaluated model: task × variant × seed, and the baselines of each
task. A training writes a checkpoint after every epoch, from which a resumed run continues.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.cohorts.labelled import labelled
from midchart.core.errors import UnknownName
from midchart.core.format import about_left, finite, time_left
from midchart.core.loaders.open import refuse_untrainable
from midchart.core.provenance import digest
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table
from midchart.core.runs.job import Job, Row, TrainingJobs
from midchart.core.runs.plan import Plan, Spec
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.training import history_rows
from midchart.core.training_experiments.forecast import tables as forecast_tables
from midchart.core.training_experiments.forecast import views
from midchart.core.training_experiments.forecast.evaluation import (
    PREDICTIONS,
    evaluation_row,
    sparsity,
    stages,
    write_predictions,
)
from midchart.core.training_experiments.forecast.examples import Examples, examples, fit, shuffled
from midchart.core.training_experiments.forecast.spec import (
    EncoderRecipe,
    Epoch,
    ForecastOptions,
    collapsed,
    most_of,
)
from midchart.core.training_experiments.forecast.tables import MODELS
from midchart.core.training_experiments.measures import calibration_rows
from midchart.core.types import Cohort, Instruction

PERMITTED = "EHRSHOT's agreement permits it on your own machine: "


@dataclass(frozen=True, slots=True)
class ForecastItem:
    """A model to fit: a variant (as in a plan) with a seed, or a baseline (neither)."""

    task: str
    label: str
    variant: Mapping[str, Any] | None = None
    seed: int | None = None

    @property
    def name(self) -> str:
        """The item's name in rows and files."""
        return digest(self.task, self.label, "" if self.seed is None else str(self.seed))


def items(options: Mapping[str, Any], cohort: Cohort) -> list[ForecastItem]:
    """Every model of a run: for each task the baselines, which are fast, and the variants.

    A spec that names no task means all; "anemia" is short for "lab_anemia", as EHRSHOT's folders
    name it. Raises UnknownName for a task that the cohort lacks, DataError for a cohort without
    labels.
    """
    known = labelled(cohort).tasks
    tasks = [
        f"lab_{task}" if task not in known and f"lab_{task}" in known else task
        for task in options["tasks"] or known
    ]
    models: list[ForecastItem] = []
    for task in dict.fromkeys(tasks):
        if task not in known:
            raise UnknownName("task", task, known)
        models += [ForecastItem(task, name) for name in options["baselines"]]
        for variant in options["variants"]:
            models += [
                ForecastItem(task, variant["label"], variant, seed) for seed in options["seeds"]
            ]
    return models


class ForecastJobs(TrainingJobs[ForecastItem]):
    """One pass over the models of a run."""

    table: ClassVar[str] = "models"
    schema: ClassVar[Schema] = MODELS

    def __init__(self, job: Job) -> None:
        super().__init__(job, items(job.plan.options, job.cohort))
        self._examples: tuple[tuple[str, str], Examples] | None = None
        self._timed = 0, 0.0  # epochs, and seconds that they took

    def columns(self, one: ForecastItem) -> Row:
        return {
            "task": one.task,
            "variant": one.label,
            "attention": one.variant["name"] if one.variant else None,
            "seed": one.seed,
        }

    def train(
        self, one: ForecastItem, row: Row, checkpoint: Path, later: Sequence[ForecastItem]
    ) -> None:
        data = self._load(one.task, one.variant["split"] if one.variant else "official")
        refuse_untrainable(self.job.cohort, PERMITTED)  # the tag or the files may have changed
        row["tokens"] = data.vocabulary.size
        row["splits"] = [
            {
                "split": name,
                "n": len(part),
                "positive": part.positive,
                "patients": len(np.unique(part.patient)),
            }
            for name, part in data.parts
        ]
        if one.variant is None:
            row |= self._baseline(one, data)
        else:
            row |= self._model(one, one.variant, data, checkpoint, later)

    def _load(self, task: str, split: str) -> Examples:
        if self._examples is None or self._examples[0] != (task, split):
            self._examples = None  # two tasks at once may not fit into memory
            self.job.watch(f"{task}: events before each label")
            data, protocol = labelled(self.job.cohort), self.job.protocol
            store = data.store(
                lambda done, of: self.job.watch(f"events read in: {100 * done // max(1, of)} %")
            )
            labels = data.labels(task)
            loaded = examples(
                store,
                labels if split == "official" else shuffled(labels, protocol.seed),
                with_values=self.options["values"],
                most=most_of(self.options),
                seed=protocol.seed,
                prediction_time=protocol.prediction_time,
                length=self.options["length"],
            )
            self._examples = ((task, split), loaded)
        return self._examples[1]

    def _baseline(self, item: ForecastItem, data: Examples) -> Row:
        self.job.watch(f"{item.task}: {item.label}")
        start = time.perf_counter()
        fitted = fit(item.label, data, self.job.protocol.seed)
        seconds = time.perf_counter() - start
        return self._evaluate(item, data, fitted.held_out) | {
            "tuning_auroc": finite(fitted.tuning_auroc),
            "best_epoch": fitted.best + 1,
            "seconds": seconds,
            "device": "cpu",
            "calibration": calibration_rows(
                {"raw": fitted.held_out}, data.held_out.label, data.held_out.patient
            ),
        }

    def _evaluate(self, item: ForecastItem, data: Examples, scores: NDArray[np.float64]) -> Row:
        row, ranking = evaluation_row(data.held_out, scores, self.job.protocol)
        write_predictions(self.job.folder, item.name, data.held_out, scores, ranking)
        return row

    def _model(
        self,
        item: ForecastItem,
        variant: Mapping[str, Any],
        data: Examples,
        checkpoint: Path,
        later: Sequence[ForecastItem],
    ) -> Row:
        from midchart.core.training_experiments.forecast.training import (
            EncoderConfig,
            ForecastTrainer,
            save_model,
        )

        # Configuration of the network and of its training.
        assert item.seed is not None
        options = self.options
        config = EncoderConfig(
            data.vocabulary.size,
            variant["name"],
            dict(variant["options"]),
            options["length"],
            **{**options["encoder"], **variant["encoder"]},
        )
        recipe = EncoderRecipe(
            epochs=options["epochs"],
            seed=item.seed,
            gate_training=variant["gate"],
            gate_loss=variant["loss"],
            gate_epochs=options["epochs"],
            clip=variant["clip"],
            choose=variant["choose"],
        )
        cohort = labelled(self.job.cohort)
        names = cohort.store().words("code")
        texts = tuple(
            cohort.name_of(names[code]) if code else ""
            for code in data.vocabulary.code_of().tolist()
        )
        question, device = question_of(item.task), options["device"] or None

        def report(epoch: Epoch, of: int) -> bool:
            models = sum(one.variant is not None for one in later)
            self._timed = self._timed[0] + 1, self._timed[1] + epoch.seconds
            left = time_left(*self._timed, of - epoch.epoch + models * of)
            self.job.watch(
                f"{item.task}, {item.label}, seed {item.seed}: epoch {epoch.epoch} of {of}, tuning "
                f"AUROC {epoch.tuning_auroc:.3f}{about_left(left, 'for this run')}"
            )
            return True

        trainer = ForecastTrainer(data, config, recipe, question, texts, device)
        trainer.run(report, checkpoint)
        # Evaluate on held-out patients.
        logits = trainer.logits(data.held_out)
        mean, sd = trainer.gate_spread(data.held_out)
        gate = {"mean": mean, "sd": sd, "collapsed": collapsed(mean, sd)}
        save_model(self.job.folder / "forecast", item.name, trainer, data.vocabulary)
        best = trainer.best_epoch
        return self._evaluate(item, data, logits.astype(np.float64)) | {
            "tuning_auroc": finite(best.tuning_auroc),
            "best_epoch": best.epoch,
            "seconds": sum(epoch.seconds for epoch in trainer.history),
            "device": str(trainer.device),
            "parameters": sum(p.numel() for p in trainer.network.parameters()),
            "epochs": history_rows(trainer.history),
            "calibration": calibration_rows(
                stages(logits, trainer.weight), data.held_out.label, data.held_out.patient
            ),
            "gate": None if math.isnan(mean) else gate,
            "sparsity": sparsity(data.held_out.tokens, trainer.last_maps),
        }


def question_of(task: str) -> str:
    """The question that a gate scores events for."""
    name = task.removeprefix("lab_").replace("_", " ")
    return f"Will the next result show {name}?"


@EXPERIMENTS.register("forecast")
class ForecastRun(Experiment):
    """Attentions and counts compared on the same labels (docs/methods.md, Experiment 2)."""

    name, title = "forecast", "Forecasts, attentions compared"
    views = views.VIEWS
    options_model = ForecastOptions
    refuses: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("limit", "part"),
        "it uses the official split; 'subsample' takes so many labels a split",
    )
    schemas: ClassVar[Mapping[str, Schema]] = {"models": MODELS}
    predictions: ClassVar[Mapping[str, Schema]] = PREDICTIONS
    main, shard = "models", "item"
    gpu, has_evidence = True, False

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        models = items(spec.options, cohort)
        refuse_untrainable(cohort, PERMITTED)
        return len(models)

    def shards(self, cohort: Cohort, plan: Plan) -> list[str]:
        return [one.name for one in items(plan.options, cohort)]

    def execute(self, job: Job) -> None:
        refuse_untrainable(job.cohort, PERMITTED)  # the tag may have changed since it was planned
        ForecastJobs(job).run()

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        return views.conclusion(report, chosen.get("task", ""))

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return forecast_tables.tables(store, plan.options, plan.protocol)

    def warnings(self, plan: Plan) -> list[str]:
        warnings = [
            "ci_low and ci_high resample patients; hm_low and hm_high (Hanley and McNeil, as in "
            "the paper) treat the labels of one patient as independent and are too narrow",
            "the paper's table mixes splits and swaps three prevalences: anemia 69.0 %, "
            "hyponatremia 28.5 %, thrombocytopenia 33.2 % are the true ones",
        ]
        variants = plan.options["variants"]
        other_split = ", ".join(one["label"] for one in variants if one.get("split") == "random")
        if other_split:
            warnings.append(
                f"evaluated on patients of another split, and compared with no other: {other_split}"
            )
        most = most_of(plan.options)
        if any(most.values()):
            used = ", ".join(f"{n:,} {split}" for split, n in most.items() if n)
            warnings.append(
                f"labels were limited, drawn at random: {used}; "
                "a small training part favours counts over sequence models"
            )
        return warnings
