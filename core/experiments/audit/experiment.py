"""Runs of kind ``audit``: another system's log, read back against the charts, step by step.

An item is a question that the system was asked (a sample of its log), or the same question put to
one of the run's arms with as many tokens as the system's prompt holds of the record. The system
need not cooperate: what it retrieved, kept and gave its model is located in the record
(:mod:`midchart.core.text.alignment`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

from midchart.core.errors import SpecError
from midchart.core.experiments.audit import tables
from midchart.core.experiments.audit.joining import (
    Joined,
    is_frame,
    joined,
    prompt_text,
    stage_text,
)
from midchart.core.experiments.audit.views import VIEWS, conclusion
from midchart.core.options import Options, Text
from midchart.core.provenance import digest, now
from midchart.core.runs.answering import case_of
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.evidence import Question, question_of
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table
from midchart.core.runs.job import Job, Row, outcome
from midchart.core.runs.plan import UNLIMITED, ArmConfig, Plan, Spec
from midchart.core.runs.planner import by_patient, chosen, own_patients
from midchart.core.runs.schemas import blank
from midchart.core.samples.sample import Sample
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.text import count_tokens
from midchart.core.text.alignment import Passage, aligned, shown
from midchart.core.text.evidence import band_of, contained, covered
from midchart.core.types import Budget, Cohort, Instruction, Record, Span, Verdict

SYSTEM = "system"
"""``source`` of the rows of the audited system where its log names none."""
RERANKED = "reranked"

AUDITED: Schema = {
    **dict.fromkeys(("key", "item", "status", "reason", "time", "source", "role"), "VARCHAR"),
    **dict.fromkeys(("record", "instruction", "place", "model", "task_type"), "VARCHAR"),
    **dict.fromkeys(("question", "answer", "ended", "evidence_from", "joined_by"), "VARCHAR"),
    **dict.fromkeys(("order_position", "time_position", "token_position"), "DOUBLE"),
    "band": "VARCHAR",
    "middle": "BOOLEAN",
    "evidence_pieces": "BIGINT",
    **{f"{step}{of}": "BOOLEAN" for step in tables.LOCATED_STEPS for of in ("", "_all")},
    "prompt_chance": "DOUBLE",
    "prompt_all_chance": "DOUBLE",
    "prompt_from": "VARCHAR",
    "prompt_band": "VARCHAR",
    "outcome": "VARCHAR",
    **dict.fromkeys(tables.TOKENS, "BIGINT"),
    "altered": "STRUCT(here VARCHAR, record VARCHAR)[]",
    "in_order": "DOUBLE",
    "kept": "STRUCT(event BIGINT, first BIGINT, last BIGINT)[]",
}
"""One row a question of the system, and a question × arm beside it (``role`` "system" or "arm").

``retrieved``, ``reranked``, ``prompt``: whether at least one sentence with evidence was there after
the step (``_all``: every one); null where the log does not say or no evidence is located.
``prompt_from``: what of the log the prompt was read from. ``prompt_band``: the tenth of the prompt
in which the evidence begins. ``outcome``: the primary judge's. Tokens of the prompt:
``record_tokens`` are the record's as they are there, ``changed_tokens`` the record's in other words
or with other values, ``other_patient_tokens`` another patient's, ``frame_tokens`` the system's own
lines, ``foreign_tokens`` the rest. ``altered``: words that stand between equal text and differ, in
the prompt and in the record. ``in_order``: the share of neighbouring passages that are in the
record's order. ``kept``: characters of the record's events that the prompt holds.
"""


class AuditOptions(Options):
    """The fields of kind ``audit``."""

    log: Text
    """The file or folder with the system's answers: traces, a log or a table."""
    ids: str = ""
    """A CSV file: the log's name of a patient, and the record's id; "": the log has record ids."""


@EXPERIMENTS.register("audit")
class AuditRun(Experiment):
    """The loss ledger of another system (docs/methods.md, Audit)."""

    name, title = "audit", "Where a system lost the evidence"
    views = VIEWS
    lists: ClassVar[Mapping[str, bool]] = {"arms": False, "readers": False, "judges": False}
    usual_arms = ("bm25", "hybrid")
    options_model = AuditOptions
    schemas: ClassVar[Mapping[str, Schema]] = {"audited": AUDITED}
    main = "audited"

    def cohort(self, cohort: Cohort, what: Spec) -> Cohort:
        return _joined(cohort, what).cohort

    def cohort_facts(self, cohort: Cohort) -> Mapping[str, Any]:
        read = joined_of(cohort)
        return {
            "samples": len(read.samples),
            "by_content": len(read.by_content),
            "unjoined": list(read.unjoined[:MOST_NAMED]),
            "unjoined_count": len(read.unjoined),
            "unread": list(read.troubles[:MOST_NAMED]),
            "unread_count": len(read.troubles),
        }

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        if len(spec.judge_entries) != 1:
            raise SpecError("an audit takes one judge, by which an answer is read correctly")
        return len(instructions) * (1 + len(spec.arms))

    def execute(self, job: Job) -> None:
        there = job.there("audited")
        source = open_source(job.plan.raw["cohort"]["path"])
        read = _joined(source, job.plan, job.watch)
        for instructions in own_patients(job).values():
            for instruction in instructions:
                question = question_of(job.cohort, instruction, job.protocol)
                sample = read.samples[instruction.id]
                item = digest("audited", instruction.id)
                row = there.get(item)
                if row is None:
                    row = _system_row(job, read, sample, question)
                    job.append("audited", _named(job, row, item))
                for entry in job.plan.arms:
                    item = digest("audited", instruction.id, entry.label)
                    if item not in there:
                        beside = _arm_row(job, entry, question, row)
                        job.append("audited", _named(job, beside, item))

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        return conclusion(report)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return tables.tables(store, plan)

    def warnings(self, plan: Plan) -> list[str]:
        return tables.warnings(plan)
