"""The runs of a replication: specs, status, and the button that starts the missing ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import tables
from midchart.pages.ui.shared.marks import for_screen

FIRST_READERS = ("extractive", "small", "qwen")
"""Readers that run on this machine, in the order in which they are offered."""


def readers(cohort: str) -> list[str]:
    """The installed readers, and those (by label) of the runs on the cohort."""
    installed = {name for name, _, problem in state.members("reader") if not problem}
    first = [name for name in FIRST_READERS if name in installed]
    of_runs = api.readers_of(api.open_data(cohort).path)
    return list(dict.fromkeys([*first, *sorted(installed), *of_runs]))


def specs(cohort: str, reader: str) -> dict[str, dict[str, Any]]:
    """The runs of a replication by the name of their step; raises UnknownName for a reader."""
    return api.replication_specs(cohort, reader, {})


def origin(runs: Sequence[str], arms: int) -> None:
    """A line that says so where all these runs are the example that is part of Midchart."""
    texts = {panel.example(run) for run in runs}
    if "" not in texts:
        st.caption(
            f"{len(runs)} runs of {arms} arms, {'; '.join(texts)}. Your own, with every installed "
            'arm, start under "Source runs" at the end of the page.'
        )


def _name(entry: Any) -> str:
    return entry if isinstance(entry, str) else str(entry["name"])


def start(
    cohort: str, reader: str, replication: dict[str, Any], by_step: dict[str, dict[str, Any]]
) -> None:
    """The status of each step, and a button that queues the missing ones, ``by_step``
    (:func:`specs`)."""
    rows = [*replication["steps"], *replication["alone"]]
    missing = [row["name"] for row in rows if row["run"] is None or row["imported"]]
    problems = state.preflight(api.write_toml(by_step[missing[0]]))["problems"] if missing else []
    if problem := sign_in.lacking(api.enqueue):
        problems = [problem]
    if missing:
        panel.button(
            f"Start the {len(missing)} runs" if len(missing) > 1 else "Start the run",
            "start_replication", api.enqueue, api.replicate, cohort, reader,
            problem=problems[0] if problems else "", refused="The runs could not be started",
            type="primary", icon=":material/play_arrow:",
        )  # fmt: skip
    spec = next(iter(by_step.values()))
    st.caption(
        " ".join(map(for_screen, problems))
        or f"{len(spec['arms'])} arms × the questions of {for_screen(cohort)} under {len(by_step)} "
        f"protocols, read by "
        f"{for_screen(api.title('reader', _name(spec['readers'][0])))}, judged by "
        f"{for_screen(', '.join(api.title('judge', _name(one)) for one in spec['judges']))}, in "
        f"sequence; gates are retrained for "
        f"faults that affect them. Text leaves this machine only if a component is an external "
        f"service, the cohort's data-use tag allows it and its host is allowed."
    )
    for row in rows:
        if row["status"] in ("cancelled", "crashed"):
            panel.resume(row, f"replication_{row['name']}")
    shown = [
        {
            "step": row["title"],
            "run": row["run"] or "–",
            "state": row["status"] or "not started",
            "items": f"{row['done']:,} of {row['planned']:,}" if row["run"] else "–",
        }
        for row in rows
    ]
    alt = "Runs of this replication and their status"
    with st.expander("Every run"):
        tables.table(
            pd.DataFrame(shown), "replication-steps", alt,
            opens=lambda row, _: _open_run(rows[row]["run"]),
        )  # fmt: skip


def _open_run(run: str | None) -> None:
    """Open a run on page Runs; nothing before it was started."""
    if run:
        navigation.on_click("runs", run=run)
