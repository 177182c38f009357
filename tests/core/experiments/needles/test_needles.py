"""Needles: new to the record, with one correct answer; only their position changes."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.experiments.needles.cohort import (
    Haystack,
    PlacedRecord,
    cut,
    insert,
    tokens_of,
)
from midchart.core.experiments.needles.needles import Needle, make_needles
from midchart.core.protocol import Protocol
from midchart.core.text import event_text, sentences
from midchart.core.types import Event, Record

DEPTHS = tuple(range(0, 101, 10))
PROTOCOL = Protocol()
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def record_of(parts: list[tuple[str, int, str]], id: str = "p1") -> Record:
    """A record of (kind, days since the last event, text)."""
    time, events = datetime(2015, 3, 1, 8), []
    for order, (kind, days, text) in enumerate(parts):
        time += timedelta(days=days)
        name = "Note" if kind == "note" else "Glucose"
        events.append(Event(order, time, kind, name=name, text=text))
    return Record(id, tuple(events), f"{hash(tuple(parts)):x}")


LINES = st.lists(
    st.sampled_from(["Seen today, no complaint.", "Plan: as before.", "", "  BP 120/70, pulse 64"]),
    min_size=1,
    max_size=12,
).map("\n".join)
PARTS = st.lists(
    st.one_of(
        st.tuples(st.just("measurement"), st.integers(0, 40), st.sampled_from(["98", "104.5"])),
        st.tuples(st.just("note"), st.integers(0, 40), LINES),
    ),
    min_size=30,
    max_size=60,
)


def needles_of(record: Record, count: int = 4, distractors: int = 8, seed: int = 42):
    text = "\n".join(map(event_text, record.events))
    return make_needles(record.id, text, date(2015, 3, 1), count, distractors, seed)


def cut_to(record: Record, length: int) -> Haystack | str:
    return cut(record, tokens_of(record, PROTOCOL), length, PROTOCOL)


def haystack_of(record: Record) -> Haystack:
    shortened = cut_to(record, 150)
    assert isinstance(shortened, Haystack)
    return shortened


def without(placed: PlacedRecord) -> list[Event]:
    """The events of a placed record with the lines that were put in taken out again."""
    spans = sorted((*placed.gold.spans, *placed.distractors), key=lambda s: (s.event, -s.start))
    texts = {e.order: e.text for e in placed.record.events}
    inserted = set()
    for span in spans:
        text = texts[span.event]
        if (span.start, span.end) == (0, len(text)):
            inserted.add(span.event)
        else:
            assert text[span.start - 1] == "\n"
            texts[span.event] = text[: span.start - 1] + text[span.end :]
    events = [e for e in placed.record.events if e.order not in inserted]
    return [replace(e, text=texts[e.order], order=i) for i, e in enumerate(events)]


@settings(max_examples=40, deadline=None)
@given(PARTS, st.sampled_from(DEPTHS), st.sampled_from([0, 2, 8]))
def test_inserting_a_needle_changes_neither_order_nor_times(parts, depth: int, distractors: int):
    haystack = haystack_of(record_of(parts))
    needle = needles_of(haystack.record, 1)[0]
    placed = insert("x", haystack, needle, depth / 100, distractors, seed=1)
    events = placed.record.events
    times = [event.time for event in events]
    assert times == sorted(times)
    assert [event.order for event in events] == list(range(len(events)))
    assert without(placed) == [replace(e, order=i) for i, e in enumerate(haystack.events)]
    everything = "\n".join(map(event_text, events))
    assert everything.count(needle.statement) == 1
    (span,) = placed.gold.spans
    assert event_text(events[span.event])[span.start : span.end] == needle.statement
    texts = [event_text(events[s.event])[s.start : s.end] for s in placed.distractors]
    assert sorted(texts) == sorted(needle.distractors[:distractors])
    # The needle is a line that is scored and shown on its own.
    assert needle.statement in [s.text for s in sentences(placed.record, PROTOCOL)]


@settings(max_examples=40, deadline=None)
@given(PARTS)
def test_depths_are_hit_within_a_line_and_ascend(parts):
    haystack = haystack_of(record_of(parts))
    needle = needles_of(haystack.record, 1)[0]
    depths_reached = [
        insert("x", haystack, needle, depth / 100, 0, seed=1).reached for depth in DEPTHS
    ]
    before = [point.before for point in haystack.points]
    assert before == sorted(before) and before[0] == 0 and before[-1] == haystack.total
    line = max(b - a for a, b in pairwise(before))
    for depth, reached in zip(DEPTHS, depths_reached, strict=True):
        # Half of the longest stretch without a line end is as far as the nearest gap can be.
        assert abs(reached - depth / 100) * haystack.total <= line / 2 + 1e-9
    assert line <= max(haystack.tokens)  # never worse than whole events
    assert (
        depths_reached == sorted(depths_reached)
        and depths_reached[0] == 0.0
        and depths_reached[-1] == 1.0
    )


def test_distractors_stay_in_place_while_the_needle_moves():
    haystack = haystack_of(record_of([("measurement", 1, "98")] * 60))
    needle = needles_of(haystack.record, 1)[0]

    def places(depth: int, count: int) -> list[int]:
        """How many of the record's own events stand before each distractor."""
        placed = insert("x", haystack, needle, depth / 100, count, seed=1)
        texts = [event.text for event in placed.record.events]
        return [texts[: texts.index(d)].count("98") for d in needle.distractors[:count]]

    by_depth = [places(depth, 8) for depth in DEPTHS]
    for one in zip(*by_depth, strict=True):
        usual = max(one, key=one.count)
        # A distractor drawn for the needle's own gap gives way, by one place.
        assert sum(place != usual for place in one) <= 1
        assert max(one) - min(one) <= 1
    for depth, eight in zip(DEPTHS, by_depth, strict=True):
        assert places(depth, 2) == eight[:2]
        assert needle_place(haystack, needle, depth) not in eight


