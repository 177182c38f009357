"""Runs of kind ``inhibition``: does attention that can subtract read a long record more evenly?

An item is a decoder trained from nothing and examined with needles: variant × placement of the
evidence in training × seed. A training leaves checkpoints in the run's folder, so a run that was
cut off goes on in the middle of it. Records are made by the run itself: it needs no cohort.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from core.protocol import Protocol
from core.run.inhibition import spec as inhibition_spec
from core.run.inhibition import tables as inhibition_tables
from core.run.inhibition.rows import MODELS
from core.run.inhibition.work import Pass, items
from core.run.job import Job
from core.run.kind import KINDS, Kind, Table
from core.run.plan import Plan, Spec
from core.store import RowStore, Schema
from core.types import Cohort, Instruction


@KINDS.register("inhibition")
class InhibitionRun(Kind):
    """Small decoders that differ in their attention alone, compared by the needle's depth."""

    name, title = "inhibition", "Inhibition, attentions compared in reading"
    fields: ClassVar[tuple[str, ...]] = inhibition_spec.FIELDS
    schemas: ClassVar[Mapping[str, Schema]] = {"models": MODELS}
    main, portion = "models", "item"
    gpu = True
    makes_records, has_evidence = True, False

    def options(self, table: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        return inhibition_spec.read_options(table, protocol.seed)

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        return len(items(spec.options))

    def portions(self, cohort: Cohort, plan: Plan) -> list[str]:
        return [one.name for one in items(plan.options)]

    def execute(self, job: Job) -> None:
        Pass(job).run()

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return inhibition_tables.tables(store, plan.options, plan.protocol)

    def warnings(self, plan: Plan) -> list[str]:
        options = plan.options
        decoder, training = options["decoder"], options["training"]
        told = [
            "synthetic records in a vocabulary of their own, and decoders of "
            f"{decoder['layers']} layers of width {decoder['dim']}: what holds here need not hold "
            "in a large model, and what does not hold here is not refuted there",
            "variants have the same decoder, data and steps; what a variant adds (λ and norms, and "
            "the gate's own network and labels) comes on top: added_parameters",
            f"records have at most {training['longest']} lines in training; longer ones are past "
            "what any decoder saw",
        ]
        if any("gated" in variant["name"] for variant in options["variants"]):
            told.append(
                "a gate learns from where the evidence stands, which the other variants must find "
                "out by answering: what a gated variant gains may be that teaching's and not "
                "inhibition's; where λ is negative (table strength) it adds what it should subtract"
            )
        if len(options["seeds"]) < 5:
            told.append(
                f"{len(options['seeds'])} seeds: an interval over so few is narrower than it "
                "should be; nothing is claimed that not every seed shows"
            )
        return told
