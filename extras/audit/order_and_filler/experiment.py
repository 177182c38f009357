"""Runs of kind ``order_and_filler``: the same question with its context reordered or lengthened.

Measured is the share of answers that change, against the reader's own noise: the same prompt asked
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from midchart.core.errors import SpecError, WorkFailed
from midchart.core.judges.statements import same_statement
from midchart.core.options import Different, Known, Options, Several, Whole, different
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest, now
from midchart.core.results.reviews import review_tables, reviews_of
from midchart.core.runs.answering import Answering, unfinished
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.directory import RunDirectory
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table, need_instructions
from midchart.core.runs.job import Job, Row, chosen, outcome
from midchart.core.runs.plan import Plan, Spec
from midchart.core.runs.schemas import ANSWERS, VERDICTS, blank, item_of
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.text import words
from midchart.core.text.choices import chosen_option
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Answer, Cohort, Instruction
from midchart.extras.audit.order_and_filler import views
from midchart.extras.audit.order_and_filler.conditions import (
    ADDED,
    BASE,
    ORDERS,
    SITE,
    Arrangement,
    VariedCohort,
    varied_cohort,
)
from midchart.extras.audit.order_and_filler.filler import FILLERS, WORDS
from midchart.extras.audit.order_and_filler.tables import tables

COMPARISONS: Schema = {
    **dict.fromkeys(("key", "item", "status", "reason", "label", "arm"), "VARCHAR"),
    "k": "BIGINT",
    **dict.fromkeys(("record", "instruction", "reader"), "VARCHAR"),
    **SITE,
    **dict.fromkeys(("answer_key", "base_key"), "VARCHAR"),
    **dict.fromkeys(("changed", "same_prompt"), "BOOLEAN"),
    "time": "VARCHAR",
}
"""One row an answer but the base's: whether it says something else than the base's
(:func:`same_answer`), and whether both were given the same
prompt."""


class OrderAndFillerOptions(Options):
    """The fields of kind ``order_and_filler``."""

    first_questions: Whole = 0
    """Only the first so many questions of the cohort; 0: all."""
    repeats: Annotated[int, Field(ge=1, le=20)] = 1
    """Prompts a question and condition; each draws orders and filler again."""
    orders: Annotated[
        Several[Annotated[str, Known("value of 'orders'", lambda: ORDERS)]],
        AfterValidator(different),
    ] = ORDERS
    """Orders of the context's lines, in place of the arm's."""
    fillers: Annotated[
        Several[Annotated[str, Known("value of 'fillers'", lambda: FILLERS)]],
        AfterValidator(different),
    ] = FILLERS
    """Lines added to the context: the patient's other lines, other patients', or neutral text."""
    filler_tokens: Different[Annotated[int, Field(ge=200, le=10**6)]] = (1000,)
    """Tokens of the filler, dates included."""
    words: Different[Annotated[str, Known("value of 'words'", lambda: WORDS)]] = WORDS
    """Filler without the question's words, or with as many of them as there are."""

    def plan(self) -> dict[str, Any]:
        """Raises SpecError where nothing is changed."""
        if not self.orders and not self.fillers:
            raise SpecError("'orders' and 'fillers' of the spec are empty: there is no condition")
        return super().plan()


