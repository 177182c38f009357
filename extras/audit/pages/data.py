"""Receiving the log of another system on page Data, and auditing it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.extras.audit.received_logs import receive_log
from midchart.pages.ui import navigation, sign_in
from midchart.pages.ui.data.import_form import LARGEST_UPLOAD_MB
from midchart.pages.ui.shared.marks import for_screen


def section(cohort: str) -> None:
    """The form that stores the log of a system that answered questions on a cohort's charts, and
    begins its audit."""
    if sign_in.lacking(receive_log):
        return
    title = "Audit a system that answered questions on these charts"
    with st.expander(title, icon=":material/search:"):
        st.write(
            "Where did it lose the evidence? Its traces, its log or a table (patient, question, "
            "context, answer) are compared with the charts on this machine. The log is stored with "
            "the cohort and removed with it."
        )
        file = st.file_uploader(
            "Log: OpenTelemetry or Phoenix export, Inspect, promptfoo, CSV, JSON Lines",
            key=f"log_file_{cohort}", max_upload_size=LARGEST_UPLOAD_MB,
        )  # fmt: skip
        if st.button("Audit", key=f"log_audit_{cohort}", type="primary", disabled=file is None):
            _receive(cohort, file)


def _receive(cohort: str, file: Any) -> None:
    meter = st.progress(0.0, "Copying")
    stored = False
    try:
        log = receive_log(
            cohort, [(file.name, file)], lambda done, of: meter.progress(done / max(of, 1))
        )
        stored = True
        name = f"audit of a log received for {cohort}"
        run = api.enqueue({"kind": "audit", "name": name, "data": cohort, "log": log})
    except (MidchartError, OSError) as error:
        title = "The log is stored, its audit could not be started" if stored else "Refused"
        st.error(for_screen(str(error)), title=title)
        return
    finally:
        meter.empty()
    st.success("Its audit has begun: page Runs shows how far it is.", title="The log is stored")
    navigation.link(
        "runs", "Open the audit", icon=":material/arrow_forward:", query_params={"run": run}
    )
