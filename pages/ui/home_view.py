"""The parts of page Home: the latest run's conclusion, three ways in, cohorts and runs."""

from __future__ import annotations

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import navigation, state
from midchart.pages.ui.data.cohort import counts, permitted
from midchart.pages.ui.runs import panel, picker
from midchart.pages.ui.shared import conclusion
from midchart.pages.ui.shared.marks import for_screen

ARROW = ":material/arrow_forward:"
MOST = 5
"""Cohorts and runs that are listed; their own pages have them all."""


def answer() -> None:
    """The conclusion of the latest finished run, and a link to its results.

    An example that is part of Midchart leads only where no other run has finished, and first one
    that compares arms.
    """
    examples = state.included()
    runs = sorted(
        state.leading(state.runs()),
        key=lambda run: (
            run["status"] != "done",
            run["run"] in examples,
            run["run"] in examples and run["kind"] not in state.COMPARING,
        ),
    )
    if not runs or runs[0]["status"] != "done":
        if runs and not state.active(runs[0]):
            panel.resume(runs[0], "home")
        st.info("No finished run yet: start a first one below, or look into a chart at once.")
        return
    report = state.report(runs[0])
    stated = api.conclusion_of(report)
    conclusion.of_run(report, stated.headline, stated.details[:1])
    page, address = picker.results_of(runs[0])
    label = f"Results of “{for_screen(runs[0]['name'])}”{picker.origin(runs[0], ', ')}"
    navigation.link(page, label, icon=ARROW, query_params=address)


def ways_in() -> None:
    """Three ways in: a chart, the curve, a run."""
    chart, curve, run = st.columns(3)
    with chart, st.container(border=True, height="stretch"):
        st.header("Read a chart", anchor=False)
        st.caption("Which sentences each arm kept, which evidence it dropped, what was answered.")
        if st.button("Open a patient", key="open_patient", type="primary", icon=ARROW):
            navigation.switch("patient")
    with curve, st.container(border=True, height="stretch"):
        st.header("See the curve", anchor=False)
        st.caption("Accuracy by position of the evidence in the chart, compared with chance.")
        navigation.link("curve", "Open the curve", icon=ARROW)
    with run, st.container(border=True, height="stretch"):
        st.header("Compare arms", anchor=False)
        st.caption("A run on 20 questions; its time is measured before it starts.")
        navigation.link("runs", "New run", icon=ARROW, query_params={"view": "New run"})


def loaded() -> None:
    """The installed cohorts, each with its counts and its permitted use."""
    cohorts = state.cohorts()
    for name, path, problem in cohorts[:MOST]:
        try:
            opened = None if problem else api.open_data(path)
        except MidchartError as error:
            problem = str(error)
        if problem or opened is None:
            st.warning(for_screen(problem), title=f"{for_screen(name)} cannot be opened")
        else:
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
