"""Positions, bands, located evidence: fixed edges, the plain search's exact result."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import evidence
from core.evidence import (
    band_of,
    decile_of,
    gold_sentence_ids,
    is_middle,
    lexical_hits,
    locate,
    position,
    positions,
    span_in,
)
from core.protocol import Protocol
from core.text import event_text, sentences, words
from core.types import Event, Record, Span
from tests.reference import evidence as plain

START = datetime(2020, 1, 1)


def record(*texts: str, days: list[int | None] | None = None, kind: str = "note") -> Record:
    days = days if days is not None else list(range(len(texts)))
    events = tuple(
        Event(i, None if day is None else START + timedelta(days=day), kind, name="Note", text=t)
        for i, (t, day) in enumerate(zip(texts, days, strict=True))
    )
    return Record("r", events, repr((kind, texts, days)))


@pytest.mark.parametrize("i", range(11))
def test_an_edge_belongs_to_the_right(i: int):
    decile = min(i, 9)
    computed = [i / 10, i * 0.1, 1 - (10 - i) / 10, (i + 1) / 10 - 0.1, 2 * i / 20, 3 * i / 30]
    computed.append(float(np.linspace(0, 1, 11)[i]))
    assert [decile_of(p) for p in computed if 0 <= p <= 1] == [decile] * sum(
        0 <= p <= 1 for p in computed
    )
    right = ["0-10", *["10-30", "30-50", "50-70", "70-90"], "90-100"]
    bands = [right[(i + 1) // 2] for i in range(10)] + ["90-100"]
    assert {band_of(p) for p in computed if 0 <= p <= 1} == {bands[i]}
    assert {is_middle(p) for p in computed if 0 <= p <= 1} == {3 <= i <= 7}


@given(st.integers(2, 5000), st.data())
def test_every_count_lands_where_exact_fractions_do(n: int, data: st.DataObject):
    index = data.draw(st.integers(0, n - 1))
    exact = Fraction(index, n - 1)
    assert decile_of(index / (n - 1)) == min(9, math.floor(exact * 10))
    assert is_middle(index / (n - 1)) == (Fraction(3, 10) <= exact <= Fraction(7, 10))


@pytest.mark.parametrize("wrong", [-0.01, 1.01, math.nan])
def test_a_position_outside_is_refused(wrong: float):
    for function in (decile_of, band_of, is_middle):
        with pytest.raises(ValueError, match="lies in"):
            function(wrong)


def test_order_and_time_are_two_things():
    chart = record("a", "b", "c", "d", days=[0, 1, None, 10])
    order, time = positions(chart)
    assert order.tolist() == [0, 1 / 3, 2 / 3, 1]
    assert time == [0.0, 0.1, None, 1.0]
    assert position(chart, 1) == (1 / 3, 0.1)
    with pytest.raises(IndexError):
        position(chart, 4)
    with pytest.raises(IndexError):
        position(chart, -1)


def test_positions_of_small_records():
    assert positions(record())[1] == []
    assert position(record("a"), 0) == (0.0, 0.0)
    assert position(record("a", "b", days=[3, 3]), 1) == (1.0, 0.0)
    assert position(record("a", days=[None]), 0) == (0.0, None)


WORDS = st.sampled_from(
    [
        "metformin",
        "Metformin",
        "500",
        "mg",
        "daily.",
        "stopped",
        "the",
        "The",
        "7.2%",
        "no\n",
        "\n-",
    ]
)
TEXT = st.lists(WORDS, max_size=120).map(" ".join)
CHARTS = st.lists(TEXT, min_size=0, max_size=12)


def told(chart: Record, snippets: list[str]):
    """What locate finds, in the plain version's shape."""
    return [
        None if m is None else (m.event, m.score, (m.span.start, m.span.end))
        for m in locate(chart, snippets).matches
    ]


