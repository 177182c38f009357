"""The sections of the Replication page: verdict, waterfall, single faults, the paper's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.shared import chart, figures, formats, tables
from midchart.pages.ui.shared.chart import Look
from midchart.pages.ui.shared.formats import number
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick

COLUMNS = {
    "value": "paper",
    "published": "published protocol (this installation)",
    "corrected": "corrected protocol (this installation)",
}
"""Columns of figures and their titles."""
INTERVALS = {
    "value": ("low", "high"),
    "published": ("published_low", "published_high"),
    "corrected": ("corrected_low", "corrected_high"),
}
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
    rows: list[dict[str, Any]],
    label: str,
    reader: str,
    judge: str,
    primary: str = "",
    compared: Mapping[str, Any] | None = None,
) -> tuple[str, list[str]]:
    """An arm's headline: the paper's figure and this installation's under both protocols, with what
    their paired comparison shows; and who read and judged. Empty where the paper has none.

    ``primary``: the runs' primary judge; ``compared``: the row of the comparison of the corrected
    run with the published one (:func:`midchart.core.api.compare_runs`)."""
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
    if compared is not None and compared["n"]:
        change = formats.difference(
            compared["difference"], compared["patient_low"], compared["patient_high"]
        )
        text += (
            f" Corrected less published, on the same {compared['n']:,} questions: {change} points, "
            f"{compared['verdict']}."
        )
    by = f"Read by {api.title('reader', reader)}, judged by {api.title('judge', judge)}"
    by += f", not by the primary judge {api.title('judge', primary)}" if judge != primary else ""
    return text, [f"{by}."]


def ranking_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many pairs of arms are in the paper's order here, by the values of one column; "" where
    fewer than three arms have both."""
    texts: list[str] = []
    for column, title in (("published", "published"), ("corrected", "corrected")):
        known = [r for r in rows if r["value"] is not None and r[column] is not None]
        pairs = [(a, b) for a, b in combinations(known, 2) if a["value"] != b["value"]]
        alike = sum((a["value"] - b["value"]) * (a[column] - b[column]) > 0 for a, b in pairs)
        if len(known) > 2 and pairs:
            texts.append(f"{alike:,} of {len(pairs):,} under the {title} protocol")
    if not texts:
        return ""
    return (
        f"Pairs of lines in the paper's order here: {'; '.join(texts)} (by chance: half; by the "
        "values alone, whatever their intervals)."
    )


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
    if len(finished) < len(replication["runs"]):
        st.info("Not every step has finished: a bar shows the difference to the finished step "
            "above it, with all faults between them "
            "removed.", icon=":material/hourglass_top:")  # fmt: skip
    first, last = rows[0], rows[-1]
    chart.show(
        chart.drawing(waterfall_figure, rows),
        f"Waterfall of {label}: {first['title']} {step_text(first)}; after "
        f"{len(rows) - 1} steps {step_text(last)}.",
        "replication_waterfall",
        opens=lambda row: _open_answers(rows[row], label),
    )
    st.caption(
        "From top to bottom: the published protocol, then one fault fewer in each row. Marker: % "
        "correct with 95 % interval by patient. Bar and numbers: change vs the row above on the "
        "same questions, interval by patient, McNemar's p. The effect of a fault depends on the "
        "faults still on; the chart below shows each fault alone. Click a "
        "row or a marker to read its run's answers."
    )
    shown = [
        {
            "step": row["title"],
            "answers": _answers(row),
            "% correct": formats.share(row["accuracy"], row["patient_low"], row["patient_high"]),
            "n": row["n"],
            "unparsed": row["unparsed"],
            "change, points": formats.difference(row["difference"], row["low"], row["high"]),
            "p": row["p"],
            "texts changed": change_text(row) or "–",
            "effect": row["did"] or "–",
        }
        for row in rows
    ]
    tables.table(
        pd.DataFrame(shown), "replication-waterfall", "Steps of the waterfall",
        {"p": st.column_config.NumberColumn(format="%.3f"), **ANSWERS}, pd.DataFrame(rows),
        opens=lambda row, _: _open_answers(rows[row], label),
    )  # fmt: skip


def _answers(row: Mapping[str, Any]) -> str | None:
    """The address of a run's single answers on page Arms; None before it was started."""
    run = row["run"]
    return run and "/arms?" + urlencode({"run": run, "view": "questions"})


