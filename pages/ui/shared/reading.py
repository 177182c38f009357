"""The line on a cohort whose records are still being read in the background."""

from __future__ import annotations

import streamlit as st

from midchart.core import api
from midchart.pages.ui.shared.marks import for_screen


def complete(cohort: str) -> bool:
    """Whether every record of a cohort has been read, so that its counts and positions are known.

    Until then, a line with the progress, which draws the page again at the end.
    """
    if api.reading_progress(cohort) is None:
        return True
    _progress(cohort)
    return False


@st.fragment(run_every=1.0)
def _progress(cohort: str) -> None:
    progress = api.reading_progress(cohort)
    if progress is None:
        st.rerun(scope="app")
    elif progress.problem:
        st.warning(for_screen(progress.problem), title="The records were not read completely")
        st.button("Read them again", key="read_again", icon=":material/refresh:",
                  on_click=api.reading_progress, args=(cohort, True))  # fmt: skip
    else:
        st.progress(
            progress.done / max(progress.planned, 1),
            f"Counting events and locating evidence: {progress.done:,} of {progress.planned:,} "
            "records read. Once per cohort, in the background; the results appear here.",
        )
