"""Needle runs: a made-up fact at every depth of the same record, so that only its place changes."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core import api
from core.errors import MidchartError
from pages.ui import (
    arms_pick,
    cohort_view,
    curve_heatmap,
    curve_view,
    navigation,
    results,
    runs,
    state,
    tables,
    theme,
)

SPEC = navigation.FOLDER.parent / "docs" / "needles.toml"
KIND = "needles"
WHOSE = ("label", "reader", "judge")


def needles() -> None:
    """The needle runs of this installation: pick one, see what depth does."""
    if not state.runs((KIND,)):
        no_run()
        return
    run = state.pick_run(kinds=(KIND,))
    if run is None:
        return
    report = state.report(run)
    runs.line(run, report)
    if state.active(run):
        st.info("This run is at work: what is shown is partial.", icon=":material/hourglass_top:")
    elif run["status"] != "done":
        runs.resume(run, "curve")
    frame = results.frame_of(report, "heatmap")
    if frame.empty or not frame["n"].sum():
        st.info("No needle of this run is judged yet. Results appear here as they come.")
    else:
        shown(run, report, frame)
    if report["items"]["failed"]:
        runs.failures(report)
    with st.expander("Run needles again"):
        start(state.pick_cohort("On which cohort"))


def no_run() -> None:
    """The empty state: what will be here, and the button that begins it."""
    with st.container(border=True):
        st.subheader("No needle run yet", anchor=False)
        st.write(
            "In an observed curve, questions about one part of a record may be harder for other "
            "reasons. A needle run places the same made-up fact (a dose, a laboratory value, a "
            "date, a negation) at every depth of the same record, cut to several lengths, and asks "
            "for it: position is then the only thing that changes."
        )
        cohort = state.pick_cohort("On which cohort")
        if cohort:
            start(cohort)


def spec(cohort: str) -> dict[str, Any]:
    """The ready-made needle run on a cohort."""
    made = tomllib.loads(SPEC.read_text(encoding="utf-8"))
    return {**made, "data": api.open_data(cohort).path, "name": f"needles on {cohort}"}


def start(cohort: str) -> None:
    """The button that starts the ready-made needle run, with what it will do said before."""
    made = spec(cohort)
    busy = any(state.active(run) and run["data"] == made["data"] for run in state.runs((KIND,)))
    if st.button(
        "Run the needles", key="start_needles", type="primary", icon=":material/play_arrow:",
        disabled=busy, help="A needle run on this cohort is at work already." if busy else None,
    ):  # fmt: skip
        try:
            api.start(made)
        except MidchartError as error:
            st.error(str(error), title="The run could not be started")
        else:
            st.rerun()
    readers, judges = " and ".join(made["readers"]), " and ".join(made["judges"])
    st.caption(
        f"Read by {readers}, judged by {judges}; it can be cancelled and goes on where it stopped. "
        "Nothing leaves this machine."
    )
    st.code(f"python -m core run docs/{SPEC.name}", language="bash")


def shown(run: dict[str, Any], report: dict[str, Any], frame: pd.DataFrame) -> None:
    """Verdict, heatmaps by distractors, depths as lines, contrast, and every number."""
    first = st.container()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        here = {
            column: arms_pick.pick(
                column.replace("label", "arm").capitalize(),
                results.choices(frame, column),
                f"needle_{column}",
            )
            for column in WHOSE
        }
    rows = results.where(frame, **here)
    with first:
        told = results.where(results.frame_of(report, "verdict"), **here)
        curve_view.verdict(" ".join(told["text"]) if "text" in told else "")
    who = f"{here['label']}, read by {here['reader']}, judged by {here['judge']}"
    st.subheader("The same fact by depth and length", anchor=False)
    facets(rows, who)
    st.caption(
        f"{cohort_view.plain(who)}. Each cell: per cent told right; its n and 95 % interval "
        "(Wilson) on hover and in the table. Depth: where in the record the fact stands, 0 % is "
        "its beginning."
    )
    with st.expander("The heatmap as a table"):
        tables.table(
            cell_table(rows),
            f"{run['run']}-heatmap",
            "Each cell: depth, length, distractors, n, right, share with interval, kept in prompt",
            download=frame,
            height=460,
        )
    more(run, report, here)


def facets(rows: pd.DataFrame, who: str) -> None:
    """A heatmap for each number of distractors."""
    counts = sorted(set(rows["distractors"]))
    abreast = min(len(counts), 3)
    for first in range(0, len(counts), abreast):
        places = st.columns(abreast, gap="medium")
        for place, count in zip(places, counts[first : first + abreast], strict=False):
            own = rows[rows["distractors"] == count]
            with place:
                st.markdown(f"**{distractors(count)}** n = {int(own['n'].sum()):,}")
                theme.show(
                    curve_heatmap.heatmap(own),
                    curve_heatmap.alt(own, f"{who}, {distractors(count)}"),
                    f"needle_heatmap_{count}",
                )


def distractors(count: int) -> str:
    """How many look-alikes of the fact the record holds, in words."""
    if not count:
        return "no look-alike"
    return f"{count} look-alike{'' if count == 1 else 's'}"


def cell_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The heatmap's cells as rows in words."""
    table = pd.DataFrame(
        {
            "length": rows["length"],
            "depth, %": rows["depth"],
            "look-alikes": rows["distractors"],
            "n": rows["n"],
            "right": rows["correct"],
            "% [95 %]": results.shares(rows, "accuracy", "wilson_low", "wilson_high"),
        }
    )
    if "kept" in rows:
        table["kept in prompt"] = [results.percent(v) for v in rows["kept"]]
    return table.sort_values(["look-alikes", "length", "depth, %"])


def more(run: dict[str, Any], report: dict[str, Any], here: dict[str, str]) -> None:
    """The run's other tables of this arm, reader and judge, each with its download."""
    for name, title in (
        ("contrast", "Middle against edge, paired by fact"),
        ("depths", "By depth"),
        ("lengths", "By length"),
    ):
        whole = results.frame_of(report, name)
        own = results.where(whole, **here)
        if own.empty:
            continue
        st.subheader(title, anchor=False)
        tables.table(plain(own), f"{run['run']}-{name}", title, download=whole, height="content")


def plain(rows: pd.DataFrame, dropped: Sequence[str] = ("arm", "k", *WHOSE)) -> pd.DataFrame:
    """A table without what was chosen above it."""
    return rows.drop(columns=[name for name in dropped if name in rows])
