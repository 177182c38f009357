"""What page Paper shows: its headline, the rows of its declared views, and its runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import chart, marks, tables
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick

Row = dict[str, Any]
FIRST = ("qccs", "bm25")
OF_RUNS = ("waterfall", "alone")
"""Views of the runs of a replication alone."""
KINDS = {
    "R": "yes or no, most recent",
    "Rn": "everything else",
    "S": "summaries",
    "hit": "a word of the answer was kept",
    "miss": "none was kept",
}
UNITS = {"share": ("%", 1.0), "points": ("points", 0.01), "n": ("count", 1.0)}
"""Unit of the paper's figures → the measure's, and what a figure is multiplied by."""


def pick_component(family: str, labels: Sequence[str]) -> str:
    """One of the arms, readers or judges by its title; its label is in the URL."""
    titles = {label: api.title(family, label) for label in labels}
    return pick(family.capitalize(), labels, family, titles)


def headline(
    rows: Sequence[Row], label: str, reader: str, judges: Sequence[str], compared: Row | None
) -> tuple[str, list[str]]:
    """An arm's figure in the paper and here under both protocols, with what their paired comparison
    shows; and who read and judged. ``judges``: the chosen one and the primary one; none without
    runs. ``compared``: the row of :func:`midchart.core.api.compare_runs`, corrected less published.
    """
    key = ("stage2", label, "overall")
    row = next((r for r in rows if (r["table"], r["label"], r["what"]) == key), None)
    if row is None:
        return "", []
    name, paper = api.title("arm", label), api.with_interval(row["value"], row["low"], row["high"])
    measured = [
        f"{api.with_interval(row[of], row[f'{of}_low'], row[f'{of}_high'])} under the {of} protocol"
        for of in ("published", "corrected")
        if row[of] is not None
    ]
    if not measured:
        return f"{name}: {paper} correct in the paper; not replicated on this cohort yet.", []
    n = row["published_n"] if row["corrected_n"] is None else row["corrected_n"]
    text = f"{name} is correct on {' and '.join(measured)} (n = {n:,}); paper: {paper}."
    if compared and compared["n"]:
        change = api.with_interval(
            compared["difference"], compared["patient_low"], compared["patient_high"], "points"
        )
        text += (
            f" Corrected less published, on the same {compared['n']:,} questions: {change} points, "
            f"{compared['verdict']}."
        )
    judge, primary = judges
    by = f"Read by {api.title('reader', reader)}, judged by {api.title('judge', judge)}"
    by += f", not by the primary judge {api.title('judge', primary)}" if judge != primary else ""
    return text, [f"{by}. {chart.source()}"]


def texts_changed(row: Mapping[str, Any]) -> str:
    """On how many questions a run differs from the one it is compared with."""
    if row.get("silent"):
        return str(row["silent"])
    if row["both"] is None:
        return "" if row["run"] else "not run yet"
    if not row["acted"]:
        return "changed no prompt, answer or judged text"
    acted = f"affected {row['acted']:,} of {row['both']:,} questions"
    if not row["changed"] and not row["unscored"]:
        return f"{acted}; no verdict changed"
    low, high = (marks.signed(100 * (row[name] or 0)) for name in ("bound_low", "bound_high"))
    unscored = f", {row['unscored']} unscored: {low} to {high}" if row["unscored"] else ""
    return f"{acted}; {row['changed']:,} verdicts changed{unscored}"


def waterfall(replication: Row, label: str, judge: str) -> list[Row]:
    """The rows of the view of the same name, from the finished runs in sequence."""
    by_run = {row["run"]: row for row in replication["steps"]}
    finished = [run for run in replication["runs"] if run]
    return [
        row
        | {"step": by_run[row["run"]]["title"], "effect": by_run[row["run"]]["did"]}
        | {"texts_changed": texts_changed(row), "change": _change(row)}
        for row in state.result(
            state.finished_key(*finished), api.waterfall, tuple(finished), label, judge
        )
    ]


def _change(row: Mapping[str, Any]) -> str:
    text = api.with_interval(row["difference"], row["low"], row["high"], "points")
    return "–" if row["difference"] is None else f"{text}, {marks.p_value(row['p'])}"


def alone(replication: Row, label: str, judge: str) -> list[Row]:
    """The rows of the view of the same name; none before the corrected run is done."""
    steps, corrected = replication["alone"], replication["runs"][-1]
    if not corrected:
        return []
    runs = {row["name"]: row["run"] if row["status"] == "done" else None for row in steps}

    def faults_alone(*asked: str) -> list[Row]:
        return api.faults_alone(corrected, runs, *asked)

    key = state.finished_key(corrected, *runs.values()), tuple(runs)
    return [
        row | {"fault": row["title"], "effect": row["did"], "texts_changed": texts_changed(row)}
        for row in state.result(key, faults_alone, label, judge)
    ]


def claims(rows: Sequence[Row], view: api.View) -> None:
    """The claims of which the paper and this installation have a figure, from the one to the other,
    under one word each; all of them in a table; and what would test the others, folded."""
    (measure,) = view.measures
    drawn = [
        row
        for row in rows
        if row["paper_effect"] is not None
        and (row["published"], row["corrected"]) != (None, None)
        and (row["unit"] in ("share", "points") or "auroc" in row["cells"].lower())
    ]
    groups = Counter(map(_group, drawn))
    order = sorted(groups, key=lambda group: (group[0] == api.UNTESTED, group[1]))
    heads = {one: f"{one[1]} ({groups[one]})" for one in order}
    long = [
        {"group": heads[_group(row)], "claim": row["states"]} | mark
        for row in sorted(drawn, key=lambda row: order.index(_group(row)))
        for mark in _marks(row, "paper_effect", UNITS.get(row["unit"], ("", 1.0))[1])
    ]
    estimates = api.values(long, view, measure)
    numbers = st.container()
    if (figure := api.figure(estimates, view, measure)) is not None:
        picture, numbers = st.tabs(kit.TABS)
        with picture:
            alt = api.figure_alt(estimates, view, measure)
            chart.show(figure, alt, "paper_claims")
    with numbers:
        kit.draw_rows("paper", replace(view, measures=()), list(map(_in_full, rows)))
    untested = [row for row in rows if row["verdict"] == api.UNTESTED]
    if not untested:
        return
    reasons: dict[str, list[Row]] = {}
    for row in untested:
        reasons.setdefault(row["test"], []).append(row)
    with st.expander(
        f"{len(untested)} claims cannot be tested here: why, and what would test them"
    ):
        frame = pd.DataFrame(
            {"claims": len(of), "what would test them": test, "not tested because":
             "; ".join(dict.fromkeys(row["why"] for row in of))}
            for test, of in sorted(reasons.items(), key=lambda one: -len(one[1]))
        )  # fmt: skip
        tables.table(frame, "paper-untested", "Claims by what would test them", row_height=76)


def _group(row: Row) -> tuple[str, str]:
    """The verdict of a claim, and the word under which it is drawn: of one that cannot be tested
    here, what the text that is here shows."""
    untested = row["verdict"] == api.UNTESTED
    return row["verdict"], f"{row['direction']}, on this text" if untested else row["verdict"]


def _marks(row: Row, printed: str, times: float) -> list[Row]:
    """A figure of the paper (the column ``printed``) and this installation's, NaN where it is not
    known, multiplied."""
    columns = {printed: "paper", "published": "published, here", "corrected": "corrected, here"}
    return [
        {"of": title, "n": row.get(f"{name}_n")}
        | {
            end: math.nan if row[key] is None else times * row[key]
            for end, key in (("value", name), ("low", f"{name}_low"), ("high", f"{name}_high"))
        }
        for name, title in columns.items()
    ]


def _in_full(row: Row) -> Row:
    """A line of the table of claims, its one word first."""
    return {
        "verdict": _group(row)[1],
        "claim of the paper": row["states"],
        "effect in the paper": _effect(row, "paper_effect"),
        "published protocol": _effect(row, "published"),
        "corrected protocol": _effect(row, "corrected"),
        "shown by the paper's figures": row["in_paper"],
        "location in the paper": row["paper"],
        "figures of the paper": row["cells"] or "–",
    }


def claims_text(rows: Sequence[Row]) -> tuple[str, list[str]]:
    """How many claims have each verdict, and below it what the text that is here shows of those
    that cannot be tested."""
    untested = [row for row in rows if row["verdict"] == api.UNTESTED]
    n = f"of the paper's {len(rows)} claims"
    if len(untested) == len(rows):
        first = f"None {n} can be tested here: that takes its charts and its models."
    else:
        first = f"{n[:1].upper()}{n[1:]}: {_counted(row['verdict'] for row in rows)}."
    on_text = _counted(row["direction"] for row in untested)
    return first, [f"On the text that is here, which is no test: {on_text}."] if untested else []


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{word} {n}" for word, n in Counter(words).most_common())


def _effect(row: Row, name: str) -> str:
    """An effect with its interval or p, in points or in the unit of its figures."""
    if row[name] is None:
        return "–"
    unit, times = ("", 1.0) if row["unit"] == "number" else ("points", UNITS[row["unit"]][1])
    ends = [row[name], row[f"{name}_low"], row[f"{name}_high"]]
    text = api.with_interval(*(None if end is None else times * end for end in ends), unit)
    return text if row[f"{name}_p"] is None else f"{text}, {marks.p_value(row[f'{name}_p'])}"


def paper_tables(rows: Sequence[Row], others: Mapping[str, Row | None], view: api.View) -> None:
    """One table of the paper at a time, one of its columns, with this installation's figures.

    ``others``: page → the finished run of its kind, for tables that no run of answers holds.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        titles = {name: table.title for name, table in api.PAPER_TABLES.items()}
        name = pick("Table", list(titles), "table", titles, width=420)
        of_table = [row for row in rows if row["table"] == name]
        columns = sorted(dict.fromkeys(row["what"] for row in of_table), key="overall".__ne__)
        what = pick("Which", columns, f"what_{name}", KINDS, abreast=True)
    drawn = [row for row in of_table if row["what"] == what]
    unit, times = UNITS.get(drawn[0]["unit"], ("", 1.0))
    long = [
        {"label": row["label"]} | mark
        for row in drawn
        for mark in _marks(
            row | {"value_low": row["low"], "value_high": row["high"]}, "value", times
        )
    ]
    measure = replace(view.measures[0], title=KINDS.get(what, what), unit=unit)
    paper = api.PAPER_TABLES[name]
    run = others.get(paper.ours)
    about = [f"Source: {paper.source} (data/published/{paper.file}).", COUNTS.get(paper.counts, "")]
    if paper.ours == "runs":
        about += [
            "The paper used Qwen2.5-7B on MedAlign, judged by Claude; this installation uses the "
            "reader, cohort and judge named above, so levels may differ for that alone."
        ]
    elif run is None:
        about.append(f"No finished run here has these figures. Start one on the page {paper.ours}.")
    else:
        about.append(
            f"This installation's figures are of the finished run {run['name']} ({run['run']}) on "
            f"{Path(run['data']).name}. The paper's cohort was MedAlign or EHRSHOT, so levels "
            "differ."
        )
    view = replace(
        view, title=f"{paper.title}: {measure.title}", about=" ".join(filter(None, about))
    )
    kit.draw_rows(f"paper-{name}", view, long, measure)
    if paper.ours != "runs":
        navigation.link(
            paper.ours.lower(), f"Open the page {paper.ours}", icon=":material/arrow_forward:",
            query_params={"run": run["run"]} if run else {},
        )  # fmt: skip


