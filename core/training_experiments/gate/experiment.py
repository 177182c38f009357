"""Experiment ``gate``: gates trained on one split and evaluated on its test patients.

A work item is a trained gate. A training writes a checkpoint after every epoch, from which a
resumed run continues.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from midchart.core.gate.checkpoint import Gate, GateEpoch
from midchart.core.gate.cohort_training import SplitPairs, split_of, split_pairs
from midchart.core.gate.examples import hashing_of
from midchart.core.gate.measures import fit_temperature
from midchart.core.gate.scoring import Scorer
from midchart.core.options import Chosen, Count, Known, Options
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table
from midchart.core.runs.job import Job, Row, TrainingJobs
from midchart.core.runs.plan import Plan, Spec
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.training import history_rows
from midchart.core.training_experiments.gate import views
from midchart.core.training_experiments.gate.evaluation import (
    GROUPS,
    VARIANTS,
    Evaluation,
    Variant,
    evaluation_columns,
    evaluation_row,
    gate_tables,
    reliability_rows,
    score_rows,
    variants,
)
from midchart.core.types import Cohort, Instruction


class GateJobs(TrainingJobs[Variant]):
    """One pass over the variants of a run."""

    table: ClassVar[str] = "variants"
    schema: ClassVar[Schema] = VARIANTS

    def __init__(self, job: Job) -> None:
        super().__init__(job, variants(job.plan.options["variants"], job.protocol))
        self.split = split_of(job.cohort, job.protocol)
        self._pairs: dict[tuple[str, str], SplitPairs] = {}
        self._evaluation: Evaluation | None = None

    def item(self, one: Variant) -> str:
        return digest(one.name)

    def key_text(self) -> str:
        return str(self.options["epochs"])

    def columns(self, one: Variant) -> Row:
        names = ("ngram", "dim", "head", "query", "loss", "fault")
        return {"variant": one.name, **{name: getattr(one, name) for name in names}}

    def train(self, one: Variant, row: Row, checkpoint: Path, later: Sequence[Variant]) -> None:
        from midchart.core.gate.training import GateTrainer

        # Train on this variant's pairs.
        base, protocol = self.job.protocol, one.protocol(self.job.protocol)
        data = self._load(protocol)
        config, recipe = one.config(base), one.recipe(base, self.options["epochs"])

        def report(epoch: GateEpoch, epochs: int) -> bool:
            self.job.notify()
            return True

        start = time.perf_counter()
        trainer = GateTrainer(config, data.train, data.validation, recipe)
        trainer.run(report, checkpoint)
        seconds = time.perf_counter() - start
        # Evaluate with each salt of the hash.
        temperature = fit_temperature(trainer.logits(data.validation), data.validation.label)
        gate = Gate(config, trainer.weights(), self.split, temperature)
        if self._evaluation is None:
            self._evaluation = Evaluation(self.job.cohort, self.split, base)
        answers = {
            salt: self._evaluation.evaluate(
                Scorer(
                    gate,
                    hashing_of(
                        dataclasses.replace(protocol, hash_salt=salt), one.ngram, scoring=True
                    ),
                )
            )
            for salt in one.salts(base)
        }
        first = next(iter(answers.values()))
        parts = {"train": data.train, "validation": data.validation, "test": data.test}
        row |= {
            "seconds": seconds,
            "temperature": temperature,
            "curve": history_rows(trainer.history),
            # The same draws of patients for every variant.
            **evaluation_columns(evaluation_row(salt, one, base) for salt, one in answers.items()),
            "calibration": reliability_rows(first, temperature),
            "scores": score_rows(first),
            "split": [
                {
                    "part": name,
                    "patients": len(getattr(self.split, name)),
                    "sentences": len(pairs),
                    "positives": int(pairs.label.sum()),
                }
                for name, pairs in parts.items()
            ],
        }

    def _load(self, protocol: Protocol) -> SplitPairs:
        """The pairs under a protocol's rules, drawn once for all variants that share them."""
        rules = protocol.gate_positives, protocol.gate_negatives
        if rules not in self._pairs:
            self._pairs[rules] = split_pairs(self.job.cohort, protocol, self.split)
        return self._pairs[rules]


class GateOptions(Options):
    """The fields of kind ``gate``."""

    variants: Chosen[Annotated[str, Known("group of gate variants", lambda: GROUPS)]] = GROUPS
    """Groups of variants to train."""
    epochs: Count = 15
    """Epochs of each training."""

    def plan(self) -> dict[str, Any]:
        chosen = [name for name in GROUPS if name in self.variants]
        return {"variants": chosen, "epochs": self.epochs}


@EXPERIMENTS.register("gate")
class GateRun(Experiment):
    """Ablations and published faults of the QCCS gate (docs/methods.md, The QCCS gate)."""

    name, title = "gate", "The gate, ablated"
    views = views.VIEWS
    options_model = GateOptions
    refuses: ClassVar[Mapping[str, str]] = {"limit": "it needs every patient"}
    schemas: ClassVar[Mapping[str, Schema]] = {"variants": VARIANTS}
    main, shard = "variants", "variant"

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        split_of(cohort, spec.protocol)
        return len(variants(spec.options["variants"], spec.protocol))

    def shards(self, cohort: Cohort, plan: Plan) -> list[str]:
        return [one.name for one in variants(plan.options["variants"], plan.protocol)]

    def execute(self, job: Job) -> None:
        GateJobs(job).run()

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        return views.conclusion(report)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return gate_tables(store)

    def warnings(self, plan: Plan) -> list[str]:
        warnings = [
            "a positive is a sentence that shares a content word with the reference answer, so "
            "AUROC and recall measure shared words; evidence_all_recall and evidence_recall count "
            "the true evidence by id, all its pieces and any of them"
        ]
        if "ablation" in plan.options["variants"]:
            warnings.append(
                "a linear head adds one number to all sentences of a question: its ranking, and so "
                "its recall, cannot depend on the question"
            )
        return warnings
