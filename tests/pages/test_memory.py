"""Memory that the server's process gives back."""

import platform
import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

SCRIPT = """
import sys
from pathlib import Path
from midchart.pages.ui import memory

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024

if sys.argv[1] == "returned":
    assert memory.return_freed_blocks()
bytearray(30 << 20)  # freed at once: glibc raises its threshold above the next blocks
blocks = [(bytearray(b"x" * (1 << 20)), bytearray(b"x" * 60_000)) for _ in range(200)]
between = [small for _, small in blocks]  # as caches that fill meanwhile
before = resident()
del blocks
print(before - resident())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_freed_blocks_go_back_to_the_system_whatever_lies_between_them():
    def freed(how):
        arguments = [sys.executable, "-c", SCRIPT, how]
        return int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)

    assert freed("returned") > 180, "of 200 MB"
    assert freed("as it was") < 100, "else the test shows nothing"


def page() -> None:
    import streamlit as st

    from midchart.pages.ui import memory

    if st.session_state.get("forgets"):
        memory.forget_widgets()
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
