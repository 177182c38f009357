"""Patient: the chart as a map, its questions, the record and the arms next to each other."""

import streamlit as st

from midchart.pages.ui import navigation, state
from midchart.pages.ui.patient import controls, model, record_view, view
from midchart.pages.ui.shared import chart, marks

navigation.page("Patient")

top, map_place = st.container(), st.container(key="patient_map")
bench, below = st.container(), st.container()
drawer = st.expander(
    "Settings and files", icon=":material/tune:", on_change="rerun", key="patient_drawer"
)
choice, middle, right = controls.choose(top, bench, drawer)
if not choice.record.events:
    middle.info("This record has no events.")
    st.stop()
if not choice.instruction.question:
    with middle:
        record_view.section(choice, (), ())
    st.stop()
chart.set_cohort(choice.cohort)
pieces = model.pieces(choice)
with top:
    controls_line = st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    )
with controls_line:
    st.caption(view.facts(choice), width="content")
    with st.container(horizontal=True, width="content", gap="small"):
        heat, by = view.heat_of(choice), view.axis_choice(choice)
arms, reading, stages = view.views_of(choice, "" if heat == view.NO_HEAT else heat)
others = [other for marks_of in state.parts("patient") if (other := marks_of(choice))]
views = [*(other.view for other in others), *arms]
if headline := view.headline(arms, pieces, choice.gold.answer if choice.gold else ""):
    top.html(marks.block(headline))
with map_place:
    hot = stages.get(model.HEAT) == model.READ
    drawn = view.chart_map(choice, views, pieces, by, heat, hot)
    view.reading_the_map(choice, pieces, by)
with middle:
    record_view.section(choice, views, pieces)
with right:
    view.arms(choice, arms, pieces, reading, stages)
with below:
    record_view.own_question(choice)
    view.why(choice, views, pieces)
    for other in others:
        other.section()
if drawer.open:
    with drawer:
        view.files(choice, views, pieces, drawn)
