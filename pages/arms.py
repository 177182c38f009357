"""Arms: the arms of a run compared overall, by position and in pairs, down to a single question."""

import streamlit as st

from pages.ui import guard, state
from pages.ui.arms import by_kind as arms_kinds
from pages.ui.arms import costs as arms_costs
from pages.ui.arms import failures as arms_failures
from pages.ui.arms import hits as arms_hits
from pages.ui.arms import judges as arms_judges
from pages.ui.arms import pairs as arms_pairs
from pages.ui.arms import pick as arms_pick
from pages.ui.arms import questions as questions_view
from pages.ui.arms import view as arms_view
from pages.ui.runs import panel as runs
from pages.ui.runs import pick as runs_pick
from pages.ui.shared import empty

guard.page("Arms")

READ = {
    "Overall": arms_view.overall,
    "By position": arms_view.bands,
    "Pairs": arms_pairs.pairs,
    "Evidence": arms_hits.hits,
    "Question types": arms_kinds.kinds,
    "By k": arms_kinds.sweep,
    "Judges": arms_judges.judges,
    "Failures": arms_failures.failures,
    "Costs": arms_costs.costs,
    "Questions": questions_view.questions,
}
# Of a run that reads and judges nothing.
KEPT = {name: READ[name] for name in ("Overall", "By position", "By k", "Costs")}

runs.panel()
if not state.runs(state.COMPARING):
    arms_view.no_runs()
    st.stop()

with guard.readable("This run cannot be read"):
    run, report = runs_pick.opened(state.COMPARING, "arms")
    if not report["items"]["done"]:
        if report["items"]["failed"] and not state.active(run):
            st.info("Every item of this run failed; the reasons are listed below.")
        else:
            empty.no_results("item is complete")
    else:
        chosen = arms_pick.choose(run, report)
        arms_pick.headline(chosen)
        views = READ if chosen.judge else KEPT
        view = guard.view(views, "view" if chosen.judge else "view_kept")
        views[view](chosen)
        arms_pick.notes(chosen)
    if report["items"]["failed"]:
        runs.failures(report)
