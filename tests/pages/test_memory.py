"""Memory that the server's process gives back."""

import pytest
from streamlit.testing.v1 import AppTest


def page() -> None:
    import streamlit as st

    from midchart.pages.ui import server

    if st.session_state.get("forgets"):
        server.forget_widgets()
    run = st.session_state["run"] = st.session_state.get("run", 0) + 1

    def count() -> None:
        st.session_state["calls"] = st.session_state.get("calls", 0) + 1

    st.selectbox("Fruit", ["apple", "pear"], key="fruit", on_change=count)
    st.selectbox("Number", [f"{run} {n}" for n in range(100)], key=f"number {run}")

    @st.fragment
    def part() -> None:
        st.write(st.checkbox("Ripe", key="ripe", on_change=count))

    part()


@pytest.mark.parametrize("forgets", [True, False])
def test_a_session_forgets_the_widgets_of_earlier_runs_and_no_other(forgets: bool) -> None:
    app = AppTest.from_function(page)
    app.session_state["forgets"] = forgets
    app.run()
    app.selectbox(key="fruit").select("pear").run()
    app.checkbox(key="ripe").check().run()
    for _ in range(10):
        app.run()
    described = app.session_state._state._state._new_widget_state.widget_metadata
    assert not app.exception and len(described) == (4 if forgets else 15)
    assert app.selectbox(key="fruit").value == "pear" and app.checkbox(key="ripe").value
    assert app.session_state["calls"] == 2
    app.selectbox(key="fruit").select("apple").run()
    assert app.session_state["calls"] == 3 and app.checkbox(key="ripe").value
