"""Splitting a record into sentences loses nothing, and chat tokens are neutralised."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.protocol import parse
from midchart.core.text import (
    count_tokens,
    cut_note,
    event_text,
    sentences,
    word_spans,
    words,
)
from midchart.core.types import Event, Record

NOTE = st.text(
    alphabet=st.sampled_from("ab .,;:!?\n\t19ÄDr°•-()\"'") | st.characters(codec="utf-8"),
    max_size=400,
)


def test_tokens_are_words_and_marks():
    assert count_tokens("A-1c: 7.2 %, naïve 漢字") == 11


def test_a_long_line_of_numbers_is_cut_whether_or_not_a_blank_ends_it():
    text = " ".join(map(str, range(200)))
    pieces = [text[a:b] for a, b in cut_note(text)]
    assert [count_tokens(piece) for piece in pieces] == [96, 96, 8]  # one and a half times 64
    assert [text[a:b] for a, b in cut_note(text + " ")] == pieces


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Event(0, None, "measurement", "LOINC/4548-4", "Hemoglobin A1c", "8.1", "%"),
         "Hemoglobin A1c: 8.1 %"),
        (Event(0, None, "drug_exposure", "RxNorm/966220", "levothyroxine 25 MCG", "start"),
         "levothyroxine 25 MCG (start)"),
        (Event(0, None, "visit", "", "Inpatient Visit", "start|end"),
         "Inpatient Visit (start and end)"),
        (Event(0, None, "condition", "ICD10CM/I10", "Essential hypertension", ""),
         "Essential hypertension"),
        (Event(0, None, "condition", "ICD10CM/I10", "", ""), "ICD10CM/I10"),
        (Event(0, None, "note", "", "Progress Note", "Seen today.\n"), "Seen today.\n"),
    ],
)  # fmt: skip
def test_the_text_of_an_event(event, text):
    assert event_text(event) == text


def test_units_of_a_record_know_their_event_and_characters():
    events = (
        Event(0, datetime(2020, 1, 1), "note", "", "Note", "First line.\nSecond one. Third."),
        Event(1, datetime(2020, 1, 2), "drug_exposure", "", "aspirin 81 MG", "start"),
        Event(2, None, "condition", "", "", ""),
    )
    record = Record("p", events, "digest-of-text-test")
    cut = sentences(record, parse("corrected"))
    assert [s.id for s in cut] == ["e0.0", "e0.1", "e0.2", "e1"]
    for s in cut:
        assert event_text(events[s.span.event])[s.span.start : s.span.end] == s.text
    whole_events = sentences(record, parse("published"))
    assert [s.id for s in whole_events] == ["e0", "e1"]
    dropped = sentences(record, parse({"interval_events": "dropped"}))
    assert [s.id for s in dropped] == ["e0.0", "e0.1", "e0.2"]


@given(NOTE)
def test_words_stand_where_their_spans_say(text):
    spans = word_spans(text)
    assert [word for word, _, _ in spans] == words(text)
    assert all(word in text[start:end].lower() for word, start, end in spans)


def test_lower_casing_keeps_character_positions():
    text = "İİ fever"
    assert ("fever", 3, 8) in word_spans(text)
