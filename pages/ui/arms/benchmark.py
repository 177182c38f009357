"""Results of the benchmark side by side: one column a file, one row a figure of the suite."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui.shared import chart, formats, tables
from midchart.pages.ui.shared.marks import plain
from midchart.pages.ui.shared.pickers import pick_several

COMMAND = "midchart benchmark SPEC.toml"
FIGURE = ["part", "judge", "measure"]
"""Columns that name a figure of the suite."""
DIFFERENCE = "middle − edges"
HELP = "JSON files that the command benchmark wrote, here or on another machine."


def benchmarks() -> None:
    """The results to compare, their figures as a table, and one figure as a forest plot."""
    with st.expander("Benchmark results side by side"):
        _benchmarks()


def _benchmarks() -> None:
    st.caption(
        "A fixed suite of needles, articles, case notes and LongHealth, each where its cohort is "
        "present, for any arms and readers. A result is one file, written by "
        f"`{COMMAND}`."
    )
    files = api.benchmarks()
    uploads = st.file_uploader(
        "Further results", type="json", accept_multiple_files=True, help=HELP
    )
    names = list(files)
    if names:
        names = pick_several(
            "results", "Results", names, str, key="results", default=names, help=HELP, wrap=True
        )
    results: list[dict[str, Any]] = []
    for name, data in [
        *((f"{name}.json", files[name]) for name in names),
        *((one.name, one.getvalue()) for one in uploads or ()),
    ]:
        try:
            results.append(api.read_benchmark(data, name))
        except MidchartError as error:
            st.error(plain(str(error)))
    if results:
        _compare(results)
    else:
        st.info("No result is chosen.")


def rows_of(results: list[dict[str, Any]]) -> pd.DataFrame:
    """A row a figure of a result; ``who``: the result, and its arm and reader."""
    names = [result["name"] for result in results]
    return pd.DataFrame(
        {
            "who": f"{result['name']}{f' ({place + 1})' if names.count(result['name']) > 1 else ''}"
            f" · {score['arm']} · {score['reader']}",
            "part": part["title"],
            "cohort": part["cohort"],
            "suite": result["suite"],
            **score,
            "judge": score["judge"] or "",
        }
        for place, result in enumerate(results)
        for part in result["parts"]
        for score in part["scores"]
    )


def _compare(results: list[dict[str, Any]]) -> None:
    frame = rows_of(results)
    for result in results:
        for part in result["parts"]:
            if part["absent"]:
                st.caption(plain(f"{result['name']}: {part['title']} left out: {part['absent']}"))
    if len({result["suite"] for result in results}) > 1:
        st.warning("These results are of different suites; figures of one name may differ in kind.")
    if frame.empty:
        st.info("These results hold no figure.")
        return
    mixed = [part for part, rows in frame.groupby("part") if rows["cohort"].nunique() > 1]
    if mixed:
        st.warning(plain(f"Different cohort files were used for: {', '.join(mixed)}."))
    ends = zip(frame["measure"], frame["value"], frame["low"], frame["high"], strict=True)
    frame["shown"] = [
        (formats.difference if measure == DIFFERENCE else formats.share)(*values)
        for measure, *values in ends
    ]
    wide = frame.pivot_table(
        index=FIGURE, columns="who", values="shown", aggfunc="first", sort=False
    ).reset_index()
    alt = "Each figure of the suite, one column per result, arm and reader, with 95 % intervals"
    tables.table(wide.fillna(formats.NONE), "benchmark", alt, download=frame.drop(columns="shown"))
    st.caption(
        "95 % intervals by patient; Wilson's where there are fewer than 5 patients (column "
        "interval of the download). Figures in per cent, differences in points. A result file "
        "stores figures and no single answers, so these open none."
    )
    figures = list(frame[FIGURE].drop_duplicates().itertuples(index=False, name=None))
    chosen = st.selectbox(
        "Figure",
        figures,
        key="benchmark_figure",
        format_func=lambda one: " · ".join(filter(None, one)),
    )
    rows = frame[(frame[FIGURE] == list(chosen)).all(axis=1)]
    forest = [
        chart.ForestRow(
            row["who"],
            *(100 * formats.number(row[end]) for end in ("value", "low", "high")),
            f"{row['shown']} n {row['n']:,}",
        )
        for row in rows.to_dict("records")
    ]
    options: dict[str, Any] = {}
    if chosen[2] == DIFFERENCE:
        options = {"span": chart.symmetric_span(forest, 9), "suffix": "", "zero": True}
    chart.show_forest(forest, f"{chosen[0]}: {chosen[2]}", "benchmark", **options)
