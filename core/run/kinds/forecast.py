"""Runs of kind ``forecast``: attentions compared fairly on laboratory forecasts (Experiment 2).

An item is a trained and examined model: task × variant × seed, and the baselines of each task. A
training leaves a checkpoint after every epoch in the run's folder, so a run that was cut off goes
on in the middle of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from core.errors import DataUseError
from core.protocol import Protocol
from core.run.forecast import spec as forecast_spec
from core.run.forecast import tables as forecast_tables
from core.run.forecast.rows import MODELS
from core.run.forecast.work import Pass, items
from core.run.job import Job
from core.run.kind import KINDS, Kind, Table
from core.run.plan import Plan, Spec
from core.store import RowStore, Schema
from core.types import Cohort, Instruction


@KINDS.register("forecast")
class ForecastRun(Kind):
    """Attentions and counts compared on the same labels (PROTOCOL, Experiment 2)."""

    name, title = "forecast", "Forecasts, attentions compared"
    fields: ClassVar[tuple[str, ...]] = forecast_spec.FIELDS
    schemas: ClassVar[Mapping[str, Schema]] = {"models": MODELS}
    main, portion = "models", "item"
    gpu, has_evidence = True, False

    def options(self, table: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        return forecast_spec.read_options(table, protocol.seed)

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        found = items(spec.options, cohort)
        _refuse_untrainable(cohort)
        return len(found)

    def portions(self, cohort: Cohort, plan: Plan) -> list[str]:
        return [one.name for one in items(plan.options, cohort)]

    def execute(self, job: Job) -> None:
        _refuse_untrainable(job.cohort)  # the tag may have changed since the run was planned
        Pass(job).run()

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return forecast_tables.tables(store, plan.options, plan.protocol)

    def warnings(self, plan: Plan) -> list[str]:
        told = [
            "ci_low and ci_high resample patients; hm_low and hm_high (Hanley and McNeil, as in "
            "the paper) take every label for a patient of its own and are too narrow",
            "the paper's table mixes splits and swaps three prevalences: anemia 69.0 %, "
            "hyponatremia 28.5 %, thrombocytopenia 33.2 % are the true ones",
        ]
        apart = [v.label for v in forecast_spec.variants_of(plan.options) if v.split == "random"]
        if apart:
            told.append(
                f"examined on patients of a split of their own, and compared with no other: "
                f"{', '.join(apart)}"
            )
        most = forecast_spec.most_of(plan.options)
        if any(most.values()):
            used = ", ".join(f"{n:,} {split}" for split, n in most.items() if n)
            told.append(
                f"at most so many labels were used, drawn at random: {used}; "
                "a small training part favours counts over sequence models"
            )
        return told


def _refuse_untrainable(cohort: Cohort) -> None:
    if not cohort.manifest.training_allowed:
        raise DataUseError(
            f"{cohort.manifest.name or cohort.path}: its data-use tag does not allow training; "
            "EHRSHOT's agreement permits it on your own machine: set training_allowed in its "
            "midchart.toml (page Data, with a reason)"
        )
