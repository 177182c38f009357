"""Positions, bins and located evidence: exact edges, equal to the reference search."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.protocol import Protocol, parse
from midchart.core.text import event_text, sentences
from midchart.core.text.evidence import (
    band_of,
    decile_of,
    evidence_parts,
    is_middle,
    lexical_hits,
    locate,
    place_of,
    positions,
    span_in,
)
from midchart.core.types import Event, Record, Span
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
def test_a_bin_edge_belongs_to_the_right_bin(i: int):
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
def test_bins_equal_exact_fractions(n: int, data: st.DataObject):
    index = data.draw(st.integers(0, n - 1))
    exact = Fraction(index, n - 1)
    assert decile_of(index / (n - 1)) == min(9, math.floor(exact * 10))
    assert is_middle(index / (n - 1)) == (Fraction(3, 10) <= exact <= Fraction(7, 10))


@pytest.mark.parametrize("wrong", [-0.01, 1.01, math.nan])
def test_a_position_outside_is_refused(wrong: float):
    for function in (decile_of, band_of, is_middle):
        with pytest.raises(ValueError, match="lies in"):
            function(wrong)


def test_order_and_time_positions_differ():
    chart = record("a", "b", "c", "d", days=[0, 1, None, 10])
    order, time = positions(chart)
    assert order.tolist() == [0, 1 / 3, 2 / 3, 1]
    assert time == [0.0, 0.1, None, 1.0]
    assert place_of(chart, Span(1, 0, 1)) == (1 / 3, 0.1, 1 / 4)
    for wrong in (4, -1):
        with pytest.raises(IndexError):
            place_of(chart, Span(wrong, 0, 1))


def test_positions_of_small_records():
    assert positions(record())[1] == []
    first = Span(0, 0, 1)
    assert place_of(record("a"), first) == (0.0, 0.0, 0.0)
    assert place_of(record("a", "b", days=[3, 3]), Span(1, 0, 1)) == (1.0, 0.0, 0.5)
    assert place_of(record("a", days=[None]), first) == (0.0, None, 0.0)


def test_token_position_tells_places_within_one_note_apart():
    text = " ".join(f"w{i}" for i in range(10))
    one = record(text)
    located = [locate(one, [f"w{i}"]) for i in range(10)]
    assert [f.place.token for f in located if f.place] == [i / 10 for i in range(10)]
    assert {f.place.order for f in located if f.place} == {0.0}
    two = record(text, "x", text)
    place = locate(two, ["x"]).place
    assert place is not None and place.token == 10 / 21


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


RULES = [Protocol(), parse("published"), parse({"locate_threshold": 0.3})]


def outcome_of(chart: Record, snippets: list[str], rule: Protocol):
    """What locate finds, in the plain version's shape."""
    return [
        None if m is None else (m.event, m.score, (m.span.start, m.span.end), m.candidates)
        for m in locate(chart, snippets, rule).matches
    ]


@settings(max_examples=60, deadline=None)
@given(CHARTS, st.lists(TEXT | st.text(max_size=40), max_size=3), st.data())
def test_the_pruned_search_equals_the_reference(texts: list[str], free: list[str], data):
    chart = record(*texts)
    event_texts = [event_text(event) for event in chart.events]
    quoted = [
        t[a : a + 60] for t in event_texts for a in [data.draw(st.integers(0, max(0, len(t) - 1)))]
    ]
    snippets = [*free, *quoted]
    for rule in RULES:
        assert outcome_of(chart, snippets, rule) == plain.locate(chart, snippets, rule)


def test_a_long_record_is_searched_completely():
    rng = np.random.default_rng(5)
    vocabulary = np.array([f"w{i}" for i in range(400)])
    texts = [" ".join(rng.choice(vocabulary, int(n))) for n in rng.integers(1, 160, 100)]
    chart = record(*texts)
    snippets = [
        " ".join(rng.permutation(texts[int(i)].split())[:9]) for i in rng.integers(0, 100, 6)
    ]
    for rule in RULES:
        assert outcome_of(chart, snippets, rule) == plain.locate(chart, snippets, rule)


