"""Paper: its tables with this installation's, the effect of each fault, and its claims."""

from functools import partial

import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.curve import observed
from midchart.pages.ui.replication import view
from midchart.pages.ui.results import kit
from midchart.pages.ui.shared import chart, messages
from midchart.pages.ui.shared.pickers import pick_linked

navigation.page("Replication")

if not state.question_cohorts():
    observed.no_questions()
    st.stop()
with st.sidebar:
    cohort = state.pick_cohort()
    reader = view.pick_component("reader", view.readers(cohort))
if not cohort:
    st.stop()
with navigation.readable("These runs cannot be read"):
    chart.set_cohort(api.open_data(cohort))
    by_step = api.replication_specs(cohort, reader, {})
    wanted = next(iter(by_step.values()))
    path = api.open_data(cohort).path
    replication = api.replication(path, reader, wanted["arms"], wanted["judges"])
    finished = [run for run in replication["runs"] if run]
    published, corrected = runs = replication["runs"][0], replication["runs"][-1]
    others = api.other_runs(path)
    other_runs = tuple(run["run"] for run in others.values() if run)
    arm, judge, judges, compared = view.FIRST[0], "", [""], None
    if finished:
        arms, judges = api.arms_and_judges(finished[-1])
        with st.sidebar:
            arms = sorted(arms, key=lambda arm: view.FIRST.index(arm) if arm in view.FIRST else 9)
            arm = view.pick_component("arm", arms)
            judge = view.pick_component("judge", judges)
    of_paper = state.finished_key(*runs, *other_runs)
    top = st.container()
    if not finished:
        with messages.empty(
            "No replication yet",
            "A replication runs the paper's arms under the published protocol, then removes "
            "its faults one at a time until the corrected protocol remains. This isolates "
            "the effect of each fault on the same questions.",
        ):
            view.start(cohort, reader, replication, by_step)
    lacking = () if finished else view.OF_RUNS if other_runs else ("claims", *view.OF_RUNS)
    views = {one.name: one for one in api.PAPER_VIEWS if one.name not in lacking}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="kit_line"):
        name = pick_linked(
            "view", "Question", {name: one.title for name, one in views.items()},
            unlinked=next(iter(views)), width=330, label_visibility="collapsed",
        )  # fmt: skip
        measure = kit.pick_measure(views[name].measures)
    if name == "claims":
        claims = state.result(of_paper, api.paper_claims, *runs, judge, other_runs)
        messages.conclude(*view.claims_text(claims), place=top)
    else:
        if published and corrected and published != corrected:
            rows = state.result(state.finished_key(*runs), api.compare_runs, runs)["results"]
            compared = next((r for r in rows if (r["arm"], r["judge"]) == (arm, judge)), None)
        rows = state.result(of_paper, api.paper_comparison, *runs, judge, other_runs)
        messages.conclude(
            *view.headline(rows, arm, reader, (judge, judges[0]), compared), place=top
        )
    if name == "waterfall" and len(finished) < len(replication["runs"]):
        st.info(
            "Not every step has finished: a bar shows the difference to the finished step above "
            "it, with all faults between them removed.", icon=":material/hourglass_top:",
        )  # fmt: skip
    if name == "tables":
        view.paper_tables(rows, others, views[name])
    elif name == "claims":
        view.claims(claims, views[name])
    else:
        shown = {
            "waterfall": lambda: view.waterfall(replication, arm, judge),
            "alone": lambda: view.alone(replication, arm, judge),
            "findings": api.findings,
        }[name]()
        opens = partial(view.open_answers, arm)
        kit.draw_rows("paper", views[name], shown, measure, lambda _, __, row: opens(row))
    if finished:
        with st.expander("Its runs", expanded=len(finished) < len(replication["runs"])):
            view.start(cohort, reader, replication, by_step)
            navigation.link("runs", "The state of each", icon=":material/arrow_forward:")
