"""The timeline figure: positions of markers, its size, and what a click opens."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from midchart.core import api
from midchart.core.text.prompt import context_lines
from midchart.core.types import Kept, Sentence
from midchart.pages.ui.patient import model, timeline
from midchart.pages.ui.patient.model import ArmView
from midchart.pages.ui.patient.timeline import ORDER, TIME

DAY = datetime(2012, 3, 1)
KINDS = ("measurement", "measurement", "drug_exposure", "visit", "note", "condition", "specimen")


def record_of(n: int, undated: int = 0) -> api.Record:
    """n events, six hours apart, the last ``undated`` of them without a time."""
    events = tuple(
        api.Event(
            i,
            DAY + timedelta(hours=6 * i) if i < n - undated else None,
            KINDS[i % len(KINDS)],
            name=f"secret {i}",
        )
        for i in range(n)
    )
    return api.Record("p", events, f"d{n}")


def view_of(record: api.Record, events: list[int], recent: int = 0) -> ArmView:
    """An arm that kept these events whole, the last ``recent`` for being recent."""
    items: list[Kept] = []
    for place, i in enumerate(events):
        late = place >= len(events) - recent
        sentence = Sentence(f"e{i}", api.Span(i, 0, 5), record.events[i].time, "x", "secret", 1)
        items.append(Kept(sentence, None if late else 2.0, "recency" if late else "arm"))
    return ArmView("bm25", "BM25", api.Selection("p", "q", "bm25", tuple(items), len(items)))


def pieces_at(record: api.Record, *events: int) -> tuple[model.Piece, ...]:
    return tuple(
        model.Piece(
            n,
            api.Span(e, 0, 3),
            frozenset({f"e{e}"}),
            model.position(record, e),
            None,
            {f"e{e}": (api.Span(e, 0, 3),)},
        )
        for n, e in enumerate(events, 1)
    )


def draw(record, views, pieces, by=ORDER):
    return timeline.figure(
        timeline.axis_of(record), views, pieces, by, ("", None), {}, {"bm25": "e50"}
    )


def test_markers_stand_where_their_events_are_and_recent_ones_are_hollow():
    record = record_of(101)
    figure = draw(record, [view_of(record, [10, 50, 100], recent=1)], pieces_at(record, 50, 70))
    [bm25] = [t for t in figure.data if t.name == "BM25"]
    assert list(bm25.x) == [10.0, 50.0, 100.0]
    assert list(bm25.marker.symbol) == ["square", "triangle-down", "square-open"], "its source"
    assert [row[0] for row in bm25.customdata] == [10, 50, 100]
    [gold] = [t for t in figure.data if t.name == "Evidence"]
    assert list(gold.x) == [50.0, 70.0]
    [status] = [t for t in figure.data if t.name == "evidence, BM25"]
    assert list(status.text) == ["kept", "dropped"]
    assert list(status.marker.symbol) == ["circle-open", "x-thin-open"], "told apart by shape"


def test_evidence_on_the_timeline_is_that_in_the_prompt_and_cut_evidence_has_a_mark_of_its_own():
    record = record_of(101)
    view = view_of(record, [10, 50])
    lines = tuple(
        line for line in context_lines(view.selection, api.Protocol()) if line.sentence_id == "e10"
    )
    prompt = api.Prompt("x", "?", lines, 512, ("e50",))
    cut, pieces = replace(view, prompt=prompt), pieces_at(record, 10, 50, 70)
    figure = draw(record, [cut], pieces)
    [status] = [t for t in figure.data if t.name == "evidence, BM25"]
    assert list(status.text) == ["kept", "cut at 512 tokens", "dropped"]
    assert list(status.marker.symbol) == ["circle-open", "circle-x-open", "x-thin-open"]
    [kept_markers] = [t for t in figure.data if t.name == "BM25"]
    assert kept_markers.marker.opacity[0] > kept_markers.marker.opacity[1]
    assert kept_markers.text[0] == "score 2"
    assert kept_markers.text[1] == "score 2; cut at 512 tokens; the answer is from here"
    assert timeline.alt([cut], pieces, 101).endswith(
        "BM25 kept 2, 1 of 3 evidence, cut at 512 tokens"
    )


@pytest.mark.parametrize("by", [ORDER, TIME])
def test_twenty_thousand_events_stay_under_two_megabytes(by):
    record = record_of(20_000)
    everything = view_of(record, list(range(20_000)))
    views = [everything, *(view_of(record, list(range(i, 20_000, 800))) for i in (3, 5, 7))]
    pieces = pieces_at(record, 9_000, 12_000)
    axis = timeline.axis_of(record)
    figure = timeline.figure(axis, views, pieces, by, ("", None), {}, {})
    text = figure.to_json()
    assert len(text) < 2_000_000
    assert "secret" not in text, "hover holds an index, never text of the record"