def _open_answers(row: Mapping[str, Any], label: str = "") -> None:
    """Open a run's answers on page Arms, of one arm or all; nothing before it was started."""
    if row["run"]:
        arm = {"q_arm": label} if label else {}
        navigation.on_click("arms", run=row["run"], view="questions", differ="false", **arm)


def faults_alone(rows: list[dict[str, Any]]) -> None:
    """The effect of each published fault alone, vs the corrected run (:func:`alone_rows`)."""
    if not rows:
        st.info("The corrected run has not finished; it is the baseline for each single fault.",
                icon=":material/hourglass_top:")  # fmt: skip
        return
    drawn = [r for r in rows if not r["silent"] and r["n"] and r["right_here"] + r["right_there"]]
    if drawn:
        alt = "; ".join(f"{row['title']}: {alone_text(row)}" for row in drawn)
        chart.show(
            chart.drawing(faults_figure, drawn), f"Each fault alone: {alt}.", "replication_alone",
            opens=lambda row: _open_answers(drawn[row]),
        )  # fmt: skip
    shown = [
        {
            "fault": row["title"],
            "answers": _answers(row),
            "texts changed": alone_text(row),
            "correct with the fault only": row["right_here"],
            "correct without it only": row["right_there"],
            "n": row["n"],
            "effect": row["did"],
        }
        for row in rows
    ]
    alt = "Each published fault alone vs the corrected run"
    tables.table(
        pd.DataFrame(shown),
        "replication-alone",
        alt,
        ANSWERS,
        download=pd.DataFrame(rows),
        opens=lambda row, _: _open_answers(rows[row]),
    )
    st.caption(
        "Each row: the corrected protocol with this one fault turned on, vs the corrected run on "
        "the same questions. A fault that changed no prompt, answer or judged text has no "
        "measurable effect on this arm, cohort or reader; this does not show that it is harmless."
    )


def claims(rows: list[dict[str, Any]]) -> None:
    """The paper's claims one by one: its figure, this installation's, and the verdict."""
    st.markdown(for_screen(claims_text(rows)))
    shown = [
        {
            "claim of the paper": row["states"],
            "verdict": row["verdict"],
            "direction on this text": row["direction"],
            "effect in the paper": _effect(row, "paper_effect"),
            "shown by the paper's figures": row["in_paper"],
            **{COLUMNS[name]: _effect(row, name) for name in ("published", "corrected")},
            "cannot be tested because": row["why"] or "–",
            "what would test it": row["test"] or "–",
            "location in the paper": row["paper"],
            "figures of the paper": row["cells"] or "–",
        }
        for row in rows
    ]
    tables.table(
        pd.DataFrame(shown), "replication-claims", "The paper's claims", download=pd.DataFrame(rows)
    )
    st.caption(
        "Differences with 95 % intervals, each of a single comparison and not adjusted for their "
        "number. Replicates: the interval is on the claimed side of 0, or for a claim of equality "
        "within its margin; does not replicate: on the other side, or outside the margin; else not "
        "shown. A gap of the curve is judged by its p, a range by the margin. With both protocols, "
        "the less favourable counts."
    )


def claims_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many claims have each verdict, and what a text other than the paper's can say."""
    counts = Counter(row["verdict"] for row in rows)
    text = f"Of {len(rows)} claims: " + ", ".join(f"{n} {v}" for v, n in counts.most_common()) + "."
    untested = [row for row in rows if row["verdict"] == api.UNTESTED]
    if not untested:
        return text
    directions = Counter(row["direction"] for row in untested)
    return (
        f"{text} A synthetic cohort with a small reader cannot test claims about MedAlign read by "
        "Qwen2.5-7B-Instruct or about EHRSHOT; it tests only whether the claimed direction appears "
        "on this text. Of the claims that cannot be tested here, by direction: "
        + ", ".join(f"{n} {direction}" for direction, n in directions.most_common())
        + "."
    )


def _effect(row: Mapping[str, Any], name: str) -> str:
    """An effect with its interval or p, in points or in the unit of its figures."""
    value = row[name]
    if value is None:
        return "–"
    points = row["unit"] in ("share", "points")
    scale, digits = (100 if row["unit"] == "share" else 1), (1 if points else 3)
    ends = [formats.signed(scale * row[f"{name}_{end}"], digits) for end in ("low", "high")
            if row[f"{name}_{end}"] is not None]  # fmt: skip
    text = formats.signed(scale * value, digits) + (" points" if points else "")
    text += f" [{', '.join(ends)}]" if ends else ""
    return text if row[f"{name}_p"] is None else f"{text}, {formats.p_value(row[f'{name}_p'])}"


