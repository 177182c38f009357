"""The sections of the Replication page: verdict, waterfall, single faults, the paper's tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from core import api
from pages.ui import navigation, state
from pages.ui.replication import charts
from pages.ui.replication.charts import COLUMNS, INTERVALS
from pages.ui.shared import chart, formats, tables
from pages.ui.shared.marks import plain
from pages.ui.shared.pickers import pick

FIRST = ("qccs", "bm25")
KINDS = {
    "R": "yes or no, most recent",
    "Rn": "everything else",
    "S": "summaries",
    "hit": "a word of the answer was kept",
    "miss": "none was kept",
}
ANSWERS = {"answers": st.column_config.LinkColumn(display_text="Open", width="small")}
"""Column with the address of a run's single answers."""
WIDE = ("overall", "middle", "edge")
"""Bands with many questions, listed before those with few."""


def alone_rows(
    replication: dict[str, Any], corrected: str | None, label: str, judge: str
) -> list[dict[str, Any]]:
    """The effect of each published fault alone; none before the corrected run is done."""
    if corrected is None:
        return []
    runs = {
        row["name"]: row["run"] if row["status"] == "done" else None for row in replication["alone"]
    }
    return state.faults_alone(corrected, runs, label, judge)


def why_unchanged(alone: dict[str, Any] | None) -> str:
    """Why a step that changed no text changed none, by what its fault does alone."""
    if alone and alone["silent"]:
        return f"not measurable here: {alone['silent']}"
    if alone and alone["acted"]:
        return (
            f"changed no text here: on its own it affects {alone['acted']:,} questions, so a "
            f"fault that is still on masks it"
        )
    return ""


def verdict(
    rows: list[dict[str, Any]], label: str, reader: str, judge: str
) -> tuple[str, list[str]]:
    """An arm's headline: the paper's figure and this installation's under both protocols; and who
    read and judged. Empty where the paper has none."""
    key = ("stage2", label, "overall")
    row = next((r for r in rows if (r["table"], r["label"], r["what"]) == key), None)
    if row is None:
        return "", []
    name = api.title("arm", label)
    paper = _cell(row, "value")
    if row["published"] is None and row["corrected"] is None:
        return f"{name}: {paper} correct in the paper; not replicated on this cohort yet.", []
    titles = {"published": "published", "corrected": "corrected"}
    figures = [
        f"{_cell(row, column)} under the {title} protocol"
        for column, title in titles.items()
        if row[column] is not None
    ]
    text = f"{name} is correct on {' and '.join(figures)} (n = {_n(row)}); paper: {paper}."
    ends = [row[end] for column in titles for end in INTERVALS[column]]
    if all(end is not None for end in ends):
        overlap = max(ends[0], ends[2]) <= min(ends[1], ends[3])
        text += (
            " The intervals of the two protocols overlap: no difference is shown."
            if overlap
            else " The intervals of the two protocols are apart."
        )
    by = f"Read by {api.title('reader', reader)}, judged by {api.title('judge', judge)}."
    return text, [by]


def waterfall(
    replication: dict[str, Any], faults: list[dict[str, Any]], label: str, judge: str
) -> None:
    """What each published fault costs an arm, from the finished runs in sequence.

    ``faults``: rows of :func:`alone_rows`.
    """
    by_fault = {row["fault"]: row for row in faults}
    by_run = {row["run"]: row for row in replication["steps"]}
    finished = [run for run in replication["runs"] if run]
    rows: list[dict[str, Any]] = []
    for row in state.waterfall(finished, label, judge):
        step = by_run[row["run"]]
        why = why_unchanged(by_fault.get(step["name"]))
        rows.append({**row, "title": step["title"], "did": step["did"], "why": why})
    st.header(f"Effect of each fault on {plain(api.title('arm', label))}", anchor=False)
    if len(finished) < len(replication["runs"]):
        st.info("Not every step has finished: a bar shows the difference to the finished step "
            "above it, with all faults between them "
            "removed.", icon=":material/hourglass_top:")  # fmt: skip
    first, last = rows[0], rows[-1]
    chart.show(
        charts.waterfall(rows),
        f"Waterfall of {label}: {first['title']} {charts.step_text(first)}; after "
        f"{len(rows) - 1} steps {charts.step_text(last)}.",
        "replication_waterfall",
    )
    st.caption(
        "From top to bottom: the published protocol, then one fault fewer in each row. Marker: % "
        "correct with 95 % interval by patient. Bar and numbers: change vs the row above on the "
        "same questions, interval by patient, McNemar's p. The effect of a fault depends on the "
        "faults still on; the chart below shows each fault alone."
    )
    shown = [
        {
            "step": row["title"],
            "answers": _answers(row),
            "% correct": formats.share(row["accuracy"], row["patient_low"], row["patient_high"]),
            "n": row["n"],
            "change, points": formats.difference(row["difference"], row["low"], row["high"]),
            "p": row["p"],
            "texts changed": charts.change_text(row) or "–",
            "effect": row["did"] or "–",
        }
        for row in rows
    ]
    tables.table(
        pd.DataFrame(shown), "replication-waterfall", "Steps of the waterfall",
        {"p": st.column_config.NumberColumn(format="%.3f"), **ANSWERS}, pd.DataFrame(rows),
    )  # fmt: skip


def _answers(row: Mapping[str, Any]) -> str | None:
    """The address of a run's single answers on page Arms; None before it was started."""
    run = row["run"]
    return run and "/arms?" + urlencode({"run": run, "view": "Questions"})


