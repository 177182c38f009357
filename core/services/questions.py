"""One question about one record: selected, explained, read, judged."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from midchart.core.access import CohortRef, ReaderOptions, needs
from midchart.core.arms import ARMS
from midchart.core.arms.scores import ScoreTable
from midchart.core.cohorts.gold import gold_under
from midchart.core.cohorts.records import typed_instruction
from midchart.core.errors import InputError, UnknownName
from midchart.core.judges import JUDGES
from midchart.core.parsing import valid_unicode
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.services.cohorts import open_data
from midchart.core.text import count_tokens, sentences
from midchart.core.text.prompt import body, build_prompt, context_lines, frame_of, limited, limits
from midchart.core.types import (
    Answer,
    Cohort,
    Explanation,
    Gold,
    Instruction,
    Prompt,
    Record,
    Selection,
    Span,
    Verdict,
)


@needs("viewer")
def instruction_for(cohort: Cohort, instruction_id: str) -> Instruction:
    """The instruction with this id; raises UnknownName."""
    for instruction in cohort.instructions:
        if instruction.id == instruction_id:
            return instruction
    raise UnknownName("instruction", instruction_id, [i.id for i in cohort.instructions])


@needs("viewer")
def typed_question(record: Record, question: str) -> Instruction:
    """An instruction for a question somebody typed; the cohort's own where it is the same."""
    question = valid_unicode(question.strip())
    if not question:
        raise InputError("the question is empty; type a question about the record")
    return typed_instruction(record.id, question)


@needs("viewer")
def build_arm(cohort: Cohort | None, name: str, protocol: Protocol) -> Any:
    """An arm by name; the oracle gets the cohort's located evidence, a gated arm the default gate,
    and one that is prepared on a cohort what it needs of it, made on first use."""
    factory = ARMS.get(name)
    if "gate" in inspect.signature(factory).parameters or hasattr(factory, "prepared"):
        from midchart.core.runs.gate_checkpoints import arm_options

        return ARMS.build(name, protocol, **arm_options(name, protocol, {}, cohort))
    if name != "oracle":
        return ARMS.build(name, protocol)
    gold: Mapping[str, Gold] = {}
    if cohort is not None:
        gold = gold_under(cohort, protocol).gold

    def pinned(instruction: Instruction) -> tuple[Span, ...]:
        located = gold.get(instruction.id)
        return located.spans if located is not None else ()

    return ARMS.build(name, protocol, pinned=pinned)


@needs("viewer")
def select(
    cohort: Cohort | None,
    record: Record,
    instruction: Instruction,
    arm: str,
    protocol: Protocol,
    k: int | None = None,
) -> Selection:
    """What ``arm`` keeps of ``record`` for ``instruction``."""
    return build_arm(cohort, arm, protocol).select(record, instruction, protocol.budget(k))


@needs("viewer")
def scores(
    cohort: Cohort | None,
    record: Record,
    instruction: Instruction,
    arms: Sequence[str],
    protocol: Protocol,
) -> ScoreTable:
    """Every candidate sentence's score by each of ``arms``. An arm that is not installed, or cannot
    score this question, has the reason in ``problem``."""
    from midchart.core.arms.scores import score_table

    builders = [(name, partial(build_arm, cohort, name, protocol)) for name in arms]
    return score_table(record, instruction, builders, protocol)


@needs("viewer")
def explain(
    record: Record, instruction: Instruction, arm: str, sentence_id: str, protocol: Protocol
) -> Explanation | None:
    """The terms of a sentence's score by ``arm``; None where the arm has none. Raises UnknownName
    for an arm there is not, or a sentence that the arm does not rank."""
    explainer = getattr(build_arm(None, arm, protocol), "explain", None)
    return None if explainer is None else explainer(record, instruction, sentence_id)


