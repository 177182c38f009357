"""How much of the evidence a context contains verbatim, and when that is unknown."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from midchart.core.arms.hits import question_of
from midchart.core.protocol import parse
from midchart.core.runs.schemas import line_rows, wording
from midchart.core.text import sentences
from midchart.core.text.evidence import (
    LEAST_SHOWN,
    evidence_in_lines,
    evidence_parts,
)
from midchart.core.types import (
    Cohort,
    ContextLine,
    Event,
    Gold,
    Instruction,
    Kept,
    Manifest,
    Prompt,
    Record,
    Selection,
    Sentence,
    Span,
)

NOTE = "Dose of metformin is 500 mg.\nNo fever was seen.\nWell in herself."
RECORD = Record("p", (Event(0, datetime(2020, 1, 1), "note", text=NOTE),), "shown")


def span_of(text: str) -> Span:
    return Span(0, NOTE.index(text), NOTE.index(text) + len(text))


def asked(*evidence: str, answer: str = "500 mg metformin"):
    instruction = Instruction("i", "p", "Dose?")
    gold = Gold("i", answer, evidence, tuple(map(span_of, evidence)), 0.0, 0.0)
    cohort = Cohort("", "", Manifest(""), {"p": RECORD}, (instruction,), {"i": gold})
    return question_of(cohort, instruction, parse({"position": "order"}))


def units() -> dict[str, Sentence]:
    return {s.id: s for s in sentences(RECORD, parse())}


def wrote(*lines: ContextLine, arm: str = "llmlingua2") -> Selection:
    selected = tuple(
        Kept(units()[line.sentence_id], 0.5, "arm") for line in lines if line.shown != ()
    )
    return Selection("p", "i", arm, selected, 0, lines=lines)


def facts_shown(question, selection: Selection, *lines: ContextLine) -> dict[str, object]:
    """What is known of a prompt with these lines."""
    return question.prompted(Prompt("", "?", lines, 0), selection)


def test_parts_are_the_evidence_sentence_by_sentence():
    parts = evidence_parts(units().values(), [span_of("500 mg.\nNo fever"), span_of("herself")])
    assert {id: [NOTE[s.start : s.end] for s in spans] for id, spans in parts.items()} == {
        "e0.0": ["500 mg."],
        "e0.1": ["No fever"],
        "e0.2": ["herself"],
    }


@for_all(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=5))
def test_the_sentences_with_a_part_are_the_gold_sentences(spans):
    gold_spans = [Span(0, a, min(len(NOTE), a + n)) for a, n in spans]
    parts = evidence_parts(units().values(), gold_spans)
    held = {u.id for u in units().values() if any(u.span.overlaps(one) for one in gold_spans)}
    assert parts.keys() == held
    assert all(s.end > s.start for spans_of_part in parts.values() for s in spans_of_part)


@pytest.mark.parametrize(
    ("shown", "share", "held"),
    [
        ("metformin is 500 mg", 1.0, True),
        ("500 mg", 6 / 16, False),
        ("metformin", 9 / 16, True),
        ("Dose of", 0.0, False),
    ],
)
def test_a_compressed_line_holds_evidence_where_half_of_it_is_left(shown, share, held):
    question = asked("metformin is 500")  # 16 characters
    line = ContextLine("e0.0", f"[2020-01-01] {shown}", (span_of(shown),))
    (evidence,) = evidence_in_lines([line], question.parts).values()
    expected = {"500 mg": 3 / 16}.get(shown, share)
    assert evidence == pytest.approx(expected)
    hits = question.hits(wrote(line))
    assert hits["evidence"] is (expected >= LEAST_SHOWN) is held
    assert hits["evidence_share"] == pytest.approx(expected)
    shown_to_a_reader = facts_shown(question, wrote(line), line)
    assert shown_to_a_reader["evidence_in_prompt"] is held
    assert shown_to_a_reader["evidence_share_in_prompt"] == pytest.approx(expected)


def test_whole_sentences_hold_all_of_it_and_shares_weigh_by_length():
    question = asked("metformin is 500 mg", "No fever")  # 19 and 8 characters
    complete = Selection("p", "i", "bm25", (Kept(units()["e0.0"], 1.0, "arm"),), 0)
    hits = question.hits(complete)
    assert hits["evidence"] and hits["evidence_share"] == pytest.approx(19 / 27)
    assert (wording(complete), line_rows(complete)) == ("sentences", None)


def test_evidence_in_a_summary_is_judged_only_by_its_words():
    question = asked("metformin is 500 mg")
    summary = wrote(ContextLine("e0.0", "[2020-01-01] on metformin", ()), arm="map_reduce")
    hits = question.hits(summary)
    assert (hits["lexical"], hits["evidence"], hits["evidence_share"]) == (True, None, None)
    prompted = facts_shown(question, summary, *summary.lines)
    assert prompted["evidence_in_prompt"] is prompted["evidence_share_in_prompt"] is None
    other = wrote(ContextLine("e0.0", "[2020-01-01] seen in clinic", ()), arm="map_reduce")
    assert question.hits(other)["lexical"] is False
    assert wording(summary) == "summaries"
    assert line_rows(summary) == [{"id": "e0.0", "text": "[2020-01-01] on metformin"}]
    nothing = facts_shown(question, summary)
    assert (nothing["evidence_in_prompt"], nothing["evidence_share_in_prompt"]) == (False, 0.0)


def test_lexical_hits_are_counted_in_the_written_text():
    question = asked("metformin is 500 mg", answer="metformin")
    line = ContextLine("e0.0", "[2020-01-01] 500 mg", (span_of("500 mg"),))
    assert question.hits(wrote(line))["lexical"] is False
    assert wording(wrote(line)) == "compressed"


def test_unlocated_evidence_stays_unknown():
    question = asked()
    empty = Selection("p", "i", "bm25", (), 0)
    assert facts_shown(question, empty, ContextLine("e0.0", "x"))["evidence_in_prompt"] is None
    assert question.hits(empty)["evidence_share"] is question.hits(empty)["evidence_chance"] is None
