"""Runs on any page: the queue in one line, cancel, resume, what failed, warnings.

A run is a detached worker process that the engine starts; a page only reads its status, every two
seconds while one is active.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import sign_in, state
from midchart.pages.ui.shared import marks, tables
from midchart.pages.ui.shared.marks import for_screen

Result = TypeVar("Result")
DRAWN = "panel_runs"
"""The active runs when the page was drawn, in the session."""


def status_line() -> None:
    """Where the queue is, in one line with buttons to cancel."""
    st.session_state[DRAWN] = _ids(api.progress(state.runs()))
    _live()


def _ids(now: dict[str, Any]) -> list[str]:
    return [run for entry in now["active"] for run in (*entry["runs"], entry["status"])]


@st.fragment(run_every="2s")
def _live() -> None:
    now = api.progress(state.runs())
    # A run that ended or began changes the page under this line.
    if _ids(now) != st.session_state[DRAWN]:
        st.session_state[DRAWN] = _ids(now)
        state.forget_cohorts()
        st.rerun()
    finished, planned = now["done"] + now["failed"], now["planned"]
    with st.container(horizontal=True, vertical_alignment="center", key="queue"):
        share = min(1.0, finished / planned) if planned else 0.0
        st.progress(share, progress_text(now))
        with st.popover("Cancel", type="tertiary"):
            _cancel(now["active"])


def progress_text(now: dict[str, Any]) -> str:
    """The queue's progress (of ``api.progress``) in one sentence."""
    finished, names, queued = now["done"] + now["failed"], now["running"], now["queued"]
    parts: list[str] = []
    if names:
        name = for_screen(names[0]) if len(names) == 1 else f"{len(names)} runs"
        parts.append(f"Running: {name}, {finished:,} of {now['planned']:,} items")
    if now["failed"]:
        parts.append(f"{now['failed']:,} failed")
    texts = [", ".join(parts) + api.about_left(now["seconds_left"])] if parts else []
    texts += [f"{queued:,} queued"] if queued else []
    texts += [for_screen(entry["note"]) for entry in now["active"] if entry["note"]]
    return " · ".join(texts)


def _cancel(entries: Sequence[dict[str, Any]]) -> None:
    for entry in entries:
        where = f", number {entry['queue_number']} in the queue" if entry["queue_number"] else ""
        button(
            f"{for_screen(entry['name'])} ({entry['status']}{where})", f"cancel_{entry['run']}",
            api.cancel_runs, api.cancel_runs, entry["runs"], icon=":material/stop:",
            disabled=entry["status"] == "cancelling", help="Cancel after the current item",
        )  # fmt: skip
    if len(entries) > 1:
        runs = [run for entry in entries for run in entry["runs"]]
        button(f"Cancel all {len(entries)}", "cancel_all", api.cancel_runs, api.cancel_runs, runs,
               icon=":material/cancel:")  # fmt: skip
    st.caption("Finished items are kept; a cancelled run can be resumed.")


def resume(run: dict[str, Any], key: str) -> None:
    """A run that stopped before its end: how much is missing, and the button that resumes it."""
    missing = run["planned"] - run["done"] - run["failed"]
    reason = f" ({for_screen(run['reason'])})" if run["reason"] else ""
    with st.container(border=True):
        st.write(
            f"This run is {run['status']}{reason}: {missing:,} of {run['planned']:,} items are "
            "missing. Results are partial."
        )
        button("Resume", f"resume_{key}_{run['run']}", api.resume, api.resume, run["run"],
               icon=":material/resume:")  # fmt: skip


def act(action: Callable[..., Any], *arguments: Any, title: str | None = None) -> None:
    """Do something and draw the page again; a refusal is shown in a line under ``title``."""
    try:
        action(*arguments)
    except MidchartError as error:
        st.error(for_screen(str(error)), title=title)
    else:
        st.rerun()


def attempt(action: Callable[..., Result], *arguments: Any) -> Result | None:
    """Do something in a callback; None where it is refused, which :func:`refusal` then says."""
    try:
        return action(*arguments)
    except MidchartError as error:
        st.session_state[REFUSED] = str(error)
    return None


def refusal(title: str | None = None) -> None:
    """What was refused at the last click, if anything."""
    if refused := st.session_state.pop(REFUSED, ""):
        st.error(for_screen(refused), title=title)


REFUSED = "refused"


def button(
    label: str,
    key: str,
    needs: Callable[..., Any],
    action: Callable[..., Any],
    *arguments: Any,
    problem: str = "",
    refused: str | None = None,
    **options: Any,
) -> None:
    """A button that calls ``action`` by :func:`act`; ``refused``: title of a refusal.

    It is disabled, with the reason on hover, where the role that ``needs`` states is lacking
    or there is a ``problem``. ``options`` are Streamlit's.
    """
    if problem := sign_in.lacking(needs) or problem:
        options |= {"disabled": True, "help": for_screen(problem)}
    if st.button(label, key=key, **options):
        act(action, *arguments, title=refused)


def line(run: dict[str, Any], report: dict[str, Any]) -> None:
    """A run's status, counts, protocol and kind of position in one line."""
    preset = report["protocol"]
    preset = preset.get("preset", "custom") if isinstance(preset, dict) else preset
    items = report["items"]
    parts = [
        run["status"],
        f"{items['done']:,} of {items['planned']:,} items",
        f"{items['failed']:,} failed",
        f"protocol {for_screen(str(preset))}",
    ]
    if report["position"]:
        parts.append(f"position: {for_screen(report['position']['words'])}")
    parts += filter(None, [for_screen(report["origin"]), example(run["run"])])
    st.caption(" · ".join(parts))


def example(run: str) -> str:
    """That a run is an example, and the command that made it; "" for any other run."""
    command = state.included().get(run)
    return f"included with Midchart as an example, made by `{command}`" if command else ""


def failures(report: dict[str, Any]) -> None:
    """Failed items by reason; nothing where none failed."""
    frame = tables.frame_of(report, "failures")
    if frame.empty:
        return
    st.header("Failed items", anchor=False)
    st.caption("Failed items are retried on resume. They are never counted as incorrect answers.")
    name = f"{report['run']}-failed"
    tables.table(tables.shown(frame), name, "Failed items by reason", download=frame)


def notes(warnings: Sequence[str], labels: Sequence[str] = ()) -> None:
    """The warnings of a run's report, a sentence each, with titles for the arms' ``labels``.

    What a spec file would have to say is left to the command line.
    """
    warnings = [
        tables.with_titles("arm", labels, warning.partition("; a spec asks")[0])
        for warning in warnings
    ]
    texts = [for_screen(marks.sentence(warning)) for warning in warnings]
    if texts:
        st.caption(texts[0] if len(texts) == 1 else "\n".join(f"- {text}" for text in texts))