COUNTS = {
    "lexical": "As in the paper, any kept sentence with a word of the answer counts.",
    "hit": "As in the paper, any kept sentence that is a hit counts.",
}
"""What the hits of a table count."""


def open_answers(label: str, row: Mapping[str, Any]) -> None:
    """Open a run's answers on page Arms; nothing before it was started."""
    if row["run"]:
        navigation.on_click("arms", run=row["run"], view="questions", differ="false", q_arm=label)


# The runs of a replication


def readers(cohort: str) -> list[str]:
    """The installed readers, that of the included runs first, and those (by label) of runs on the
    cohort."""
    of_runs = api.readers_of(api.open_data(cohort).path)
    return list(dict.fromkeys(["extractive", *state.installed_readers(), *of_runs]))


def start(
    cohort: str, reader: str, replication: dict[str, Any], by_step: dict[str, dict[str, Any]]
) -> None:
    """A button that queues the steps that are missing, ``by_step``."""
    rows = [*replication["steps"], *replication["alone"]]
    missing = [row["name"] for row in rows if row["run"] is None or row["imported"]]
    problems = state.preflight(api.write_toml(by_step[missing[0]]))["problems"] if missing else []
    if problem := sign_in.lacking(api.enqueue):
        problems = [problem]
    if missing:
        panel.button(
            f"Start the {len(missing)} runs" if len(missing) > 1 else "Start the run",
            "start_replication", api.enqueue, api.replicate, cohort, reader,
            problem=problems[0] if problems else "", refused="The runs could not be started",
            type="primary", icon=":material/play_arrow:",
        )  # fmt: skip
    spec = next(iter(by_step.values()))
    by = [api.title("reader", reader), *(api.title("judge", one) for one in spec["judges"])]
    about = (
        f"{len(spec['arms'])} arms × the questions of {cohort} under {len(by_step)} protocols, "
        f"read by {by[0]}, judged by {', '.join(by[1:])}, in sequence; gates are retrained for "
        "faults that affect them. Text leaves this machine only if a component is an external "
        "service, the cohort's data-use tag allows it and its host is allowed."
    )
    st.caption(for_screen(" ".join(problems) or about))
    for row in rows:
        if row["status"] in ("cancelled", "crashed"):
            panel.resume(row, f"replication_{row['name']}")
