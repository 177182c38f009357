"""Scores on the Patient page: shades and columns as values, the heat strips, the explanation."""

from __future__ import annotations

import json

import numpy as np
import pytest

from midchart.core import api, figures
from midchart.core.types import Sentence
from midchart.pages.ui.patient import model, reasons, timeline
from midchart.pages.ui.patient.model import ArmView
from midchart.pages.ui.patient.timeline import ORDER, TIME
from tests.support.pages import click, clickable, frame_with, page_html, page_text
from tests.support.patient_cohort import FIRST

pytestmark = pytest.mark.slow


def table_of(*scores: np.ndarray, k: int = 20) -> api.ScoreTable:
    """Sentences six hours apart, two an event, the first one undated; each arm keeps its k best."""
    n = len(scores[0])
    start = np.datetime64("2012-03-01T00:00:00", "s")
    times = start + np.arange(n) * np.timedelta64(6 * 3600, "s")
    times[0] = np.datetime64("NaT")
    sentences = tuple(
        Sentence(f"e{i // 2}.{i % 2}", api.Span(i // 2, 0, 6), None, "note", f"secret {i}", 2)
        for i in range(n)
    )
    arms = []
    for number, values in enumerate(scores):
        rank = model.ranks(values)
        picked = (rank > 0) & (rank <= k)
        selected = picked.copy()
        selected[-2:] = True
        threshold = float(values[picked].min()) if picked.any() else None
        arms.append(api.ArmScores(f"arm{number}", values, picked, selected, threshold))
    events = np.arange(n) // 2
    return api.ScoreTable(sentences, events, events / max(events[-1], 1), times, tuple(arms))


@pytest.mark.parametrize("by", [ORDER, TIME])
@pytest.mark.parametrize("n", [1, 7, 599, 601, 5000])
def test_no_high_score_is_lost_in_columns(by, n):
    values = np.random.default_rng(3).normal(size=n)
    x, of = timeline.columns(table_of(values), by)
    assert len(x) <= timeline.MOST_COLUMNS
    columns = timeline.highest(values, of, len(x))
    on = of >= 0
    assert (~on).sum() == (1 if by == TIME else 0), "only the undated one"
    if on.any():
        assert np.nanmax(columns) == np.float32(values[on].max())
    for column in {*of[on][:50].tolist()}:
        assert columns[column] == np.float32(values[of == column].max())


def test_the_heat_is_small_lies_below_the_arms_and_holds_no_text():
    table = table_of(np.random.default_rng(5).normal(size=5000))
    n = len(table.sentences) // 2
    record = api.Record("p", tuple(api.Event(i, None, "note", "secret") for i in range(n)), "d")
    selection = api.Selection("p", "q", "arm", (), 0)
    views = [ArmView(name, name, selection) for name in ("one", "other")]
    axis = timeline.axis_of(record)
    figure = timeline.figure(axis, views, (), ORDER, ("QCCS gate", table), {}, {})
    assert len(figure.to_json()) < 500_000 and "secret" not in figure.to_json()
    heat = next(t for t in figure.data if t.colorscale == chart_scale() and t.type == "heatmap")
    assert list(heat.y) == [1.58, 2.42] and len(heat.z) == 1
    assert list(figure.layout.yaxis.ticktext) == ["one", "other", "<i>QCCS gate</i>"]
    waiting = timeline.figure(axis, views, (), ORDER, ("QCCS gate", None), {}, {})
    assert waiting.layout.yaxis.ticktext[-1] == "<i>QCCS gate …</i>"
    assert not [t for t in waiting.data if t.type == "heatmap"]


def chart_scale() -> object:
    """Plotly's form of the colour scale of scores."""
    return timeline.go.Heatmap(colorscale=figures.SCORES).colorscale


def test_the_terms_add_up_to_the_score_in_words():
    why = api.Explanation(
        (api.Term("abc", 2.0, ((0, 3),)), api.Term(" bcd ", -1.0, ((1, 4), (5, 8)))), -0.5, "exact"
    )
    assert "= 0.5, the score" in reasons.sum_words(why, 0.5)
    assert "do not make up all" in reasons.sum_words(why, 0.7)
    assert reasons.terms_frame(why)["term"].tolist() == ["abc", "␣bcd␣"]
    assert reasons.terms_frame(why)["places"].tolist() == [1, 2]


@pytest.fixture
def page(patient_page):
    """The Patient page on a question with evidence."""
    patient_page.session_state["patient_patient"] = "9001"
    patient_page.session_state["patient_question"] = "q1"
    return patient_page


def test_a_marker_of_the_map_opens_its_entry_and_its_sentence_is_explained(page, monkeypatch):
    clickable(monkeypatch)
    app = page.run()
    assert "the score." not in page_text(app), "computed when it is opened"
    app.session_state["patient_why"] = True
    record = api.open_data("hand").records["9001"]
    units = api.sentences(record, api.parse())
    [at] = [i for i, unit in enumerate(units) if unit.text == FIRST]
    click(app, "patient_timeline", point=[units[at].span.event, 1, units[at].span.event + 1, at])
    assert app.session_state["patient_open"][2:] == (units[at].span.event, units[at].id)
    assert f"sentence {at + 1} of {len(units)}" in page_html(app)
    assert "the score." in page_text(app)
    assert "yes, by score" in set(frame_with(app, "kept from")["kept"])
    frame = frame_with(app, "part")
    assert frame["term"][0] == "colonoscopy" and frame["part"][0] > 0
    address = json.dumps(dict(app.query_params))
    assert FIRST not in address and units[at].id not in address
