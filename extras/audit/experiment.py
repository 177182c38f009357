"""Runs of kind ``audit``: another system's log, read back against the charts, step by step.

An item is a question that the system was asked (a sample of its log), or the same question put to
one of the run's arms with as many tokens as the system's prompt holds of the record. The system
need not cooperate: what it retrieved, kept and gave its model is located in the record
(:mod:`midchart.extras.audit.alignment`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Annotated, Any, ClassVar

from pydantic import Field

from midchart.core.arms.hits import Question, question_of
from midchart.core.errors import SpecError, WorkFailed
from midchart.core.interfaces import read_each
from midchart.core.options import Count, Options, ReceivedPath
from midchart.core.provenance import digest, now
from midchart.core.runs.answering import case_of
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.directory import RunDirectory
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table
from midchart.core.runs.job import Job, Row, outcome
from midchart.core.runs.plan import UNLIMITED, ArmConfig, Plan, Spec
from midchart.core.runs.schemas import blank, entry_text
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.text import count_tokens
from midchart.core.text.evidence import LEAST_SHOWN, band_of, contained, covered, locate
from midchart.core.text.prompt import build_prompt, frame_of, without_date
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Budget, Cohort, Gold, Instruction, Span, Verdict
from midchart.extras.audit import cards, changes, tables
from midchart.extras.audit.alignment import Passage, aligned, shown
from midchart.extras.audit.joining import (
    REVIEWER,
    AuditedCohort,
    audited,
    is_frame,
    prompt_text,
    step_text,
)
from midchart.extras.audit.samples.sample import Sample
from midchart.extras.audit.views import VIEWS, conclusion

RERANKED = "reranked"
MOST_NAMED = 20
"""Samples without a record that are named in the plan; the rest are counted."""

AUDITED: Schema = {
    **dict.fromkeys(("key", "item", "status", "reason", "time", "source", "role"), "VARCHAR"),
    **dict.fromkeys(("record", "chart", "instruction", "place", "model", "task_type"), "VARCHAR"),
    "own_question": "VARCHAR",
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
    "judged": "VARCHAR",
    **dict.fromkeys(tables.TOKENS, "BIGINT"),
    "altered": "STRUCT(prompt VARCHAR, record VARCHAR)[]",
    "altered_passages": "BIGINT",
    "in_order": "DOUBLE",
    **dict.fromkeys(
        ("retrieved_kept", "reranked_kept", "kept"),
        "STRUCT(event BIGINT, first BIGINT, last BIGINT)[]",
    ),
    **{f"{step}_predicted": "BOOLEAN" for step in tables.LOCATED_STEPS},
    "documented_predicted": "BOOLEAN",
    "judged_predicted": "VARCHAR",
}
"""One row a question of the system, and one a question × arm (``role`` "system" or "arm").

``record``: the patient; ``chart``: the record.
``own_question``: the id of the cohort's own question with the same words, null without one.
``retrieved``, ``reranked``, ``prompt``: whether at least one sentence with evidence was there after
the step (``_all``: every one); null where the log does not say or no evidence is located.
``prompt_from``: what of the log the prompt was read from. ``prompt_band``: the tenth of the prompt
in which the evidence begins. ``judged``: the primary judge's. Tokens of the prompt:
``record_tokens`` are the record's as they are there, ``changed_tokens`` the record's in other words
or with other values, ``other_patient_tokens`` another patient's, ``frame_tokens`` the system's own
lines, ``foreign_tokens`` the rest. ``altered``: words that stand between equal text and differ, in
the prompt and in the record (``altered_passages``: how many). ``in_order``: the share of
neighbouring passages that are in the record's order. ``kept``: characters of the record's events
that the prompt holds; ``retrieved_kept`` and ``reranked_kept`` those after these steps.
``…_predicted``, of questions without located evidence: whether what the second reading answers with
was there after a step, the judge's outcome of the system's answer by that answer, and whether the
second reading had one.
"""


class AuditOptions(Options):
    """The fields of kind ``audit``."""

    log: Annotated[ReceivedPath, Field(pattern=r"\S")]
    """The file or folder with the system's answers: traces, a log or a table."""
    ids: ReceivedPath = ""
    """A CSV file: the log's name of a patient, and the record's id; "": the log has record ids."""
    against: str = ""
    """The run of an earlier audit, whose rates are compared with this one's; "": none."""
    audits: Count = changes.AUDITS
    """Over how many audits of a system that does not change false alarms come in 5 % at most."""