@pytest.mark.parametrize("preset", ["corrected", "published"])
def test_the_earliest_of_equal_places_is_taken_and_how_many_there_are_is_kept(preset: str):
    copied = "Aspirin was stopped."
    chart = record(copied, "nothing here", f"{copied} Again: {copied}")
    located = locate(chart, [copied], parse(preset))
    assert located.best is not None and located.best.event == 0
    assert located.place == (0.0, 0.0, 0.0)
    candidates = located.matches[0].candidates if located.matches[0] else 0
    assert candidates == (3 if preset == "corrected" else 1), "the paper's ratio sees the lengths"


def test_another_patients_evidence_is_refused_and_the_published_rule_accepts_it():
    chart = record("He takes metformin 500 mg twice daily.", "Potassium was 5.9 mmol/L today.")
    foreign = ["He takes lisinopril 20 mg once daily.", "Potassium was 4.1 mmol/L today."]
    assert locate(chart, foreign).unlocated == 2
    assert locate(chart, foreign, parse("published")).unlocated == 0
    near = ["he takes Metformin\n500 mg twice daily", "Potassium 5.9 mmol/L today"]
    matches = locate(chart, near).matches
    assert [m.event for m in matches if m] == [0, 1]
    assert [m.score for m in matches if m] == [1.0, 0.95], "quoted, and in other words"


def test_words_scattered_over_a_long_note_are_not_evidence():
    words_of = ["metformin", "was", "stopped", "because", "of", "acidosis"]
    scattered = record(" ".join(f"{w} " + "other text here and there " * 5 for w in words_of))
    assert locate(scattered, [" ".join(words_of)]).unlocated == 1
    assert locate(scattered, [" ".join(words_of)], parse("published")).unlocated == 0


def test_a_number_within_another_is_not_quoted():
    chart = record("Dose 25 mg.", "Dose 5 mg.")
    assert [m.event for m in locate(chart, ["5 mg"]).matches if m] == [1]
    a, b = span_in("Dose 25 mg, later 5 mg.", "5 mg")
    assert (a, b) == (18, 22)


def test_several_snippets_each_have_a_place_and_the_best_gives_the_position():
    first = "Chest pain.\nHe was told to stop aspirin on discharge."
    chart = record(first, "BP fine.", "Potassium was 5.9 today.")
    located = locate(chart, ["Potassium was 5.9 today.", "stop  aspirin", "qqq zzz", "", "—"])
    assert located.unlocated == 3
    assert [event_text(chart.events[s.event])[s.start : s.end] for s in located.spans] == [
        "stop aspirin",
        "Potassium was 5.9 today.",
    ]
    assert located.place is not None and located.place.order == 0.0, "the first of equals"
    none = locate(chart, ["zzz"])
    assert (none.spans, none.best, none.place) == ((), None, None)
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
    assert evidence_parts(units, [Span(0, second, second + 3)]).keys() == {"e0.1"}
    assert evidence_parts(units, [Span(0, second - 1, second)]).keys() == set()
    everything = [Span(1, 0, 1), Span(0, 0, len(text))]
    assert evidence_parts(units, everything).keys() == {"e0.0", "e0.1", "e0.2", "e1"}


def test_a_lexical_hit_is_a_whole_word_of_four_letters():
    texts = ["Takes METFORMIN daily", "metformins", "was 5.9 mg, twice", "the day 1234", ""]
    assert lexical_hits(texts, "metformin") == [True, False, False, False, False]
    assert lexical_hits(texts, "5.9 mg the 1234") == [False] * 5, "three letters, or no letters"
    assert lexical_hits(texts, "Twice daily") == [True, False, True, False, False]
    assert lexical_hits([], "metformin") == []
