"""The runs of a replication: which are there, which are missing, and the button for the rest."""

from __future__ import annotations

import tomllib
from typing import Any

import pandas as pd
import streamlit as st

from core import api
from core.errors import MidchartError
from pages.ui import state
from pages.ui.runs import panel
from pages.ui.runs.demo import SPEC
from pages.ui.shared import tables
from pages.ui.shared.plain import plain

HERE = ("extractive", "small", "qwen")
"""Readers that answer on this machine, in the order in which they are offered."""


def readers() -> list[str]:
    """The readers of this machine that a replication can be read by."""
    fit = {name for name, _, problem in state.members("reader") if not problem}
    return [name for name in HERE if name in fit]


def specs(cohort: str, reader: str) -> dict[str, dict[str, Any]]:
    """The runs of a replication by the name of their step, with the arms that are here."""
    fit = {name for name, _, problem in state.members("arm") if not problem}
    arms = [a for a in api.PAPER_ARMS if (a if isinstance(a, str) else a["name"]) in fit]
    judges = tomllib.loads(SPEC.read_text(encoding="utf-8"))["judges"]
    return api.step_specs(api.open_data(cohort).path, arms, reader, judges)


def begin(cohort: str, reader: str, found: dict[str, Any]) -> None:
    """How each step stands, and a button that queues those that nobody ran yet."""
    made = specs(cohort, reader)
    waiting = [row["name"] for row in found["steps"] if row["run"] is None]
    stopped = [row for row in found["steps"] if row["status"] in ("cancelled", "crashed")]
    problems = state.consider(api.write_toml(made[waiting[0]]))["problems"] if waiting else []
    if waiting and st.button(
        f"Queue the {len(waiting)} runs" if len(waiting) > 1 else "Queue the run",
        key="start_replication",
        type="primary",
        icon=":material/play_arrow:",
        disabled=bool(problems),
    ):
        try:
            for name in waiting:
                api.enqueue(made[name])
        except MidchartError as error:
            st.error(plain(str(error)), title="The runs could not be started")
        else:
            st.rerun()
    arms = len(next(iter(made.values()))["arms"])
    st.caption(
        " ".join(map(plain, problems))
        or f"{arms} arms × the questions of {plain(cohort)} under {len(made)} protocols, read by "
        f"{plain(reader)}, judged offline, one run after the other; gates are trained anew where a "
        "fault is about them. Nothing leaves this machine."
    )
    for row in stopped:
        panel.resume(row, f"replication_{row['name']}")
    shown = pd.DataFrame(
        {
            "step": [row["title"] for row in found["steps"]],
            "run": [row["run"] or "–" for row in found["steps"]],
            "state": [panel.WORDS.get(row["status"], "not run yet") for row in found["steps"]],
            "items": [
                "–" if row["run"] is None else f"{row['done']:,} of {row['planned']:,}"
                for row in found["steps"]
            ],
        }
    )
    tables.table(shown, "replication-steps", "The runs of this replication and how each stands",
                 height="content")  # fmt: skip