@needs("viewer")
def ask(
    instruction: Instruction,
    selection: Selection,
    reader: str,
    protocol: Protocol,
    options: ReaderOptions | None = None,
) -> tuple[Prompt, Answer]:
    """The prompt for a selection, and the reader's answer; ``options``: the reader's own, as in a
    spec. Raises SpecError or UnknownName for options that it does not take."""
    from midchart.core.readers.twice import as_protocol_reads
    from midchart.core.runs.spec import component_options

    checked = {} if options is None else component_options(READERS, reader, options, protocol)
    built = as_protocol_reads(READERS.build(reader, protocol, **checked), protocol)
    prompt = build_prompt(
        instruction.question,
        selection,
        protocol,
        built.window,
        built.count_tokens,
        frame_of(built),
        instruction.options,
    )
    return prompt, built.read(prompt)


@needs("viewer")
def judge(
    instruction: Instruction, gold: Gold, answer: Answer, name: str, protocol: Protocol
) -> Verdict:
    """A judge's verdict on an answer."""
    return JUDGES.build(name, protocol).judge(instruction, gold, answer)


def gold_ids(record: Record, gold: Gold, protocol: Protocol) -> frozenset[str]:
    """Ids of the sentences that hold the gold evidence, under a protocol's unit."""
    from midchart.core.text.evidence import evidence_parts

    return frozenset(evidence_parts(sentences(record, protocol), gold.spans))


@needs("viewer")
def select_report(
    data: CohortRef, record_id: str, question: str, arm: str, k: int | None, protocol: Protocol
) -> dict[str, Any]:
    """The JSON of ``select --json`` (docs/architecture.md).

    ``sentences``, ``lines``, ``tokens`` and ``position_range`` are of what a prompt shows under the
    protocol's own limits, whole or in part; ``kept_sentences`` and ``kept_tokens`` of all that the
    arm kept, ``cut_sentences`` and ``cut_tokens`` the difference. ``limited`` is false where the
    protocol sets no limit: a reader's window may then still cut. A sentence has a ``title`` where
    it was searched with one; its ``text`` is what is shown.
    """
    cohort = open_data(data)
    ARMS.get(arm)  # an unknown arm is refused before a record is read
    record = cohort.records[record_id]
    of_record = (i for i in cohort.instructions if i.record_id == record.id)
    known = (i for i in of_record if question in (i.question, i.id))
    instruction = next(known, None) or typed_question(record, question)
    # The arm's selection, and what of it enters the prompt.
    selection = select(cohort, record, instruction, arm, protocol, k)
    bound = limits(protocol) or selection.window > 0
    context = context_lines(selection, protocol)
    lines = limited(instruction.question, selection, protocol).context if bound else context
    full_text = {line.sentence_id: line.text for line in context}
    shown = {line.sentence_id: line for line in lines}
    in_prompt = [entry for entry in selection.kept if entry.sentence.id in shown]
    last = max(len(record.events) - 1, 1)
    orders = [entry.sentence.span.event / last for entry in in_prompt]
    rows: list[dict[str, Any]] = []
    tokens = 0
    for entry in in_prompt:
        unit, line = entry.sentence, shown[entry.sentence.id]
        cut_off = selection.lines is None and line.text != full_text[unit.id]
        text = body(line) if cut_off else unit.text
        tokens += unit.tokens if text == unit.text else count_tokens(text)
        rows.append(
            {
                "id": unit.id,
                "event": unit.span.event,
                "time": unit.time.isoformat() if unit.time else None,
                "kind": unit.kind,
                "text": text,
                **({"title": unit.title} if unit.title else {}),
                "score": entry.score,
                "kept_by": entry.kept_by,
            }
        )
    written: dict[str, Any] = {}
    if selection.lines is not None:  # an arm that wrote its context itself
        tokens = sum(count_tokens(body(line)) for line in lines) if bound else selection.tokens
        of_arm = lines if bound else selection.lines
        written["lines"] = [{"id": line.sentence_id, "text": line.text} for line in of_arm]
    return {
        "record": record.id,
        "question": instruction.question,
        "arm": arm,
        "protocol": protocol.as_dict() | ({} if k is None else {"k": k}),
        "sentences": rows,
        **written,
        "tokens": tokens,
        "kept_sentences": len(selection.kept),
        "kept_tokens": selection.tokens,
        "cut_sentences": len(selection.kept) - len(in_prompt),
        "cut_tokens": selection.tokens - tokens,
        "limited": bound,
        "position_range": [min(orders), max(orders)] if orders else None,
    }