@EXPERIMENTS.register("audit")
class AuditRun(Experiment):
    """The loss ledger of another system (docs/methods.md, Audit)."""

    name, title = "audit", "Where a system lost the evidence"
    views = VIEWS
    lists: ClassVar[Mapping[str, bool]] = {"arms": False, "readers": False, "judges": False}
    cards = True
    usual_arms = ("bm25", "hybrid")
    options_model = AuditOptions
    schemas: ClassVar[Mapping[str, Schema]] = {"audited": AUDITED}
    main = "audited"

    def cohort(self, cohort: Cohort, what: Spec) -> Cohort:
        options = what.options
        return audited(cohort, options["log"], options["ids"], what.protocol, what.base)

    def cohort_facts(self, cohort: Cohort) -> Mapping[str, Any]:
        return {
            "samples": len(cohort.samples),
            "by_content": len(cohort.by_content),
            "by_reviewers": list(cohort.evidence_from.values()).count(REVIEWER),
            "unread": list(cohort.unread[:MOST_NAMED]),
            "unread_count": len(cohort.unread),
        }

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        if len(spec.judge_entries) > 1:
            raise SpecError("an audit takes one judge at most: it says which answers are correct")
        if len(spec.readers) > 1:
            raise SpecError("an audit takes one reader at most: the second reading's")
        if spec.readers and not spec.arms:
            raise SpecError("the second reading reads what the first arm keeps: name an arm")
        if spec.options["against"]:
            changes.earlier_rows(spec.options["against"])
        return len(instructions) * (1 + len(spec.arms))

    def execute(self, job: Job) -> None:
        there = job.there("audited", "item, status, context_tokens")
        read = job.cohort
        if read.comparison is not None:
            read.comparison.shingles(
                lambda done, n: job.watch(f"comparing the log with record {done + 1:,} of {n:,}")
            )
        for instruction in job.questions():
            question = question_of(job.cohort, instruction, job.protocol)
            item = digest("audited", instruction.id)
            system = there.get(item)
            if system is None:
                system = _named(job, _system_row(job, question), item)
                job.append("audited", system)
            for entry in job.plan.arms:
                item = digest("audited", instruction.id, entry_text(entry))
                if item not in there:
                    row = _arm_row(job, entry, question, system)
                    job.append("audited", _named(job, row, item))

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        return conclusion(report)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        run_cards = cards.cards_of(RunDirectory(store.folder.parent))
        return {
            **tables.tables(store, plan),
            "corrected": cards.corrected(store, plan, run_cards),
            "changes": changes.changes(store, plan),
        }

    def warnings(self, plan: Plan) -> list[str]:
        return [*tables.warnings(plan), *changes.warnings(plan)]


def _named(job: Job, row: Row, item: str) -> Row:
    """A row with its key, item and time."""
    return {**row, "item": item, "key": digest(item, repr(job.protocol)), "time": now()}