@EXPERIMENTS.register("order_and_filler")
class OrderAndFillerRun(Experiment):
    """Questions × conditions × repeats × arms × readers × judges."""

    name, title = "order_and_filler", "Order and filler: which answers change"
    views = views.VIEWS
    lists: ClassVar[Mapping[str, bool]] = {"arms": False, "readers": True, "judges": False}
    usual_arms = ("bm25",)
    options_model = OrderAndFillerOptions
    refuses: ClassVar[Mapping[str, str]] = {"limit": "say 'first_questions' instead"}
    schemas: ClassVar[Mapping[str, Schema]] = {
        "answers": {**ANSWERS, **SITE, **ADDED},
        "verdicts": {**VERDICTS, **SITE},
        "comparisons": COMPARISONS,
    }
    main, shard = "answers", "record"

    def cohort(self, cohort: Cohort, what: Spec) -> VariedCohort:
        asked = chosen(cohort, replace(what, limit=what.options["first_questions"] or None))
        return varied_cohort(cohort, asked, what.options, what.protocol)

    def patients(self, cohort: Cohort, asked: Sequence[Instruction]) -> int:
        cases = cohort.cases
        if any(cases[one.id].condition.level == "other_patients" for one in asked):
            return len(cohort.records)
        return super().patients(cohort, asked)

    def added_tokens(self, cohort: Cohort, asked: Sequence[Instruction]) -> int:
        return sum(cohort.cases[one.id].condition.tokens for one in asked)

    def cohort_facts(self, cohort: Cohort) -> Mapping[str, Any]:
        return {"unmoved": cohort.unmoved}

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        need_instructions(spec, cohort, instructions)
        cases = cohort.cases
        compared = sum(cases[one.id].condition.factor != "base" for one in instructions)
        verdicts = sum(judge.repeats for judge in spec.judge_entries)
        answers = len(instructions) * (1 + verdicts)
        return (answers + compared) * len(spec.arms) * len(spec.readers)

    def execute(self, job: Job) -> None:
        arrangement = Arrangement(job.cohort, job.protocol)
        Answering(job, arrangement.question, arrangement.select, complete=True).run()
        _compare(job)

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        wanted = {name: chosen[name] for name in ("label", "reader", "judge") if name in chosen}
        return views.conclusion(report, **wanted)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        folder = RunDirectory(store.folder.parent)
        return {**tables(store, plan), **review_tables(folder, reviews_of(folder))}

    def warnings(self, plan: Plan) -> list[str]:
        unmoved = plan.raw["found"]["unmoved"]
        warnings = [
            "an answer has changed where it says something else than the base answer, by rules of "
            "words and values (docs/methods.md, Order and filler); a changed answer need not be "
            "worse"
        ]
        if unmoved:
            warnings.append(
                f"the evidence of {unmoved} questions is not located in their records: it is not "
                "moved"
            )
        return warnings


def _compare(job: Job) -> None:
    """Compare every answer with the base's to the same question, by the same arm and reader."""
    there = job.there("comparisons")
    cohort = job.cohort
    columns = "item, key, status, answer, sources, ended, prompt_hash"
    answers = job.there("answers", columns)
    for instruction in job.questions():
        case = cohort.cases[instruction.id]
        for entry, reader in product(job.plan.arms, job.plan.readers):
            name = item_of(entry, instruction.id, reader)
            item = digest("comparison", name)
            if case.condition == BASE or item in there:
                continue
            answer, base = answers[name], answers[item_of(entry, case.base, reader)]
            row: Row = {
                **blank(COMPARISONS),
                "item": item,
                "key": digest("comparison", answer["key"], base["key"]),
                "label": entry.label,
                "arm": entry.name,
                "k": entry.shown_k,
                "record": cohort.patient_of(instruction),
                "instruction": instruction.id,
                "reader": reader,
                **case.columns(),
                "answer_key": answer["key"],
                "base_key": base["key"],
            }
            with outcome(row):
                first, second = (_comparable(one, job.protocol) for one in (base, answer))
                row["same_prompt"] = answer["prompt_hash"] == base["prompt_hash"]
                row["changed"] = not same_answer(instruction, first, second)
            job.append("comparisons", {**row, "time": now()})


def _comparable(row: Mapping[str, Any], protocol: Protocol) -> Answer:
    """The answer of a row; raises WorkFailed where there is none, or not all of it."""
    if row["status"] != "ok":
        raise WorkFailed("one of the two answers failed")
    if why := unfinished(row, protocol):
        raise WorkFailed(f"one of two: {why}")
    return Answer(row["answer"] or "", sources=tuple(row["sources"] or ()))


def same_answer(instruction: Instruction, first: Answer, second: Answer) -> bool:
    """Whether two answers to one question say the same; symmetric.

    Each states what the other does, by the rules of the judge ``statements``; two that decline do,
    and so do two without a word. With options, the same one is chosen.
    """
    if words(first.text) == words(second.text):
        return True
    if instruction.options:
        chosen = [chosen_option(one.text, instruction.options) for one in (first, second)]
        if chosen != [None, None]:
            return chosen[0] == chosen[1]
    declined = [is_refusal(one.text) for one in (first, second)]
    if any(declined) or not (words(first.text) and words(second.text)):
        return all(declined)
    return same_statement(instruction.question, first.text, second.text)
