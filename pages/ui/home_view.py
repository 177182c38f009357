"""The parts of page Home: where evidence is lost, three doors, cohorts and runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import streamlit as st

from midchart.core import api, figures
from midchart.core.errors import MidchartError
from midchart.pages.ui import navigation, state
from midchart.pages.ui.data.cohort import counts, permitted
from midchart.pages.ui.runs import panel, picker
from midchart.pages.ui.shared import chart, messages
from midchart.pages.ui.shared.marks import for_screen

ARROW = ":material/arrow_forward:"
MOST = 5
"""Cohorts and runs that are listed; their own pages have them all."""


def picture() -> None:
    """What became of the evidence in a run's charts, by its place in them, in one sentence and one
    picture; of the newest finished run of this installation, else of an included one."""
    examples = state.included()
    runs = sorted(state.runs(("answers",)), key=lambda run: run["run"] in examples)
    run = next((one for one in runs if one["status"] == "done" and _rows(one)), None)
    if run is None:
        stopped = [one for one in runs if not state.active(one) and one["status"] != "done"]
        if stopped:
            panel.resume(stopped[0], "home")
        st.info("No finished run yet: start a first one below, or look into a chart at once.")
        return
    rows = _rows(run)
    label, reader = rows[0]["label"], rows[0]["reader"]
    report = {"kind": run["kind"], "tables": {"funnel": rows}}
    view = next(one for one in api.views_of(report) if one.name == "lost")
    shown = api.rows_of(report["tables"], view, {})
    measure = view.measures[0]
    estimates = api.values(shown, view, measure)
    messages.conclude(api.funnel_sentence(rows))
    chart.forget_source()
    if (figure := api.figure(estimates, view, measure)) is not None:
        figure.update_layout(height=HEIGHT, yaxis_title_text="facts")
        page, address = picker.results_of(run)
        chart.show(
            figure, f"{api.funnel_sentence(rows)} {api.figure_alt(estimates, view, measure)}",
            "home_funnel",
            opens=lambda *_: navigation.on_click(page, **address, view="lost"),
        )  # fmt: skip
    synthetic = ""
    with suppress(MidchartError):
        synthetic = "synthetic " * api.open_data(run["data"]).manifest.synthetic
    by = f"{api.title('reader', reader)} read what {api.title('arm', label)} had selected"
    st.caption(
        for_screen(
            f"A fact is a sentence of a {synthetic}chart that answers a question. {by}: run "
            f"“{run['name']}”{picker.origin(run, ', ')}."
        )
    )


HEIGHT = 300
"""Pixels of the picture."""


def _rows(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The funnel of the run's first arm that selects, neither all nor by the evidence, and of its
    first reader; empty where nothing is judged."""
    rows = state.of_run(run, api.evidence_funnel)
    labels = [
        label
        for label in figures.leading(list(dict.fromkeys(row["label"] for row in rows)), len(rows))
        if not figures.is_control(label) and api.split_label(label)[0] not in EVERYTHING
    ]
    of = [row for row in rows if row["label"] == (labels or [""])[0]]
    return [row for row in of if row["reader"] == of[0]["reader"]]


EVERYTHING = ("full", "oracle")
"""Arms that select all sentences, or those with the evidence."""


def ways_in() -> None:
    """Three doors: a chart, the arms, charts of one's own."""
    doors = (
        ("Look into a chart", "Which sentences were kept for a question, which were lost, and what "
         "was answered.", "patient", "Open a chart"),
        ("Compare ways to select", "Where each of them loses the evidence, question by question.",
         "arms", "See the comparison"),
        ("Bring charts", "FHIR, C-CDA, OMOP, tables or notes; they stay on this machine.",
         "data", "Import a cohort"),
    )  # fmt: skip
    for column, (title, about, page, label) in zip(st.columns(3), doors, strict=True):
        with column, st.container(border=True, height="stretch"):
            st.header(title, anchor=False)
            st.caption(about)
            if page == "patient":
                if st.button(label, key="open_patient", type="primary", icon=ARROW):
                    navigation.go(page)
            else:
                navigation.link(page, label, icon=ARROW)


def loaded() -> None:
    """The installed cohorts, each with its counts and its permitted use."""
    cohorts = state.cohorts()
    for name, path, problem in cohorts[:MOST]:
        if problem:
            st.warning(for_screen(problem), title=f"{for_screen(name)} cannot be opened")
        else:
            opened = api.open_data(path)
            label = f"**{for_screen(name)}** {counts(opened)} · {permitted(opened.manifest)}"
            navigation.link("data", label, query_params={"cohort": name})
    more = len(cohorts) - MOST
    label = f"All {len(cohorts)} cohorts, and import" if more > 0 else "Import a cohort"
    navigation.link("data", label, icon=ARROW)


def runs() -> None:
    """The latest runs, active ones first, each with its state."""
    entries = sorted(api.listed(state.runs()), key=lambda entry: not state.active(entry))
    if not entries:
        st.caption("Nothing has been run yet.")
    elif not state.active(entries[0]):
        st.caption("Nothing is running.")
    for entry in entries[:MOST]:
        parts = f"{entry['status']}{picker.origin(entry, ', ')} · {picker.created(entry)}"
        label = f"**{for_screen(entry['name'])}** {parts}"
        navigation.link("runs", label, query_params={"run": entry["run"]})
    navigation.link("runs", "All runs", icon=ARROW)
    navigation.link("runs", "New run", icon=ARROW, query_params={"view": "New run"})
