"""Rules of all pages: escaped text, shortened prompts, choices stored page by page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as hyp
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.core.format import MARKDOWN
from midchart.pages.ui.shared import marks
from midchart.pages.ui.shared.marks import for_screen, looks_marked
from tests.support import app_data

pytestmark = pytest.mark.slow


@given(hyp.text(alphabet="ab \n\r" + "".join(sorted(MARKDOWN))))
def test_nothing_that_markdown_reads_is_left_bare(text):
    escaped = for_screen(text)
    assert "\n" not in escaped and "\r" not in escaped
    at = 0
    while at < len(escaped):
        assert escaped[at] not in MARKDOWN - {"\\"}, "bare"
        at += 2 if escaped[at] == "\\" else 1
    assert [c for c in escaped if c in "ab"] == [c for c in text if c in "ab"]


@pytest.mark.parametrize("text", ["![x](y)", "a $b$", "`a`", ":material/home:", "<b>", "*a*"])
def test_what_could_be_more_than_words_is_noticed(text):
    assert looks_marked(text) and not looks_marked("bm25 · k=5 (offline), R_1")


def test_a_page_has_its_own_choices_back_and_leaves_them_to_no_other():
    def script():
        import streamlit as st

        from midchart.pages.ui import navigation
        from midchart.pages.ui.shared import pickers

        title, runs, views = st.session_state["page"]
        navigation._arrive(title)
        pickers.pick_linked("run", "Run", runs, str, key="run")
        navigation.view(views)

    first = ("Gate", ["new", "old"], ["Ablation", "Training"])
    second = ("Forecast", ["f2", "f1"], ["Comparison", "Training"])
    app = AppTest.from_function(script, default_timeout=60)

    def go(page):
        app.session_state["page"] = page
        app.query_params.clear()  # as the browser does where the menu is used
        app.run()
        assert not app.exception
        return app.selectbox(key="run").value, app.segmented_control(key="view").value

    assert go(first) == ("new", "Ablation")
    app.selectbox(key="run").set_value("old")
    app.segmented_control(key="view").set_value("Training").run()
    assert go(second) == ("f2", "Comparison")
    assert go(first) == ("old", "Training")
    assert not app.info
    app.session_state["page"] = second
    app.query_params["run"] = "old"
    app.run()
    assert app.selectbox(key="run").value == "f2"
    assert "The item in this link was not found" in app.info[0].value


def test_pages_of_other_cohorts_leave_the_cohort_of_questions_alone(empty):
    for name in ("one", "two"):
        app_data.make_cohort(empty / "data", name)

    def script():
        import streamlit as st

        from midchart.pages.ui import navigation, state

        navigation._arrive(st.session_state["page"])
        state.pick_cohort(forecasts=st.session_state["page"] == "Data")

    app = AppTest.from_function(script, default_timeout=60)

    def go(page):
        app.session_state["page"] = page
        app.query_params.clear()
        app.run()
        return app.selectbox(key="cohort")

    go("Patient").set_value("two").run()
    assert go("Curve").value == "two", "both ask questions"
    assert go("Data").value == "one"
    assert go("Patient").value == "two"


def test_a_missing_number_is_shown_as_a_dash():
    def script():
        import pandas

        from midchart.pages.ui.shared import tables

        tables.table(pandas.DataFrame({"p": [None, 0.5]}), "few", "Two p values")

    app = AppTest.from_function(script, default_timeout=60).run()
    assert app.dataframe[0].proto.placeholder == "–"


def test_numbers_in_words():
    assert marks.signed(-2.04) == "−2.0"
    assert marks.signed(-0.04) == "0.0"
    assert api.with_interval(0.1, 0.02, 0.18, "points") == "+10.0 [+2.0, +18.0]"
    assert api.with_interval(0.1, None, None, "points") == "+10.0"
    shown = [marks.p_value(p) for p in (None, 0.0002, 0.0314, 1.0)]
    assert shown == ["no p", "p < 0.001", "p = 0.031", "p = 1.000"]