def findings() -> None:
    """What contradicts the paper: its released outcomes and its own figures, with sources."""
    rows = pd.DataFrame(api.findings())
    st.header("Findings from the paper's released outcomes", anchor=False)
    _findings(rows[~rows["in_paper"]], "replication-findings", "Findings on the released outcomes")
    st.caption(
        "These figures describe the paper's own run; none was measured by Midchart. Those under "
        "'read or computed from' are cells of the paper's tables in data/published; those under "
        "'as stated in' rest on the released outcomes, which are not shipped."
    )
    st.header("What the paper's own numbers contradict", anchor=False)
    _findings(rows[rows["in_paper"]], "replication-contradictions", "Contradictions in the paper")


def _findings(rows: pd.DataFrame, name: str, alt: str) -> None:
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
    tables.table(shown, name, alt, download=rows)


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
    figure = chart.drawing(comparison_figure, drawn, KINDS.get(what, what))
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
    source = (
        f"Source: {for_screen(paper.source)} (data/published/{paper.file}). "
        f"{for_screen(paper.counts)}"
    )
    source = source.rstrip()
    if paper.ours == "runs":
        st.caption(
            f"{source} This installation's figures come from the runs listed on this page; a dash: "
            "no such arm, judge, reader or semantic hits. The paper used Qwen2.5-7B on MedAlign, "
            "judged by Claude; this installation uses the reader, cohort and judge named above, so "
            "levels may differ for that alone. This installation's figures: "
            f"{for_screen(figures.source().removeprefix('On '))} {ranking_text(drawn)}"
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
            f"{source} This installation's figures are of the finished run "
            f"{for_screen(run['name'])} "
            f"({run['run']}) on {for_screen(Path(run['data']).name)}, in the column of its "
            "protocol; a dash: not available. The paper's cohort was MedAlign or EHRSHOT, so "
            "levels differ."
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


def _column(rows: Sequence[Mapping[str, Any]], name: str, scale: float = 100) -> list[float]:
    return [scale * number(row[name]) for row in rows]


def waterfall_figure(steps: Sequence[dict[str, Any]]) -> go.Figure:
    """Accuracy after each step with its interval, and a bar from the step before to it.

    ``steps``: rows of the engine's waterfall with their ``title``.
    """
    figure = go.Figure()
    heights = [len(steps) - i for i in range(len(steps))]
    accuracy = _column(steps, "accuracy")
    for (before, _), (high, low) in zip(pairwise(accuracy), pairwise(heights), strict=True):
        figure.add_shape(
            type="line", x0=before, x1=before, y0=high, y1=low,
            line={"color": chart.ink().faint, "width": 1, "dash": "dot"},
        )  # fmt: skip
    figure.add_bar(
        orientation="h",
        y=heights[1:],
        base=accuracy[:-1],
        x=[after - before for before, after in pairwise(accuracy)],
        width=0.34,
        marker={"color": chart.series()[1], "opacity": 0.55},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_trace(
        chart.estimates(
            accuracy,
            heights,
            _column(steps, "patient_low"),
            _column(steps, "patient_high"),
            chart.series_look(0),
            text=[
                f"{for_screen(step['title'], html=True)}: {for_screen(step_text(step), html=True)}"
                for step in steps
            ],
            customdata=[[row] for row in range(len(steps))],
            hovertemplate="%{text}<extra></extra>",
        )
    )
    texts = [
        "<br>".join(for_screen(one, html=True) for one in _label(step) if one) for step in steps
    ]
    chart.row_axis(figure, [step["title"] for step in steps], texts)
    figure.update_layout(height=70 + (chart.ROW + 16) * max(len(steps), 2), bargap=0)
    figure.update_xaxes(
        range=list(chart.PERCENT), title="% correct", ticksuffix=" %", zeroline=False
    )
    return figure


def faults_figure(rows: Sequence[dict[str, Any]]) -> go.Figure:
    """The change that each fault makes alone, in points, with its interval by patient.

    ``rows``: those of the engine's ``faults_alone`` with a measured difference.
    """
    figure = go.Figure(
        chart.estimates(
            _column(rows, "difference"),
            [len(rows) - i for i in range(len(rows))],
            _column(rows, "low"),
            _column(rows, "high"),
            Look(chart.series()[1], "square"),
            text=[
                f"{for_screen(row['title'], html=True)}: {for_screen(alone_text(row), html=True)}"
                for row in rows
            ],
            customdata=[[row] for row in range(len(rows))],
            hovertemplate="%{text}<extra></extra>",
        )
    )
    chart.dotted(figure, x=0)
    chart.row_axis(figure, [row["title"] for row in rows])
    figure.update_xaxes(title="change with this fault only, points", zeroline=False)
    return figure


def comparison_figure(rows: Sequence[dict[str, Any]], what: str) -> go.Figure:
    """For each arm the paper's figure, and this installation's under either protocol."""
    figure = go.Figure()
    unit = rows[0]["unit"]
    scale, suffix = (100, " %") if unit == "share" else (1, "")
    colours = chart.series()
    looks = {
        "value": Look(chart.ink().text, "diamond-open"),
        "published": Look(colours[3], "square"),
        "corrected": Look(colours[0], "circle"),
    }
    for (key, title), shift in zip(COLUMNS.items(), (0.22, 0, -0.22), strict=True):
        known = [(i, row) for i, row in enumerate(rows) if row[key] is not None]
        cells = [row for _, row in known]
        low, high = INTERVALS[key]
        figure.add_trace(
            chart.estimates(
                _column(cells, key, scale),
                [len(rows) - i + shift for i, _ in known],
                _column(cells, low, scale),
                _column(cells, high, scale),
                looks[key],
                name=title,
                showlegend=True,
                hovertemplate=f"{title}: %{{x:.4g}}{suffix}<extra></extra>",
            )
        )
    chart.row_axis(figure, [api.title("arm", row["label"]) for row in rows])
    figure.update_layout(height=110 + 46 * max(len(rows), 2))
    figure.update_xaxes(title=f"{unit}, {what}", ticksuffix=suffix, zeroline=False)
    if unit == "share":
        figure.update_xaxes(range=list(chart.PERCENT))
    return figure


# Rows in words


def alone_text(row: Mapping[str, Any]) -> str:
    """What a fault alone changed; why it has no measurable effect where it has none."""
    if row["silent"]:
        return f"not measurable here: {row['silent']}"
    if row["run"] is None:
        return "not run yet"
    if not row["n"]:
        return "no question judged in both runs"
    acted = f"affected {row['acted']:,} of {row['n']:,} questions"
    changed = row["right_here"] + row["right_there"]
    if not changed:
        return f"{acted}; no verdict changed"
    return f"{acted}; {changed:,} verdicts changed, {_difference(row, ' points')}"


def _difference(row: Mapping[str, Any], unit: str = "") -> str:
    """A change with its interval, p, and its bounds where questions are unscored."""
    text = formats.difference(row["difference"], row["low"], row["high"])
    text += f"{unit}, {formats.p_value(row['p'])}"
    if row["unscored"]:
        low, high = (formats.signed(100 * row[name]) for name in ("bound_low", "bound_high"))
        text += f", {row['unscored']} unscored: {low} to {high}"
    return text


def change_text(row: Mapping[str, Any]) -> str:
    """What a step changed, in points; nothing for the first."""
    if row["difference"] is None:
        return ""
    if not row["acted"]:
        return row["why"] or "changed no prompt, answer or judged text"
    if not row["changed"] and not row["unscored"]:
        return f"affected {row['acted']:,} of {row['both']:,} questions; no verdict changed"
    return _difference(row)


def _label(row: Mapping[str, Any]) -> tuple[str, str]:
    """A step's accuracy with n, and its change in few words: a narrow screen has no room for
    reasons, which are in the table."""
    if row["difference"] is None or row["changed"] or row["unscored"]:
        change = change_text(row)
    else:
        change = "no verdict changed" if row["acted"] else "no text changed"
    return _accuracy(row), change


def _accuracy(row: Mapping[str, Any]) -> str:
    accuracy = formats.share(row["accuracy"], row["patient_low"], row["patient_high"])
    return f"{accuracy} n {int(row['n'] or 0):,}"


def step_text(row: Mapping[str, Any]) -> str:
    """A step's accuracy with n, and what it changed."""
    return ", ".join(filter(None, (_accuracy(row), change_text(row))))
