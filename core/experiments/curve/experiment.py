"""Runs of kind ``curve``: accuracy of a cohort's responses by the position of their evidence.

An item is one curve: a stratum's value × score × kind of position × number of bins. Responses and
the clinicians' verdicts are the cohort's own; no reader or judge is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar

from pydantic import Field

from midchart.core.cohorts.gold import evidence_locations
from midchart.core.errors import SpecError
from midchart.core.experiments.curve import views
from midchart.core.experiments.curve.rows import (
    NOT_STATED,
    POSITIONS,
    SCORES,
    SNIPPETS,
    STRATA,
    CurveChoice,
    no_responses,
    observe,
)
from midchart.core.experiments.curve.tables import (
    BIN_COLUMNS,
    NAMES,
    SUMMARY,
    curve_columns,
    curve_row,
    published_curve,
    tables_of,
)
from midchart.core.options import Chosen, Known, Options, Several
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest, now
from midchart.core.results.tables import location_table, nested
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table
from midchart.core.runs.job import Job, Row, outcome
from midchart.core.runs.plan import Plan, Spec
from midchart.core.runs.schemas import blank
from midchart.core.stats.positions import BINS
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.types import Cohort, Instruction

CURVES: Schema = {
    **dict.fromkeys(("key", "item", "status", "reason", "time", *NAMES[:-1]), "VARCHAR"),
    "bins": "BIGINT",
    **SUMMARY,
    "curve": f"STRUCT({', '.join(f'{name} {type}' for name, type in BIN_COLUMNS.items())})[]",
    "text": "VARCHAR",
    "location": "STRUCT(measure VARCHAR, count BIGINT, n BIGINT, share DOUBLE, wilson_low DOUBLE, "
    "wilson_high DOUBLE)[]",
}
"""One row a curve; ``location``: how the evidence was located, the same for one position."""


class CurveOptions(Options):
    """The fields of kind ``curve``."""

    scores: Chosen[Annotated[str, Known("value of 'scores'", lambda: SCORES)]] = SCORES[:1]
    """How an answer is scored."""
    positions: Several[Annotated[str, Known("value of 'positions'", lambda: POSITIONS)]] = ()
    """Which positions of the evidence; default: the protocol's."""
    bins: Chosen[Annotated[int, Known("value of 'bins'", lambda: BINS)]] = BINS[:1]
    """Equal parts of a record."""
    strata: Chosen[Annotated[str, Known("value of 'strata'", lambda: STRATA)]] = STRATA
    """Groups of answers, a curve each."""
    snippets: Annotated[str, Known("value of 'snippets'", lambda: SNIPPETS)] = SNIPPETS[0]
    """An answer counts at the best-located piece of its evidence, or at every located piece."""
    least_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Evidence located with a lower score is left out."""

    def plan(self) -> dict[str, Any]:
        lists = {"scores": SCORES, "positions": POSITIONS, "bins": BINS, "strata": STRATA}
        return super().plan() | {
            name: [value for value in valid if value in getattr(self, name)]
            for name, valid in lists.items()
        }


@EXPERIMENTS.register("curve")
class CurveRun(Experiment):
    """Accuracy by position, with its null (docs/methods.md, Experiment 1)."""

    name, title = "curve", "Accuracy by position"
    views = views.VIEWS
    options_model = CurveOptions
    schemas: ClassVar[Mapping[str, Schema]] = {"curves": CURVES}
    main = "curves"

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        asked = {instruction.id: instruction for instruction in instructions}
        used = [r for r in cohort.responses if r.used and r.instruction_id in asked]
        if not used:
            raise SpecError(no_responses(cohort))
        answered = [asked[id] for id in {r.instruction_id for r in used}]
        many = {"all": 1, "model": len({r.model for r in used})} | {
            name: len({getattr(i, name) or NOT_STATED for i in answered}) for name in STRATA[2:]
        }
        options = spec.options
        each = len(options["scores"]) * len(options["bins"])
        each *= len(_positions(options, spec.protocol))
        return each * sum(many[stratum] for stratum in options["strata"])

    def execute(self, job: Job) -> None:
        observed = observe(
            job.cohort,
            job.questions(),
            job.protocol,
            lambda done, of: job.watch(f"evidence located of {done:,} of {of:,} questions"),
        )
        options = job.plan.options
        positions = _positions(options, job.protocol)
        located = evidence_locations(job.cohort, observed.asked, job.protocol, positions)
        locations = {position: location_table(rows) for position, rows in located.items()}
        lists: list[Sequence[Any]] = [
            options["strata"], options["scores"], list(locations), options["bins"],
        ]  # fmt: skip
        for stratum, score, position, bins in product(*lists):
            for value in observed.values(stratum):
                choice = CurveChoice(
                    score, position, stratum, value, options["snippets"], options["least_score"]
                )
                columns = curve_columns(choice, bins)
                item = digest(*map(str, columns.values()), choice.snippets)
                if job.todo("curves", [item], by="item"):
                    row = blank(CURVES)
                    with outcome(row):
                        row |= curve_row(observed, choice, bins, job.protocol.resamples)
                    fixed = {"item": item, "key": digest(item, repr(job.protocol))}
                    located = {"location": locations[position], "time": now()}
                    job.append("curves", row | columns | fixed | located)

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        return views.conclusion(report)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        order = {"stratum": STRATA, "score": SCORES, "position": POSITIONS, "bins": BINS}

        def place(row: Row) -> list[Any]:
            """Rows as the spec lists them, whatever the order in which they were written."""
            return [order[name].index(row[name]) if name in order else row[name] for name in NAMES]

        rows = sorted(store.select("curves"), key=place)
        located = {row["position"]: row for row in rows}
        return tables_of(rows) | {
            "location": nested(located.values(), "location", ["position"]),
            "published": published_curve(),
        }

    def warnings(self, plan: Plan) -> list[str]:
        warnings = [
            "a curve is an association: questions whose evidence lies in one part of a record may "
            "be harder for other reasons; a needle run moves the same fact instead",
            "no judge is called: the score clinician is the verdict of the cohort's clinicians, "
            "and there is nothing to review",
        ]
        if plan.options["snippets"] == "all":
            warnings.append(
                "an answer counts once at each located piece of its evidence, so n counts pieces, "
                "not answers; pieces of one question are one cluster"
            )
        return warnings


def _positions(options: Mapping[str, Any], protocol: Protocol) -> Sequence[str]:
    """The kinds of position of a run: those its spec names, else the protocol's."""
    return options["positions"] or [protocol.position]