@settings(max_examples=150, deadline=None)
@given(CHARTS, st.lists(TEXT | st.text(max_size=40), max_size=3), st.data())
def test_the_pruned_search_is_the_plain_one(texts: list[str], free: list[str], data):
    chart = record(*texts)
    said = [event_text(event) for event in chart.events]
    quoted = [t[a : a + 60] for t in said for a in [data.draw(st.integers(0, max(0, len(t) - 1)))]]
    snippets = [*free, *quoted]
    assert told(chart, snippets) == plain.locate(chart, snippets)


def test_a_long_record_is_searched_like_a_short_one():
    rng = np.random.default_rng(5)
    vocabulary = np.array([f"w{i}" for i in range(400)])
    texts = [" ".join(rng.choice(vocabulary, int(n))) for n in rng.integers(1, 160, 300)]
    chart = record(*texts)
    snippets = [
        " ".join(rng.permutation(texts[int(i)].split())[:9]) for i in rng.integers(0, 300, 12)
    ]
    assert told(chart, snippets) == plain.locate(chart, snippets)


def test_the_earliest_wins_ties():
    chart = record("Aspirin was stopped.", "nothing here", "Aspirin was stopped.")
    located = locate(chart, ["Aspirin was stopped."])
    assert [m.event for m in located.matches if m] == [0]
    assert (located.order, located.time) == (0.0, 0.0)


def test_several_snippets_each_have_a_place_and_the_best_gives_the_position():
    first = "Chest pain.\nHe was told to stop aspirin on discharge."
    chart = record(first, "BP fine.", "Potassium was 5.9 today.")
    located = locate(chart, ["Potassium was 5.9 today.", "stop  aspirin", "qqq zzz", ""])
    assert located.unlocated == 2
    assert [event_text(chart.events[s.event])[s.start : s.end] for s in located.spans] == [
        "stop aspirin",
        "Potassium was 5.9 today.",
    ]
    assert located.order == 1.0
    none = locate(chart, ["zzz"])
    assert (none.spans, none.order, none.time) == ((), None, None)
    assert locate(record(), ["x"]).matches == (None,)


def test_a_span_verbatim_or_by_sentences():
    text = "First line.\nHe takes  metformin 500 mg\ndaily. He sleeps well. Last one."
    a, b = span_in(text, "metformin 500 mg daily.")
    assert text[a:b] == "metformin 500 mg\ndaily."
    a, b = span_in(text, "sleeps well he does")
    assert text[a:b] == "He sleeps well."


def test_gold_sentences_overlap_the_spans():
    chart = record("One thing here.\nAnother thing there.\nA third.", "Alone.")
    units = sentences(chart, Protocol())
    text = event_text(chart.events[0])
    second = text.index("Another")
    assert gold_sentence_ids(units, [Span(0, second, second + 3)]) == {"e0.1"}
    assert gold_sentence_ids(units, [Span(0, second - 1, second)]) == set()
    everything = [Span(1, 0, 1), Span(0, 0, len(text))]
    assert gold_sentence_ids(units, everything) == {"e0.0", "e0.1", "e0.2", "e1"}


def test_a_lexical_hit_is_a_whole_word_of_four_letters():
    texts = ["Takes METFORMIN daily", "metformins", "was 5.9 mg, twice", "the day 1234", ""]
    assert lexical_hits(texts, "metformin") == [True, False, False, False, False]
    assert lexical_hits(texts, "5.9 mg the 1234") == [False] * 5, "three letters, or no letters"
    assert lexical_hits(texts, "Twice daily") == [True, False, True, False, False]
    assert lexical_hits([], "metformin") == []


def test_the_index_of_a_record_is_made_once(monkeypatch: pytest.MonkeyPatch):
    chart = record("unique text for this test")
    locate(chart, ["unique text"])
    monkeypatch.setattr(evidence, "_Index", None)
    assert locate(chart, ["this test"]).order == 0.0


def test_a_very_long_text_has_the_same_words():
    text = "Ünder_score  word\u2028next\x1c7.2% no\r\nİstanbul " * 25_000
    assert evidence._distinct_words(text) == set(words(text))
