"""Runs of kind ``gate``: gates trained on one split, examined on its test patients, side by side.

An item is a trained gate. It leaves a checkpoint after every epoch in the run's folder, so a run
that was cut off or cancelled goes on in the middle of a training.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from core.errors import SpecError, UnknownName, WorkFailed
from core.files import replacing
from core.gate.checkpoint import Gate
from core.gate.examples import Pairs, hashing_of
from core.gate.measures import fit_temperature
from core.gate.recipe import Epoch
from core.gate.scorer import Scorer
from core.gate.split import Split
from core.protocol import Protocol
from core.run.folder import Plan, now
from core.run.gating import tables as gate_tables
from core.run.gating.exam import Exam
from core.run.gating.rows import (
    VARIANTS,
    calibration_rows,
    curve_rows,
    score_rows,
    sitting_row,
)
from core.run.gating.training import Lessons, lessons, split_of
from core.run.gating.variants import GROUPS, Variant, variants
from core.run.job import Job, Row, Stopped, reason_of
from core.run.kind import KINDS, Kind, Table
from core.run.rows import blank, digest
from core.run.spec import Spec
from core.store import RowStore, Schema
from core.types import Cohort, Instruction

EPOCHS = 15


@KINDS.register("gate")
class GateRun(Kind):
    """Ablations and published faults of the QCCS gate (PROTOCOL, The QCCS gate)."""

    name, title = "gate", "The gate, ablated"
    fields: ClassVar[tuple[str, ...]] = ("variants", "epochs")
    schemas: ClassVar[Mapping[str, Schema]] = {"variants": VARIANTS}
    main, portion = "variants", "variant"

    def options(self, table: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        if "limit" in table:
            raise SpecError("a run of kind 'gate' takes no limit: it needs every patient")
        given = table.get("variants", list(GROUPS))
        if not isinstance(given, list | tuple) or not given:
            raise SpecError(
                f"'variants' of the spec is {given!r}; it takes a list of {', '.join(GROUPS)}"
            )
        chosen = cast("list[Any]", list(given))
        for name in chosen:
            if name not in GROUPS:
                raise UnknownName("group of gate variants", str(name), GROUPS)
        epochs = table.get("epochs", EPOCHS)
        if type(epochs) is not int or epochs < 1:
            raise SpecError(f"'epochs' of the spec is {epochs!r}; it takes a whole number from 1")
        return {"variants": [name for name in GROUPS if name in chosen], "epochs": epochs}

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        split_of(cohort, spec.protocol)
        return len(variants(spec.options["variants"], spec.protocol))

    def portions(self, cohort: Cohort, plan: Plan) -> list[str]:
        return [one.name for one in variants(plan.options["variants"], plan.protocol)]

    def execute(self, job: Job) -> None:
        _Pass(job).run()

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        rows = gate_tables.trained(store)
        return {
            "training": gate_tables.training(rows),
            "ablation": gate_tables.ablation(rows),
            "calibration": gate_tables.calibration(rows),
            "scores": gate_tables.scores(rows),
            "faults": gate_tables.faults(rows),
            "split": gate_tables.split(rows),
            "published": gate_tables.published(rows),
            "failures": gate_tables.failures(store),
        }

    def warnings(self, plan: Plan) -> list[str]:
        told = [
            "a positive is a sentence that shares a content word with the reference answer, so "
            "AUROC and recall measure shared words; evidence_recall counts the true evidence by id"
        ]
        if "ablation" in plan.options["variants"]:
            told.append(
                "a linear head adds one number to all sentences of a question alike: its ranking, "
                "and so its recall, cannot depend on the question"
            )
        return told


class _Pass:
    """One pass over the variants of a run."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.epochs: int = job.plan.options["epochs"]
        self.folder = job.folder / "training"
        self._lessons: dict[str, Lessons] = {}
        self._exam: Exam | None = None

    def run(self) -> None:
        """Train and examine every variant that is not there yet."""
        split = _saved(self.job.folder / "split.json", split_of(self.job.cohort, self.job.protocol))
        there = self.job.there("variants")
        for variant in variants(self.job.plan.options["variants"], self.job.protocol):
            if not self.job.mine(variant.name):
                continue
            item = digest(variant.name)
            checkpoint = self.folder / f"{item}.safetensors"
            if item not in there:
                self.job.append("variants", self._row(variant, item, checkpoint, split))
            checkpoint.unlink(missing_ok=True)

    def _row(self, variant: Variant, item: str, checkpoint: Path, split: Split) -> Row:
        row: Row = {
            **blank(VARIANTS),
            "key": digest(variant.name, repr(self.job.protocol), str(self.epochs)),
            "item": item,
            "variant": variant.name,
            **{
                name: getattr(variant, name)
                for name in ("ngram", "dim", "head", "query", "loss", "fault")
            },
        }
        try:
            row |= {"status": "ok", **self._train(variant, checkpoint, split)}
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - becomes the row's reason
            row |= {"status": "failed", "reason": reason_of(error)}
        return {**row, "time": now()}

    def _train(self, variant: Variant, checkpoint: Path, split: Split) -> Row:
        from core.gate.trainer import Trainer  # loads torch

        base, own = self.job.protocol, variant.protocol(self.job.protocol)
        drawn = self._drawn(own)
        if drawn.split != split:
            raise WorkFailed("the split of patients is not the one this run began with")
        config, recipe = variant.config(base), variant.recipe(base, self.epochs)

        def told(epoch: Epoch, epochs: int) -> bool:
            self.job.tell()
            return True

        begun = time.perf_counter()
        trainer = Trainer(config, drawn.train, drawn.validation, recipe)
        trainer.run(told, checkpoint)
        seconds = time.perf_counter() - begun
        temperature = fit_temperature(trainer.logits(drawn.validation), drawn.validation.label)
        gate = Gate(config, trainer.weights(), split, temperature)
        if self._exam is None:
            self._exam = Exam(self.job.cohort, split, base)
        sat = {
            salt: self._exam.sit(
                Scorer(
                    gate,
                    hashing_of(
                        dataclasses.replace(own, hash_salt=salt), variant.ngram, scoring=True
                    ),
                )
            )
            for salt in variant.salts(base)
        }
        first = next(iter(sat.values()))
        parts = (("train", drawn.train), ("validation", drawn.validation), ("test", drawn.test))
        return {
            "seconds": seconds,
            "temperature": temperature,
            "curve": curve_rows(trainer.curve),
            # The same draws of patients for every variant.
            "sittings": [
                sitting_row(salt, answers, base.resamples, np.random.default_rng(base.seed))
                for salt, answers in sat.items()
            ],
            "calibration": calibration_rows(first.logits, first.labels, temperature),
            "scores": score_rows(first.logits, first.labels),
            "split": [_part(name, split, pairs) for name, pairs in parts],
        }

    def _drawn(self, protocol: Protocol) -> Lessons:
        """The pairs under a protocol's rules, drawn once for all variants that share them."""
        rules = f"{protocol.gate_positives} {protocol.gate_negatives}"
        if rules not in self._lessons:
            self._lessons[rules] = lessons(self.job.cohort, protocol)
        return self._lessons[rules]


def _part(name: str, split: Split, drawn: Pairs) -> dict[str, Any]:
    return {
        "part": name,
        "patients": len(getattr(split, name)),
        "sentences": len(drawn),
        "positives": int(drawn.label.sum()),
    }


def _saved(path: Path, split: Split) -> Split:
    """The run's split, written down by its first pass and read, with its assertion, by later ones.

    Raises WorkFailed where the cohort now parts otherwise.
    """
    if not path.exists():
        with replacing(path) as fresh:
            fresh.write_text(json.dumps(dataclasses.asdict(split), indent=1) + "\n", "utf-8")
    raw = json.loads(path.read_text("utf-8"))
    saved = Split(**{name: tuple(ids) for name, ids in raw.items()})
    if saved != split:
        raise WorkFailed(f"{path}: the cohort's patients no longer part as this run began")
    return saved
