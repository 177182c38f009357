"""Replication: the paper's tables with this installation's, and the effect of each fault."""

from collections.abc import Callable

import streamlit as st

from midchart.core import api
from midchart.pages.ui import guard, state
from midchart.pages.ui.curve import observed
from midchart.pages.ui.replication import runs as replication_runs
from midchart.pages.ui.replication import view
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared import conclusion, empty, figures
from midchart.pages.ui.shared.pickers import pick_component, pick_linked

guard.page("Replication")

if not state.question_cohorts():
    observed.no_questions()
    st.stop()
with st.sidebar:
    cohort = state.pick_cohort()
    reader = pick_component("reader", replication_runs.readers(cohort))
if not cohort:
    st.stop()
with guard.readable("These runs cannot be read"):
    figures.set_cohort(api.open_data(cohort))
    by_step = replication_runs.specs(cohort, reader)
    replication = state.replication(cohort, reader, next(iter(by_step.values())))
    finished = [run for run in replication["runs"] if run]
    published, corrected = replication["runs"][0], replication["runs"][-1]
    others = api.other_runs(api.open_data(cohort).path)
    other_runs = tuple(run["run"] for run in others.values() if run)
    if not finished:
        rows = state.paper_comparison(None, None, "", other_runs)
        conclusion.show(*view.verdict(rows, view.FIRST[0], reader, ""))
        with empty.state(
            "No replication yet",
            "A replication runs the paper's arms under the published protocol, then removes "
            "its faults one at a time until the corrected protocol remains. This isolates "
            "the effect of each fault on the same questions.",
        ):
            presets.included(folder="replication")
            replication_runs.start(cohort, reader, replication, by_step)
        view.claims(state.paper_claims(None, None, "", other_runs))
        view.paper_tables(rows, others)
        view.findings()
    else:
        arms, judges = api.arms_and_judges(finished[-1])
        with st.sidebar:
            arms = sorted(arms, key=lambda arm: view.FIRST.index(arm) if arm in view.FIRST else 9)
            arm = pick_component("arm", arms)
            judge = pick_component("judge", judges)
        rows = state.paper_comparison(published, corrected, judge, other_runs)
        compared = None
        if published and corrected and published != corrected:
            compared = next(
                (
                    row
                    for row in state.protocols_compared(published, corrected)
                    if (row["arm"], row["judge"]) == (arm, judge)
                ),
                None,
            )
        first, below = view.verdict(rows, arm, reader, judge, judges[0], compared)
        by_whom = f"{below[0]} {figures.source()}" if below else figures.source()
        conclusion.show(first, [by_whom])
        faults = view.alone_rows(replication, corrected, arm, judge)
        views: dict[str, tuple[str, Callable[[], object]]] = {
            "waterfall": (
                "What does each fault cost?",
                lambda: view.waterfall(replication, faults, arm, judge),
            ),
            "alone": ("And each fault alone?", lambda: view.faults_alone(faults)),
            "claims": (
                "Which claims hold?",
                lambda: view.claims(state.paper_claims(published, corrected, judge, other_runs)),
            ),
            "tables": ("How far are its tables?", lambda: view.paper_tables(rows, others)),
            "findings": ("What contradicts the paper?", view.findings),
        }
        chosen = pick_linked(
            "view", "Question", list(views), lambda name: views[name][0], key="view",
            unlinked="waterfall", width=330, label_visibility="collapsed",
        )  # fmt: skip
        views[chosen][1]()
        with st.expander("Source runs", expanded=len(finished) < len(replication["runs"])):
            replication_runs.origin(finished, len(arms))
            replication_runs.start(cohort, reader, replication, by_step)
