"""Figures for a paper: files of each format with the caption."""

from __future__ import annotations

import html
import re

import plotly.graph_objects as go
import pytest

from midchart.pages.ui.shared import chart, tables

CAPTION = "Accuracy <b>by</b> arm. n = 120. " + "Run 20261123-203839-86a36d. " * 12


def test_caption_names_intervals_where_the_figure_has_bars():
    bars = {"array": [0.1]}
    with_bars = go.Figure(go.Scatter(x=[0.5], y=[0], error_x=bars))
    assert "95 % intervals" in chart.caption_of(with_bars, "Accuracy")
    assert chart.caption_of(go.Figure(go.Scatter(x=[1], y=[1])), "Accuracy") == "Accuracy."


@pytest.mark.parametrize(("kind", "start"), [("SVG", b"<svg")])
@pytest.mark.slow
def test_a_figure_is_drawn_in_each_format_with_its_caption_as_text(kind, start):
    figure = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))
    content = chart.image(chart.captioned(figure, CAPTION), kind)
    assert content.startswith(start)
    if kind == "SVG":
        text = html.unescape(re.sub("<[^>]+>", "", content.decode()))
        assert "Accuracy <b>by</b> arm. n = 120." in text.replace("\xa0", " ")


def test_a_table_is_downloaded_as_latex_with_escaped_text():
    import pandas as pd

    text = tables.latex_bytes(pd.DataFrame({"arm": ["a_b & c"], "%": [0.5]})).decode()
    assert r"\toprule" in text and r"a\_b \& c" in text
