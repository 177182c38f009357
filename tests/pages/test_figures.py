"""Figures for a paper: files of each format with the caption."""

from __future__ import annotations

import html
import re

import pandas as pd
import plotly.graph_objects as go
import pytest

from midchart.pages.ui.shared import chart, tables

CAPTION = "Accuracy <b>by</b> arm. n = 120. " + "Run 20261123-203839-86a36d. " * 12


def test_caption_names_intervals_where_the_figure_has_bars():
    with_bars = go.Figure(go.Scatter(x=[0.5], y=[0], error_x={"array": [0.1]}))
    assert "95 % intervals" in chart.caption_of(with_bars, "Accuracy")
    assert chart.caption_of(go.Figure(go.Scatter(x=[1], y=[1])), "Accuracy") == "Accuracy."


@pytest.mark.slow
def test_a_figure_is_drawn_with_its_caption_as_text():
    figure = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))
    content = chart.image(chart.captioned(figure, CAPTION), "SVG")
    assert content.startswith(b"<svg")
    text = html.unescape(re.sub("<[^>]+>", "", content.decode()))
    assert "Accuracy <b>by</b> arm. n = 120." in text.replace("\xa0", " ")


def test_heads_of_a_wide_table_are_no_wider_than_their_cells():
    heads = [f"Hybrid (BM25 and MiniLM), k = {k}" for k in range(5)]
    frame = pd.DataFrame([{"question": "Which dose?" * 3} | dict.fromkeys(heads, "✓ correct")])
    wide, narrow = (tables.configuration(one, {}) for one in (frame, frame[heads[:3]]))
    assert all(wide[head]["width"] < 100 for head in heads)
    assert all(wide[head]["help"].startswith(head) for head in heads), "in full on hover"
    assert not [one for one in narrow.values() if "width" in one]


def test_a_table_is_downloaded_as_latex_with_escaped_text():
    text = tables.latex_bytes(pd.DataFrame({"arm": ["a_b & c"], "%": [0.5]})).decode()
    assert r"\toprule" in text and r"a\_b \& c" in text