def needle_place(haystack: Haystack, needle: Needle, depth: int) -> int:
    placed = insert("x", haystack, needle, depth / 100, 0, seed=1)
    return placed.gold.spans[0].event


def solved(question: str, statements: list[str]) -> str:
    """The statement a question means, by dates alone; fails where it means none or several."""
    asked = _DAY.findall(question)
    days = [_DAY.findall(statement) for statement in statements]
    assert all(len(day) == 1 for day in days)
    wanted = asked[0] if asked else max(day[0] for day in days)
    assert asked or re.search(r"latest|most recent", question)
    matching = [s for s, day in zip(statements, days, strict=True) if day[0] == wanted]
    assert len(matching) == 1
    return matching[0]


@pytest.mark.parametrize("seed", range(8))
def test_distractors_leave_one_right_answer(seed: int):
    record = record_of([("measurement", 1, "98")] * 5)
    needles = needles_of(record, 24, 20, seed)
    assert len(needles) == 24
    for needle in needles:
        everything = [needle.statement, *needle.distractors]
        assert len(set(everything)) == 21
        assert all(needle.thing in statement for statement in everything)
        for count in (0, 2, 20):
            assert solved(needle.question, everything[: count + 1]) == needle.statement
        words = re.findall(r"[\w.-]+", needle.statement.lower())
        assert needle.answer.lower() in [word.rstrip(".") for word in words]
        for other in needle.distractors:
            # The right answer is not in a distractor, by its words.
            answer_words = [word.rstrip(".") for word in re.findall(r"[\w.-]+", other.lower())]
            assert needle.answer.lower() not in answer_words
        assert needle.day < date(2015, 3, 1)


def test_a_cut_is_the_latest_whole_events_and_a_short_record_is_refused():
    record = record_of([("measurement", 1, "98")] * 100)
    each = tokens_of(record, PROTOCOL)[0]
    shortened = cut_to(record, 20 * each)
    assert isinstance(shortened, Haystack)
    assert (shortened.first, shortened.last, shortened.total) == (80, 100, 20 * each)
    short = cut_to(record, 101 * each)
    assert isinstance(short, str) and str(100 * each) in short
    long = record_of([("measurement", 1, "98")] * 100 + [("note", 1, "word " * 40 * each)])
    around = cut_to(long, 20 * each)
    assert isinstance(around, Haystack) and around.last == 100  # the long note does not fit
    lone = cut_to(record_of([("note", 1, "word " * 1000)]), 500)
    assert isinstance(lone, str) and "whole events" in lone
