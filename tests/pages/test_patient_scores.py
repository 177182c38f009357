"""Scores on the Patient page: shades, columns and walks as values, figures by size, the view."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hyp

from midchart.core import api
from midchart.core.types import Sentence
from midchart.pages.ui.patient import cached, contributions, explanation, score_arrays, score_charts
from midchart.pages.ui.patient.score_arrays import BY_RANK, BY_SCORE, ORDER, SENTENCE, TIME
from midchart.pages.ui.shared import marks
from midchart.pages.ui.shared.marks import plain
from tests.support.pages import click, clickable, frame_with, page_html, page_text
from tests.support.patient_cohort import FIRST

pytestmark = pytest.mark.slow

some = hyp.one_of(hyp.just(float("nan")), hyp.integers(-5, 5).map(float), hyp.floats(-9, 9))
values_of = hyp.lists(some, min_size=1, max_size=60).map(np.array)


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
        rank = score_arrays.ranks(values)
        picked = (rank > 0) & (rank <= k)
        selected = picked.copy()
        selected[-2:] = True
        threshold = float(values[picked].min()) if picked.any() else None
        arms.append(api.ArmScores(f"arm{number}", values, picked, selected, threshold))
    events = np.arange(n) // 2
    return api.ScoreTable(sentences, events, events / max(events[-1], 1), times, tuple(arms))


def strips_of(table: api.ScoreTable) -> list[score_charts.Strip]:
    return [score_charts.Strip(a, a.arm.upper()) for a in table.arms]


@given(values_of)
def test_ranks_are_those_of_a_plain_sort(values):
    known = [i for i, v in enumerate(values) if not np.isnan(v)]
    plain = sorted(known, key=lambda i: (-values[i], i))
    assert [plain.index(i) + 1 if i in known else 0 for i in range(len(values))] == list(
        score_arrays.ranks(values)
    )


@given(values_of, hyp.sampled_from([BY_RANK, BY_SCORE]))
def test_shades_keep_the_order_of_the_scores(values, how):
    shades = score_arrays.shades(values, how)
    known = ~np.isnan(values)
    assert (np.isnan(shades) == ~known).all()
    a, b = values[known], shades[known]
    assert ((b >= -1e-12) & (b <= 1 + 1e-12)).all()
    order = np.argsort(a)
    assert (np.diff(b[order]) >= -1e-12).all()
    assert all(len(set(b[a == v])) == 1 for v in a), "equal scores have one shade"
    if len(set(a)) == len(a) > 1:
        assert b.max() == pytest.approx(1) and b.min() == pytest.approx(0)


@pytest.mark.parametrize("by", [SENTENCE, ORDER, TIME])
@pytest.mark.parametrize("n", [1, 7, 599, 601, 5000])
def test_no_high_score_is_lost_in_columns(by, n):
    values = np.random.default_rng(3).normal(size=n)
    table = table_of(values)
    where = score_arrays.columns(table, by)
    assert len(where.x) <= score_arrays.MOST_COLUMNS
    columns = score_arrays.highest(values, where)
    on = where.of >= 0
    assert (~on).sum() == where.off == (1 if by == TIME else 0)
    if on.any():
        assert np.nanmax(columns) == np.float32(values[on].max())
    for column in {*where.of[on][:50].tolist()}:
        assert columns[column] == np.float32(values[where.of == column].max())


def test_what_a_column_holds_is_stated():
    assert score_arrays.columns(table_of(np.ones(5)), SENTENCE).each == "each column: one sentence"
    assert score_arrays.columns(table_of(np.ones(1300)), SENTENCE).each.endswith("highest of 3")
    assert "1.2 days" in score_arrays.columns(table_of(np.ones(1200)), TIME).each  # 300 d / 240


@given(values_of, hyp.integers(0, 59), hyp.booleans())
def test_a_walk_by_rank_and_by_record_visits_every_sentence_once(values, start, by_rank):
    table = table_of(values, k=3)
    arm, at = table.arms[0], start % len(values)
    how = score_arrays.WALK_RANK if by_rank else score_arrays.WALK_RECORD
    known = int((~np.isnan(values)).sum())
    seen: list[int] = []
    current: int | None = -1
    while current is not None:
        current, _, length = score_arrays.walk(arm, [], how, current, True)
        if current is not None:
            seen.append(current)
    assert len(seen) == len(set(seen)) == length == (known if by_rank else len(values))
    back, place, _ = score_arrays.walk(arm, [], how, at, False)
    if at in seen:
        assert place == seen.index(at) + 1
        assert back == (seen[place - 2] if place > 1 else None)


def test_walks_over_kept_and_evidence_go_on_from_anywhere():
    arm = table_of(np.arange(10.0), k=2).arms[0]
    assert score_arrays.walk(arm, [4, 1], score_arrays.WALK_EVIDENCE, 2, True) == (4, 0, 2)
    assert score_arrays.walk(arm, [4, 1], score_arrays.WALK_EVIDENCE, 2, False) == (1, 0, 2)
    assert score_arrays.walk(arm, [4, 1], score_arrays.WALK_EVIDENCE, 4, True) == (None, 2, 2)
    assert score_arrays.walk(arm, [], score_arrays.WALK_KEPT, 0, True) == (8, 0, 2)


def test_five_thousand_sentences_make_a_small_figure_and_hold_no_text():
    rng = np.random.default_rng(5)
    table = table_of(*(rng.normal(size=5000) for _ in range(4)))
    strips = strips_of(table)
    figure = score_charts.strips_figure(table, strips, [9, 4000], SENTENCE, BY_RANK, 9)
    text = figure.to_json()
    assert len(text) < 500_000
    assert "secret" not in text


@pytest.mark.parametrize("by", [SENTENCE, ORDER, TIME])
def test_markers_tell_kept_missed_and_evidence_apart_by_shape(by):
    table = table_of(np.arange(100.0), k=5)
    figure = score_charts.strips_figure(table, strips_of(table), [97, 3], by, BY_RANK, 3)
    traces = {t.name.split(", ARM")[0]: t for t in figure.data if t.type == "scatter"}
    shapes = {name: t.marker.symbol for name, t in traces.items()}
    assert len(set(shapes.values())) == len(shapes) == 4
    assert [d[0] for d in traces["kept"].customdata] == [95, 96, 97, 98, 99]
    assert [d[0] for d in traces["evidence, kept"].customdata] == [97]
    assert [d[0] for d in traces["evidence, dropped"].customdata] == [3]
    assert traces["just below threshold"].customdata[0][0] == 94
    assert traces["evidence, dropped"].customdata[0].tolist() == [3, 4, 2], "people count from 1"
    assert "sentence %{customdata[1]}, event %{customdata[2]}" in traces["kept"].hovertemplate
    heat = next(t for t in figure.data if t.type == "heatmap")
    assert len(heat.y) == len(heat.z) + 1


def test_a_histogram_counts_everybody_once_and_shows_threshold_and_evidence():
    table = table_of(np.random.default_rng(2).normal(size=1000))
    (strip,) = strips_of(table)
    figure = score_charts.histogram(strip, [5, int(np.argmax(strip.arm.values))])
    out, selected, ticks = figure.data
    assert (sum(out.customdata), sum(selected.customdata)) == (980, 20)
    assert np.allclose(10 ** np.array(out.y) - 1, out.customdata)
    assert figure.layout.shapes[0].x0 == strip.arm.threshold
    assert list(ticks.marker.symbol) == ["x-thin-open", "circle-open"]
    assert "kept from" in score_charts.histogram_alt(strip, [5])


texts = hyp.text(
    hyp.sampled_from("ab <>&\"'\n\x00\u202e") | hyp.characters(codec="utf-8"), max_size=40
)


@given(texts, hyp.data())
def test_marks_change_no_character_and_let_nothing_through(text, data):
    places = hyp.tuples(hyp.integers(0, 40), hyp.integers(0, 6)).map(lambda p: (p[0], p[0] + p[1]))
    terms = data.draw(
        hyp.lists(
            hyp.builds(
                api.Term,
                hyp.just("t"),
                hyp.floats(-3, 3),
                hyp.lists(places, max_size=3).map(tuple),
            ),
            max_size=4,
        )
    )
    shown = explanation.marked_text(text, api.Explanation(tuple(terms)))
    assert set(re.findall(r"<[^>]*>", shown)) <= {
        '<div class="mc-sentence">', "</div>", "</mark>",
        *(f'<mark class="mc-w mc-{s}{i}">' for s in "pn" for i in range(1, 6)),
    }  # fmt: skip
    plain = html.unescape(re.sub(r"<[^>]*>", "", shown))
    assert plain == html.unescape(html.escape(marks.visible(text.replace("\r\n", "\n"))))


def test_overlapping_terms_add_up_and_sign_shows_in_the_kind_of_mark():
    why = api.Explanation(
        (api.Term("abc", 2.0, ((0, 3),)), api.Term("bcd", -1.0, ((1, 4), (5, 8)))), -0.5, "exact"
    )
    assert explanation.weights(8, why).tolist() == [2, 1.5, 1.5, -0.5, 0, -0.5, -0.5, -0.5]
    shown = explanation.marked_text("abcdefgh", why)
    assert shown.count("mc-p") == 2 and shown.count("mc-n") == 2
    assert "lowers" in explanation.legend(why)
    assert "= 0.5, the score" in explanation.sum_words(why, 0.5)
    assert "do not make up all" in explanation.sum_words(why, 0.7)
    assert explanation.terms_frame(why)["term"].tolist() == ["abc", "bcd"]
    assert explanation.visible_term(" a ") == "␣a␣"


terms_of = hyp.lists(hyp.builds(api.Term, hyp.sampled_from("abcdefgh"), hyp.floats(-3, 3)))


@given(hyp.lists(hyp.builds(api.Explanation, terms_of.map(tuple), hyp.floats(-3, 3)), min_size=1))
def test_a_matrix_of_contributions_adds_up_to_the_scores(explanations):
    matrix = score_arrays.matrix_of(explanations, most=3)
    assert np.allclose(matrix.scores, [why.total for why in explanations])
    sizes = np.abs(matrix.parts).sum(axis=0)
    assert (np.diff(sizes) <= 1e-9).all() and len(matrix.terms) <= 3


def test_the_rows_of_a_matrix_are_the_evidence_and_each_arms_best_by_rank():
    table = table_of(np.arange(100.0), -np.arange(100.0), k=5)
    rows = contributions.rows_of(strips_of(table), [50, 60])
    assert rows == [*range(99, 90, -1), 60, 50, *range(8, -1, -1)]
    figure = contributions.arms_figure(strips_of(table), rows, [50, 60])
    assert [point[0] for point in figure.data[1].customdata] == rows
    assert figure.layout.yaxis.ticktext[8:11] == ("9", "<b>evidence 40</b>", "<b>evidence 50</b>")
    assert figure.data[1].marker.symbol[4:6] == ("circle", "circle-open"), "the five best are kept"


@pytest.fixture
def page(patient_page):
    """The Patient page on a question with evidence."""
    patient_page.session_state["patient_patient"] = "9001"
    patient_page.session_state["patient_question"] = "q1"
    return patient_page


def test_the_scores_open_on_evidence_with_every_arms_verdict(page):
    app = page.run()
    assert not app.exception
    assert plain("No strip for Recency only: ranks no sentence.") in page_text(app)
    shown = page_html(app)
    assert 'class="mc-arms"' in shown and ">evidence</span>" in shown
    assert "mc-sentence" in shown


def test_a_walk_shows_why_a_sentence_was_kept(page):
    app = page.run()
    app.segmented_control(key="patient_walk_True").set_value("Rank").run()
    while not app.button(key="patient_sentence_previous").disabled:
        app.button(key="patient_sentence_previous").click().run()
    assert not app.exception
    shown = page_html(app)
    assert '<mark class="mc-w mc-p5">colonoscopy</mark>' in shown.lower()
    assert "the score." in page_text(app)
    frame = frame_with(app, "part")
    assert frame["term"][0] == "colonoscopy" and frame["part"][0] > 0
    assert "yes, by score" in shown


@pytest.mark.parametrize("arm", ["bm25", pytest.param("qccs", marks=pytest.mark.slow)])
def test_the_matrix_of_terms_adds_up_to_the_scores_of_the_arm(page, arm):
    page.session_state["patient_arms"] = [arm, "recency"]
    page.session_state["patient_matrix_box"] = True
    page.session_state["patient_more"] = "Score matrix"
    app = page.run()
    assert not app.exception
    frame = frame_with(app, "other terms")
    terms = [name for name in frame if name.startswith("“")]
    total = frame[["base", "other terms", *terms]].sum(axis=1)
    # Scores of the gate are rounded to six decimals.
    assert len(frame) > 5 and np.allclose(total, frame["score"], atol=2e-6)
    assert "raises a score most" in page_text(app)


def test_an_arm_without_terms_reports_it(page):
    app = page.run()
    focus = next(s for s in app.segmented_control if (s.key or "").startswith("patient_focus_"))
    focus.set_value("oracle").run()
    assert "cannot be decomposed" in page_text(app)


def test_any_arm_that_scores_can_be_shown_and_one_that_cannot_is_no_strip(page):
    app = page.run()
    pills = app.pills(key="patient_strips_bm25_recency_oracle")
    available = {c.name for c in api.members("arm") if not c.problem}
    assert len(pills.options) == len(available & set(api.scored_arms()))
    pills.set_value(["random", "full", "shortest"]).run()
    assert not app.exception
    assert plain("No strip for Full record: gives all sentences the same score.") in page_text(app)
    assert "Shortest" in page_html(app)


def test_its_entry_opens_in_the_record_and_the_address_holds_no_sentence(page):
    app = page.run()
    app.button(key="patient_sentence_entry").click().run()
    assert app.session_state["patient_open"][2] == 20, "the first evidence, dropped by BM25 or not"
    address = json.dumps(dict(app.query_params))
    assert FIRST not in address and "e20" not in address


def test_a_row_of_the_sentences_opens_its_sentence(page, monkeypatch):
    clickable(monkeypatch)
    page.session_state["patient_scores_table"] = True
    app = page.run()
    shown = frame_with(app, "text")
    click(app, "patient_scores", len(shown) - 1, "date")
    opened = app.session_state["patient_sentence"][2]
    record = api.open_data("hand").records[app.session_state["patient_patient"]]
    units = [one.id for one in api.sentences(record, api.parse())]
    assert units.index(opened) + 1 == shown["sentence"].iloc[-1]


def test_sentences_as_a_table_hold_ranks_and_the_download_no_text(page):
    page.session_state["patient_scores_table"] = True
    page.session_state["patient_histograms"] = True
    app = page.run()
    assert not app.exception
    frame = frame_with(app, "sentence")
    assert (frame["evidence"] == "evidence").sum() == 2
    assert frame["BM25"].str.contains("kept").any()
    assert len(app.get("plotly_chart")) >= 3


def test_a_trained_arm_never_waits_on_a_long_record_and_a_reading_one_does():
    record = api.Record("p", (), "d")
    assert cached.waits(record, 10_000, "dense")
    assert not cached.waits(record, 10_000, "qccs")