def faults_alone(rows: list[dict[str, Any]]) -> None:
    """The effect of each published fault alone, vs the corrected run (:func:`alone_rows`)."""
    st.header("Each fault alone", anchor=False)
    if not rows:
        st.info("The corrected run has not finished; it is the baseline for each single fault.",
                icon=":material/hourglass_top:")  # fmt: skip
        return
    drawn = [r for r in rows if not r["silent"] and r["n"] and r["right_here"] + r["right_there"]]
    if drawn:
        alt = "; ".join(f"{row['title']}: {charts.alone_text(row)}" for row in drawn)
        chart.show(charts.faults_alone(drawn), f"Each fault alone: {alt}.", "replication_alone")
    shown = [
        {
            "fault": row["title"],
            "answers": _answers(row),
            "texts changed": charts.alone_text(row),
            "correct with the fault only": row["right_here"],
            "correct without it only": row["right_there"],
            "n": row["n"],
            "effect": row["did"],
        }
        for row in rows
    ]
    alt = "Each published fault alone vs the corrected run"
    tables.table(
        pd.DataFrame(shown), "replication-alone", alt, ANSWERS, download=pd.DataFrame(rows)
    )
    st.caption(
        "Each row: the corrected protocol with this one fault turned on, vs the corrected run on "
        "the same questions. A fault that changed no prompt, answer or judged text has no "
        "measurable effect on this arm, cohort or reader; this does not show that it is harmless."
    )


def findings() -> None:
    """Findings of a re-analysis of the paper's released outcomes, each with its source."""
    st.header("Findings from the paper's released outcomes", anchor=False)
    rows = pd.DataFrame(api.findings())
    shown = pd.DataFrame(
        {
            "finding": rows["finding"].str.replace("_", " "),
            "figure": rows["figure"],
            "meaning": rows["means"],
            "read or computed from": rows["published"].replace({None: "–", "": "–"}),
            "as stated in": rows["stated"].replace({None: "–", "": "–"}),
            "location in the paper": rows["paper"],
        }
    )
    alt = "Findings on the paper's released outcomes"
    tables.table(shown, "replication-findings", alt, download=rows)
    st.caption(
        "These figures describe the paper's own run; none was measured by Midchart. Those under "
        "'read or computed from' are cells of the paper's tables in data/published; those under "
        "'as stated in' rest on the released outcomes, which are not shipped."
    )


def paper_tables(rows: list[dict[str, Any]], others: Mapping[str, dict[str, Any] | None]) -> None:
    """One table of the paper at a time: a chart of one of its columns, and all its numbers.

    ``others``: page → the finished run of its kind, for tables that no run of answers holds.
    """
    st.header("The paper's tables and this installation's", anchor=False)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        names = list(dict.fromkeys(row["table"] for row in rows))
        titles = {name: api.PAPER_TABLES[name].title for name in names}
        name = pick("Table", names, "table", titles, width=420)
        rows = [row for row in rows if row["table"] == name]
        columns = sorted(dict.fromkeys(row["what"] for row in rows), key="overall".__ne__)
        what = pick("Which", columns, f"what_{name}", KINDS, abreast=True)
    rows.sort(key=lambda row: WIDE.index(row["what"]) if row["what"] in WIDE else len(WIDE))
    drawn = [row for row in rows if row["what"] == what]
    paper = api.PAPER_TABLES[name]
    title = f"{paper.title}: {KINDS.get(what, what)}"
    alt = "; ".join(
        f"{row['label']}: "
        + ", ".join(f"{_cell(row, column)} {words}" for column, words in COLUMNS.items())
        for row in drawn
    )
    figure = charts.comparison(drawn, KINDS.get(what, what))
    chart.show(figure, f"{title}. {alt}.", "replication_beside")
    shown = [
        {
            "arm": api.title("arm", row["label"]),
            "what": KINDS.get(row["what"], row["what"]),
            **{words: _cell(row, column) for column, words in COLUMNS.items()},
            "n (this run)": _n(row),
        }
        for row in rows
    ]
    tables.table(pd.DataFrame(shown), f"replication-{name}", title, download=pd.DataFrame(rows))
    source = f"Source: {plain(paper.source)} (data/published/{paper.file})."
    if paper.ours == "runs":
        st.caption(
            f"{source} This installation's figures come from the runs listed on this page; a dash: "
            "no such arm, judge, reader or semantic hits. The paper used Qwen2.5-7B on MedAlign, "
            "judged by Claude; this installation uses the reader, cohort and judge named above. "
            "Levels therefore differ; the ranking of arms, the differences and the effects of the "
            "faults should replicate."
        )
        return
    run, page = others[paper.ours], paper.ours
    if run is None:
        st.caption(
            f"{source} No finished run of this installation has these figures. Start one on the "
            f"page {page}."
        )
    else:
        st.caption(
            f"{source} This installation's figures are of the finished run {plain(run['name'])} "
            f"({run['run']}) on {plain(Path(run['data']).name)}, in the column of its protocol; a "
            "dash: not available. The paper's cohort was MedAlign or EHRSHOT, so levels differ."
        )
    navigation.link(
        page.lower(),
        f"Open the page {page}" if run else f"Start such a run on the page {page}",
        icon=":material/arrow_forward:",
        query_params={"run": run["run"]} if run else {},
    )


def _n(row: dict[str, Any]) -> str:
    n = row["published_n"] if row["corrected_n"] is None else row["corrected_n"]
    return "–" if n is None else f"{n:,}"


def _cell(row: dict[str, Any], column: str) -> str:
    low, high = (row[end] for end in INTERVALS[column])
    if row["unit"] == "share" or row[column] is None:
        return formats.share(row[column], low, high)
    ends = "" if low is None else f" [{low:g}, {high:g}]"
    return f"{row[column]:g}{ends}".replace("-", "−")
