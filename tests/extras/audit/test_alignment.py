"""Text that somebody cut from a record is found where it was, and nothing else is."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.protocol import Protocol
from midchart.core.text import event_text
from midchart.core.types import Event, Record, Span
from midchart.extras.audit.alignment import Shingles, aligned, shown

NOTE = (
    "She was started on apixaban 5 mg twice daily for new atrial fibrillation. "
    "Creatinine was 1.4 mg/dL on admission and fell to 1.1 mg/dL by discharge."
)
EVENTS = (
    Event(0, datetime(2020, 1, 2), "note", name="Discharge summary", text=NOTE),
    Event(1, datetime(2020, 3, 4), "measurement", name="Hemoglobin", text="9.1", unit="g/dL"),
    Event(2, datetime(2020, 5, 6), "measurement", name="Hemoglobin", text="9.1", unit="g/dL"),
    Event(3, datetime(2020, 6, 7), "note", name="Letter",
          text="No falls since the last visit; the walking frame is used outdoors only."),
)  # fmt: skip
RECORD = Record("p1", EVENTS, "alignment-p1")
PROTOCOL = Protocol()


def places(text: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """Of each passage: its source, and event and characters of its places."""
    texts = [event_text(event) for event in EVENTS]
    return [
        (one.source, [(s.event, texts[s.event][s.start : s.end]) for s in one.spans])
        for one in aligned(text, RECORD, PROTOCOL)
    ]


def test_a_chunk_that_is_cut_in_the_middle_and_reflowed_is_found_word_for_word():
    chunk = "apixaban   5 mg twice\ndaily for NEW atrial fibrillation. Creatinine was 1.4"
    [(source, [(event, quoted)])] = places(chunk)
    assert (source, event) == ("same", 0)
    assert quoted == "apixaban 5 mg twice daily for new atrial fibrillation. Creatinine was 1.4"


def test_a_number_that_was_changed_in_equal_text_is_named_with_the_records_own():
    changed = NOTE.replace("1.4 mg/dL on", "4.1 mg/dL on")
    passages = aligned(changed, RECORD, PROTOCOL)
    assert [one.source for one in passages] == ["same", "changed", "same"]
    assert passages[1].altered == ("4.1", "1.4")


def test_words_that_a_chunks_edge_cuts_are_the_records():
    first, second, third = places("ixaban 5 mg twice daily for new atrial fibr\n---\nand fell to")[
        :3
    ]
    assert [one[0] for one in (first, second, third)] == ["same", "same", "same"]
    assert [first[1], third[1]] == [[(0, "ixaban")], [(0, "fibr")]]
    assert places("atypical falls since the last visit; the walking frame")[0][0] == "other"


def test_a_cut_number_is_not_taken_for_the_records():
    note = "She has taken enoxaparin since May, at a dose of 40 mg."
    record = Record("p2", (Event(0, None, "note", text=note),), "alignment-p2")
    passages = aligned(note.partition("0 mg")[0], record, PROTOCOL)
    assert [one.source for one in passages] == ["same", "other"], "4 is no part of 40"


def test_a_time_before_a_line_and_a_notes_title_are_no_foreign_text():
    stamped = places("2020-03-04 11:50 Hemoglobin: 9.1 g/dL\n[2020-01-02 08:00] Discharge summary")
    assert [one for one in stamped if one[0] == "same"] == [
        ("same", [(1, "Hemoglobin: 9.1 g/dL")]), ("same", []),
    ]  # fmt: skip
    assert places("2020-06-07 08:00 Letter")[-1] == ("same", [])
    assert places("2020-06-08 08:00 Letter")[-1][0] == "other", "a word alone needs its date"


def test_a_date_before_each_line_is_no_change_of_the_record():
    first, second = NOTE.split(". C")
    lines = f"[2020-01-02] {first}.\n[2020-01-02] C{second}"
    passages = aligned(lines, RECORD, PROTOCOL)
    assert [one.source for one in passages] == ["other", "same", "other", "same"]
    assert not any(one.altered[0] for one in passages)


def test_equal_lines_are_at_both_places_unless_a_date_is_stated():
    assert places("Hemoglobin: 9.1 g/dL") == [
        ("same", [(1, "Hemoglobin: 9.1 g/dL"), (2, "Hemoglobin: 9.1 g/dL")])
    ]
    dated = places("[2020-05-06] Hemoglobin: 9.1 g/dL")
    assert dated[-1] == ("same", [(2, "Hemoglobin: 9.1 g/dL")])


@pytest.mark.parametrize(
    "line", ("Hemoglobin 9.1", "9.1 g/dL hemoglobin", "result Hemoglobin = 9.1 g/dL")
)
def test_a_value_in_another_layout_is_the_records(line: str):
    assert {event for _, spans in places(line) for event, _ in spans} >= {1, 2}


def test_a_date_before_a_line_is_not_taken_for_text_of_the_record():
    seen = "Seen on 2020-01-02 for pain."
    record = Record("p3", (Event(0, None, "note", text=seen),), "alignment-p3")
    [passage] = aligned("[2020-01-02]\n", record, PROTOCOL)
    assert (passage.source, passage.spans) == ("other", ())


def test_invented_text_has_no_place():
    assert places("Seven lanterns were hung along the canal before the regatta began.") == [
        ("other", [])
    ]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 12))
def test_every_order_of_events_cut_anywhere_gives_characters_that_hold_the_same_words(order, cut):
    texts = [event_text(EVENTS[i]) for i in order]
    text = "\n".join([*texts[:-1], " ".join(texts[-1].split()[cut:])])
    for passage in aligned(text, RECORD, PROTOCOL):
        if passage.source == "same":
            words = text[passage.start : passage.end].lower().split()
            for span in passage.spans:
                of_record = event_text(EVENTS[span.event])[span.start : span.end].lower().split()
                assert "".join(of_record).strip(".;:") == "".join(words).strip(".;:")


def test_overlapping_chunks_are_shown_once():
    half = len(NOTE) // 2
    spans = shown([*aligned(NOTE[: half + 30], RECORD, PROTOCOL),
                   *aligned(NOTE[half - 30 :], RECORD, PROTOCOL)])  # fmt: skip
    [note] = [span for span in spans if span.end - span.start > 60]
    assert (note.event, note.start) == (0, 0) and note.end >= len(NOTE) - 1


def test_text_of_another_patient_is_known_and_joins_a_text_without_a_name():
    note = "Penicillin gave her hives at age nine, so the ward uses clindamycin instead."
    other = Record("p2", (Event(0, None, "note", text=note),), "alignment-p2")
    foreign = "hives at age nine, so the ward uses clindamycin"
    shingles = Shingles([NOTE, foreign])
    shingles.compare(RECORD, "p1")
    shingles.compare(other, "p2")
    assert shingles.elsewhere(foreign, "p1") and not shingles.elsewhere(foreign, "p2")
    assert [shingles.record_of(i, 0.6, 3) for i in (0, 1)] == ["p1", "p2"]
    assert shingles.record_of(1, 0.6, 50) == ""


def test_spans_lie_within_their_events():
    for passage in aligned("\n".join(map(event_text, EVENTS)), RECORD, PROTOCOL):
        for span in passage.spans:
            assert isinstance(span, Span)
            assert 0 <= span.start < span.end <= len(event_text(EVENTS[span.event]))
