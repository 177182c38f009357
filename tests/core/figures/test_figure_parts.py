"""Parts of figures: looks of arms, forest plots, names at the ends of lines, chance levels."""

from __future__ import annotations

from typing import Any

import pytest

from midchart.core.experiments.answers.views import EVIDENCE, EVIDENCE_BY_POSITION, KEPT, OVERALL
from midchart.core.figures import (
    controls,
    distinct_looks,
    look_of,
)
from midchart.core.figures.views import alt, figure
from midchart.core.results.values import rows_of, values


@pytest.mark.parametrize(
    "labels",
    [
        ["bm25", "bm25_ranked", "mmr", "bm25_filtered"],
        ["bm25", "bm25 k=1", "bm25 k=3", "bm25 k=5"],
        ["full", "recency", "random", "oracle"],
    ],
)
def test_four_arms_in_one_chart_share_neither_colour_nor_marker(labels):
    looks = distinct_looks(labels)
    hollow = [label for label in labels if label in controls()]
    colours = [looks[label].colour for label in labels if label not in hollow]
    assert len(set(colours)) == len(colours)
    assert len({looks[label].symbol for label in labels}) == len(labels)
    assert len({looks[label].dash for label in labels}) == len(labels)
    assert looks[labels[0]] == look_of(labels[0]), "the first keeps its own"


def shares(labels: list[str], chance: float | None, bands: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of recall, the later arm the better."""
    return [
        {
            "label": label, "band": band, "criterion": "all pieces", "reader": "", "n": 10,
            "recall": place / 10, "patients": 4, "patient_low": None, "patient_high": None,
            "wilson_low": 0.0, "wilson_high": 0.9, "chance": chance, "accuracy": place / 10,
        }
        for place, label in enumerate(labels, 1)
        for band in bands
    ]  # fmt: skip


def drawn(rows: list[dict[str, Any]], view: Any, measure: Any) -> Any:
    return figure(values(rows_of({view.table: rows}, view, {}), view, measure), view, measure)


def test_a_forest_names_every_row_once_with_its_numbers() -> None:
    rows = shares(["recency", "full", "bm25"], None, ("overall",))
    estimates = values(rows, OVERALL, OVERALL.measures[0])
    assert [one.value for one in estimates] == sorted(
        (one.value for one in estimates), reverse=True
    )
    shown = drawn(rows, OVERALL, OVERALL.measures[0])
    assert sum(len(trace.x) for trace in shown.data) == len(rows)
    ticks = shown.layout.yaxis.ticktext
    assert len(ticks) == len(rows) and all(
        "n 10" in text and "[0.0, 90.0]" in text for text in ticks
    )
    hollow = [trace for trace in shown.data if trace.marker.symbol.endswith("-open")]
    assert [len(trace.x) for trace in hollow] == [1], "recency, the control"
    assert alt(estimates, OVERALL, OVERALL.measures[0]).startswith(
        "Forest plot of % correct, 3 rows"
    )


def test_a_share_of_kept_evidence_has_its_chance_level_in_every_figure() -> None:
    shown = drawn(shares(["bm25", "full"], 0.125, ("overall",)), EVIDENCE, KEPT)
    by_name = {trace.name: trace for trace in shown.data}
    assert list(by_name["chance"].x) == [12.5, 12.5]
    assert "chance 12.5" in str(shown.layout.yaxis.ticktext)
    lines = drawn(shares(["bm25"], 0.125, ("0-10", "90-100")), EVIDENCE_BY_POSITION, KEPT)
    assert [12.5, 12.5] in [list(trace.y) for trace in lines.data]


def test_names_of_rows_and_lines_are_text() -> None:
    rows = shares(["<b>x</b>"], None, ("0-10", "90-100"))
    shown = drawn(rows, EVIDENCE_BY_POSITION, KEPT)
    assert "<b>x" not in "".join(
        f"{trace.name}{trace.hovertemplate}{trace.text}" for trace in shown.data
    )
