"""Arms: the arms of a run compared overall, by position and in pairs, down to a single question."""

import streamlit as st

from midchart.pages.ui import guard, state
from midchart.pages.ui.arms import (
    agreement,
    benchmark,
    comparison,
    costs,
    overview,
    questions,
)
from midchart.pages.ui.runs import panel, picker, presets
from midchart.pages.ui.shared import empty

guard.page("Arms")

VIEWS = {
    "Overall": overview.overall,
    "By position": overview.bands,
    "Pairs": overview.pairs,
    "Question types": overview.question_types,
    "Evidence": overview.hits,
    "By k": overview.sweep,
    "Judges": agreement.judges,
    "Failures": questions.failures,
    "Costs": costs.costs,
    "Questions": questions.questions,
}
GROUPS = {
    "Result": ("Overall", "By position", "Pairs", "Question types"),
    "Evidence and k": ("Evidence", "By k"),
    "Reliability": ("Judges", "Failures", "Costs"),
    "Questions": ("Questions",),
}
WITHOUT_JUDGE = {
    "Result": ("Overall", "By position"),
    "Evidence and k": ("By k",),
    "Reliability": ("Costs",),
    "Questions": ("Questions",),
}

if not state.runs(state.COMPARING):
    with empty.state(
        "No run yet",
        "A run asks every question of a cohort with every arm and judges the answers. This "
        "page then compares the arms. The demo comparison takes a few minutes.",
    ):
        presets.included(*state.COMPARING)
        cohort = state.pick_cohort("Cohort")
        if cohort:
            presets.demo(cohort, "arms")
    benchmark.benchmarks()
    st.stop()

with guard.readable("This run cannot be read"):
    run, report = picker.opened(state.COMPARING, "arms")
    items = report["items"]
    if items["done"]:
        shown = comparison.choose(run, report)
        comparison.headline(shown)
        view = guard.grouped_view(GROUPS if shown.judge else WITHOUT_JUDGE)
        if view not in ("Judges", "Questions"):
            st.caption(comparison.CLICK)
        VIEWS[view](shown)
        comparison.notes(shown)
    elif items["failed"] and not state.active(run):
        st.info("Every item of this run failed; the reasons are listed below.")
    else:
        empty.no_results("item is complete")
    if items["failed"]:
        panel.failures(report, opens=questions.open_failed if items["done"] else None)
benchmark.benchmarks()