def _system_row(job: Job, question: Question) -> Row:
    """What the log says of a question, read back against the record."""
    read = job.cohort
    id = question.instruction.id
    sample = read.samples[id]
    row: Row = {
        **_columns(question, read),
        "source": read.sources[id],
        "role": "system",
        "place": sample.place,
        "model": sample.model or None,
        "answer": sample.answer,
        "ended": sample.ended or None,
    }
    with outcome(row):
        record = question.record()
        # Each step's pieces in the record; of several rounds, what any of them brought.
        rounds = [step for step in sample.steps if step.name != RERANKED]
        reranked = [step for step in sample.steps if step.name == RERANKED][-1:]
        for name, steps in (("retrieved", rounds), (RERANKED, reranked)):
            if steps:
                texts = (step_text(step) for step in steps)
                passages = chain.from_iterable(aligned(t, record, job.protocol) for t in texts)
                spans = shown(passages)
                row |= _evidence(question, name, spans)
                row[f"{name}_kept"] = _span_rows(spans)
        # The prompt.
        text = prompt_text(sample)
        if text:
            passages = aligned(text, record, job.protocol)
            spans = shown(passages)
            row |= _tokens(text, passages, read, question)
            row |= _evidence(question, "prompt", spans)
            row |= _chances(question, row["context_tokens"])
            altered = [one.altered for one in passages if any(one.altered)]
            row |= {
                "prompt_from": "context" if sample.context else "prompt" if sample.messages
                else sample.steps[-1].name,
                "prompt_band": _band_in_prompt(text, passages, question),
                "altered": [{"prompt": words, "record": of_record} for words, of_record in altered],
                "altered_passages": len(altered),
                "in_order": _in_order(passages),
                "kept": _span_rows(spans),
            }  # fmt: skip
        row["judged"] = _judged(job, question, sample)
        if job.plan.readers and not question.parts:
            row |= _predicted(job, question, sample, row)
    return row


def _span_rows(spans: Sequence[Span]) -> list[dict[str, int]]:
    return [{"event": s.event, "first": s.start, "last": s.end} for s in spans]


def _predicted(job: Job, question: Question, sample: Sample, row: Row) -> Row:
    """The second reading of a question: the run's reader over what the first arm keeps.

    Its evidence are the sentences that the reader names, else where its answer is located. Raises
    WorkFailed where the reader fails.
    """
    entry, reader = job.plan.arms[0], job.reader(job.plan.readers[0])
    record, asked = question.record(), question.instruction
    selection = job.arm(entry).select(record, asked, entry.budget)
    prompt = build_prompt(
        asked.question, selection, job.protocol, reader.window, reader.count_tokens,
        frame_of(reader), asked.options,
    )  # fmt: skip
    [(_, answer)] = read_each(reader, [prompt])
    if answer.status != "ok":
        raise WorkFailed(f"the second reading failed: {answer.reason}")
    if not answer.text.strip() or is_refusal(answer.text):
        return {"documented_predicted": False}
    sources = set(answer.sources)
    spans = [one.sentence.span for one in selection.kept if one.sentence.id in sources]
    spans = spans or list(locate(record, [without_date(answer.text)], job.protocol).spans)
    columns = {
        step: "kept" if step == "prompt" else f"{step}_kept" for step in tables.LOCATED_STEPS
    }
    predicted: Row = {
        f"{step}_predicted": covered(spans, [tables.span_of(one) for one in row[column]])
        >= LEAST_SHOWN
        for step, column in columns.items()
        if row[column] is not None and spans
    }
    gold = Gold(asked.id, without_date(answer.text))
    judged = _judged(job, replace(question, gold=gold), sample)
    return {**predicted, "documented_predicted": True, "judged_predicted": judged}


def _columns(question: Question, read: AuditedCohort) -> Row:
    """The columns that all rows of a question share."""
    shared = question.columns()
    id = question.instruction.id
    return {
        **blank(AUDITED),
        **{name: shared[name] for name in shared.keys() & AUDITED.keys()},
        "record": read.patient_of(question.instruction),
        "chart": question.instruction.record_id,
        "question": question.instruction.question,
        "own_question": read.own_questions.get(id),
        "evidence_from": read.evidence_from[id] or None,
        "joined_by": "content" if id in read.by_content else "name",
        "evidence_pieces": len(question.parts) or None,
    }


