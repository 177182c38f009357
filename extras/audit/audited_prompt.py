"""A question of an audit in its chart: what the audited system retrieved, kept, cut and added."""

from __future__ import annotations

from dataclasses import dataclass

from midchart.core.access import RunRef, guarded, needs
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.protocol import Protocol
from midchart.core.results.items import asked_of
from midchart.core.runs.directory import find_run
from midchart.core.storage.rows import literal
from midchart.core.text import sentences
from midchart.core.text.evidence import LEAST_SHOWN, covered
from midchart.core.text.prompt import context_lines
from midchart.core.types import Answer, Kept, Prompt, Record, Selection, Span
from midchart.extras.audit.alignment import aligned, shown
from midchart.extras.audit.experiment import sourced_passages
from midchart.extras.audit.joining import prompt_text
from midchart.extras.audit.tables import span_of

_COLUMNS = (
    "source, chart, question, own_question, answer, status, retrieved_kept, reranked_kept, kept, "
    "record_tokens + changed_tokens AS tokens"
)


@dataclass(frozen=True, slots=True)
class AuditedPrompt:
    """What an audited system had of a chart for one question.

    ``selection``: the sentences that it retrieved, or gave its model; ``prompt``: of these the ones
    in its prompt, with the prompt's text ("" where the log is gone or has changed: ``problem`` says
    so). A sentence is there where half of it is. ``passages``: the prompt's text in order, each
    part with where it comes from: "record", "changed", "other_patient", "foreign" or "frame".
    ``altered``: words of the prompt and of the record that stand at one place and differ.
    """

    source: str
    chart: str
    question: str
    own_question: str
    selection: Selection
    prompt: Prompt
    answer: Answer
    passages: tuple[tuple[str, str], ...]
    altered: tuple[tuple[str, str], ...]
    problem: str


@guarded
@needs("viewer")
def audited_prompt(
    run: RunRef, instruction: str, record: Record, protocol: Protocol
) -> AuditedPrompt:
    """A question of a run of kind audit, by its sample's id.

    Raises UnknownName for a run or question that is not there, InputError for another record than
    the question's or a sample whose prompt is not known, DataError.
    """
    folder = find_run(run)
    plan = folder.plan()
    if plan.kind != "audit":
        raise InputError(f"run {run} of kind {plan.kind} audits no other system")
    where = f"role = 'system' AND instruction = {literal(instruction)}"
    rows = folder.store(plan).select("audited", _COLUMNS, where)
    if not rows:
        raise UnknownName("question of the run", instruction, [])
    [row] = rows
    if row["chart"] != record.id or row["status"] != "ok" or row["kept"] is None:
        raise InputError(f"run {run} does not say what its system had of this record")
    in_prompt = [span_of(one) for one in row["kept"]]
    before = [
        span_of(one) for name in ("retrieved_kept", "reranked_kept") for one in row[name] or ()
    ]

    def has(span: Span, spans: list[Span]) -> bool:
        return covered([span], spans) >= LEAST_SHOWN

    units = [one for one in sentences(record, protocol) if has(one.span, in_prompt + before)]
    chosen = tuple(Kept(one, None, "arm") for one in units)
    selection = Selection(
        record.id, instruction, row["source"], chosen, sum(u.tokens for u in units)
    )
    there = {unit.id for unit in units if has(unit.span, in_prompt)}
    lines = context_lines(selection, protocol)
    passages, altered, problem = _read_again(run, instruction, record, in_prompt)
    prompt = Prompt(
        "".join(text for text, _ in passages),
        row["question"],
        tuple(line for line in lines if line.sentence_id in there),
        row["tokens"],
        tuple(line.sentence_id for line in lines if line.sentence_id not in there),
    )
    question = row["question"], row["own_question"] or ""
    answer = Answer(row["answer"] or "")
    return AuditedPrompt(
        row["source"], record.id, *question, selection, prompt, answer, passages, altered, problem
    )


def _read_again(
    run: str, instruction: str, record: Record, in_prompt: list[Span]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], str]:
    """The parts of the prompt in the log with where they come from, the altered words, and why
    there are none."""
    try:
        read = asked_of(run)
    except (DataError, InputError) as error:
        return (), (), str(error)
    if instruction not in read.samples:
        return (), (), f"the log of run {run} does not have this question any more"
    [question] = [one for one in read.instructions if one.id == instruction]
    text = prompt_text(read.samples[instruction])
    passages = aligned(text, record, find_run(run).plan().protocol)
    if shown(passages) != in_prompt:
        return (), (), f"the log of run {run} has changed since"
    parts: list[tuple[str, str]] = []
    at = 0
    for passage, source in sourced_passages(text, passages, read, question):
        parts += [(text[at : passage.start], "frame"), (text[passage.start : passage.end], source)]
        at = passage.end
    parts.append((text[at:], "frame"))
    altered = tuple(one.altered for one in passages if any(one.altered))
    return tuple(part for part in parts if part[0]), altered, ""
