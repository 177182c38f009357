"""Declared views: their columns are those of the tables, and their values those of the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from midchart.core.figures.views import alt, figure
from midchart.core.results.values import values
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
