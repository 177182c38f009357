"""Runs of kind ``gate``: gates trained on one split, examined on its test patients, side by side.

An item is a trained gate. It leaves a checkpoint after every epoch in the run's folder, so a run
that was cut off or cancelled goes on in the middle of a training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from core.errors import SpecError, UnknownName
from core.protocol import Protocol
from core.run.gating import tables as gate_tables
from core.run.gating.rows import VARIANTS
from core.run.gating.training import split_of
from core.run.gating.variants import GROUPS, variants
from core.run.gating.work import Pass
from core.run.job import Job
from core.run.kind import KINDS, Kind, Table
from core.run.plan import Plan, Spec
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
        Pass(job).run()

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
