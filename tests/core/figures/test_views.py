"""Declared views: their columns are those of the tables, their values those of the rows; looks of
arms, forest plots, names at the ends of lines, chance levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midchart.core.experiments.answers.views import ANSWERS_VIEWS, KEPT
from midchart.core.figures import controls, distinct_looks, look_of
from midchart.core.figures.views import alt, figure
from midchart.core.results.values import rows_of, values
from midchart.core.runs.declared import BY_PATIENT, WILSON, Measure, View
from midchart.core.runs.experiment import EXPERIMENTS

GOLDEN = Path(__file__).parents[2] / "golden"
KINDS = [name for name in EXPERIMENTS.names() if EXPERIMENTS.build(name).views]
SHARE = Measure("accuracy", "% correct", intervals=(BY_PATIENT, WILSON), clusters="patients")
ROWS: list[dict[str, Any]] = [
    {
        "label": label, "band": band, "accuracy": accuracy, "n": n, "patients": 6,
        "patient_low": low, "patient_high": high, "wilson_low": 0.1, "wilson_high": 0.9,
    }
    for label, band, accuracy, n, low, high in (
        ("bm25", "0-10", 0.5, 10, 0.3, 0.7),
        ("bm25", "90-100", 0.25, 8, None, None),
        ("full", "0-10", 0.75, 10, 0.6, 0.9),
        ("full", "90-100", None, 0, None, None),
    )
]  # fmt: skip

OF_ANSWERS = {view.name: view for view in ANSWERS_VIEWS}
EVIDENCE, OVERALL = OF_ANSWERS["evidence"], OF_ANSWERS["overall"]
EVIDENCE_BY_POSITION = OF_ANSWERS["evidence_position"]


def columns_of(kind: str, table: str) -> set[str]:
    """The columns of a table in the stored outputs of a run of this kind."""
    columns: set[str] = set()
    for path in GOLDEN.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.get("kind") == kind:
            columns |= set(document["tables"].get(table.removesuffix("_seen"), ()))
    return columns


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_names_columns_that_its_table_has(kind: str) -> None:
    for view in EXPERIMENTS.build(kind).views:
        columns = columns_of(kind, view.table)
        if not columns:  # a table without rows in the stored outputs
            continue
        named = {*view.rows, *view.choose, *view.where, *view.more, *view.opens, view.across} - {""}
        for measure in view.measures:
            parts = (measure.n if measure.n != "n" else "", measure.clusters, measure.chance)
            named |= {measure.column, measure.p, *parts, *(measure.null or ())} - {""}
        named -= {"label"} if not view.measures else set()
        assert named <= columns, (view.name, sorted(named - columns))
        for measure in view.measures:
            ends = [{one.low, one.high} for one in measure.intervals]
            assert not ends or any(pair <= columns for pair in ends), (view.name, measure)


def test_values_have_the_first_interval_that_is_known() -> None:
    view = View("position", "?", "accuracy", (SHARE,), "line", across="band")
    estimates = values(ROWS, view, SHARE)
    assert [(one.row, one.x, one.value, one.low, one.method, one.n) for one in estimates] == [
        ("BM25, by relevance" if estimates[0].row != "BM25" else "BM25", "0-10", 0.5, 0.3,
         "by patient", 10),
        (estimates[1].row, "90-100", 0.25, 0.1, "Wilson, questions independent", 8),
        (estimates[2].row, "0-10", 0.75, 0.6, "by patient", 10),
    ]  # fmt: skip
    assert estimates[0].clusters == 6 and estimates[0].text == "50.0 % [30.0, 70.0]"


@pytest.mark.parametrize("kind", ["forest", "line", "grid"])
def test_a_figure_has_a_marker_for_each_value(kind: Any) -> None:
    view = View("v", "?", "accuracy", (SHARE,), kind, across="band" if kind != "forest" else "",
                rows=("label", "band") if kind == "forest" else ("label",))  # fmt: skip
    estimates = values(ROWS, view, SHARE)
    drawn = figure(estimates, view, SHARE)
    assert drawn is not None
    numbers = sorted(
        int(one[0])
        for trace in drawn.data
        if trace.type == "scatter" and "markers" in trace.mode and trace.customdata is not None
        for one in trace.customdata
        if one[0] is not None
    )
    assert numbers == [0, 1, 2]
    assert "75.0 %" in alt(estimates, view, SHARE)


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


def test_points_of_few_are_hollow_and_not_joined() -> None:
    rows = shares(["bm25"], None, ("0-10", "90-100"))
    rows[1]["n"] = 4
    joined, hollow = drawn(rows, EVIDENCE_BY_POSITION, KEPT).data[:2]
    assert np.isnan(joined.y).tolist() == [False, True] and not joined.connectgaps
    assert np.isnan(hollow.y).tolist() == [True, False]
    assert (hollow.mode, hollow.marker.symbol) == ("markers", f"{joined.marker.symbol}-open")


def test_names_of_rows_and_lines_are_text() -> None:
    rows = shares(["<b>x</b>"], None, ("0-10", "90-100"))
    shown = drawn(rows, EVIDENCE_BY_POSITION, KEPT)
    assert "<b>x" not in "".join(
        f"{trace.name}{trace.hovertemplate}{trace.text}" for trace in shown.data
    )