def _evidence(question: Question, step: str, spans: Sequence[Span]) -> Row:
    """Whether spans of the record show any piece of the evidence, and all of it; nothing where no
    evidence is located."""
    if not question.parts:
        return {}
    shares = {id: covered(wanted, spans) for id, wanted in question.parts.items()}
    pieces = contained(shares)
    return {step: bool(pieces), f"{step}_all": len(pieces) == len(question.parts)}


def _chances(question: Question, tokens: int) -> Row:
    """What as many tokens of random sentences show."""
    if question.chance is None:
        return {}
    return {
        "prompt_chance": question.chance.any_piece(tokens),
        "prompt_all_chance": question.chance.all_pieces(tokens),
    }


def sourced_passages(
    text: str, passages: Iterable[Passage], read: AuditedCohort, question: Instruction
) -> Iterator[tuple[Passage, str]]:
    """Each passage of a prompt with where it comes from: "record", "changed", "other_patient",
    "foreign" or "frame" (the system's own lines)."""
    patient = read.patient_of(question)
    assert read.comparison is not None, "a joined log"
    shingles = read.comparison.shingles()
    for passage in passages:
        kind = "record" if passage.source == "same" else passage.source
        if kind == "other":
            part = text[passage.start : passage.end]
            if is_frame(part, question.question, read.frame_lines):
                kind = "frame"
            else:
                kind = "other_patient" if shingles.elsewhere(part, patient) else "foreign"
        yield passage, kind


def _tokens(
    text: str, passages: Sequence[Passage], read: AuditedCohort, question: Question
) -> dict[str, int]:
    """Tokens of a prompt by where they come from; ``context_tokens`` are all but the frame's."""
    counts = dict.fromkeys(tables.TOKENS, 0)
    for passage, kind in sourced_passages(text, passages, read, question.instruction):
        counts[f"{kind}_tokens"] += count_tokens(text[passage.start : passage.end])
    counts["context_tokens"] = sum(counts.values()) - counts["frame_tokens"]
    return counts


def _band_in_prompt(text: str, passages: Sequence[Passage], question: Question) -> str | None:
    """The tenth of the prompt in which the first passage with evidence begins."""
    wanted = list(chain.from_iterable(question.parts.values()))
    for passage in passages:
        if any(span.overlaps(one) for span in passage.spans for one in wanted):
            before, all_tokens = count_tokens(text[: passage.start]), count_tokens(text)
            return band_of(before / max(all_tokens, 1))
    return None


def _in_order(passages: Sequence[Passage]) -> float | None:
    """Share of neighbouring passages of the record that come in its order."""
    places = [(p.spans[0].event, p.spans[0].start) for p in passages if p.spans]
    steps = [first <= second for first, second in pairwise(places)]
    return sum(steps) / len(steps) if steps else None


def _judged(job: Job, question: Question, sample: Sample) -> str | None:
    """The outcome of the system's answer by the run's judge; None without a judge or reference."""
    if not job.plan.judge_entries or not (question.gold and question.gold.answer.strip()):
        return None
    answer = {"status": "ok", "answer": sample.answer, "ended": sample.ended, "sources": ()}
    case = case_of(question, answer, job.protocol)
    if not isinstance(case, Verdict):
        judge = job.judge(job.plan.primary_judge)
        case = judge.judge(question.instruction, case.gold, case.answer)
    return case.outcome


def _arm_row(job: Job, entry: ArmConfig, question: Question, system: Mapping[str, Any]) -> Row:
    """What an arm keeps of the record with as many tokens as the system's prompt."""
    read = job.cohort
    row: Row = {**_columns(question, read), "source": entry.label, "role": "arm"}
    with outcome(row):
        tokens = system["context_tokens"]
        if question.parts and tokens:
            budget = Budget(UNLIMITED, 0, tokens)
            selection = job.arm(entry).select(question.record(), question.instruction, budget)
            hits = question.hits(selection)
            row |= {
                "prompt": hits["evidence"],
                "prompt_all": hits["evidence_all"],
                "context_tokens": selection.tokens,
                **_chances(question, selection.tokens),
            }
    return row
