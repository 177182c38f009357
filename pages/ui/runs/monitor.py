"""The list of runs, what can be done with those that are selected in it, and one run in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.runs import panel, picker
from midchart.pages.ui.shared import marks, pickers, tables
from midchart.pages.ui.shared.marks import for_screen, for_terminal, missing
from midchart.pages.ui.shared.pickers import token

Run = dict[str, Any]
STOPPED = ("cancelled", "crashed")
NONE = ""
"""The run in the address where there is none."""
SAME_COHORT = {
    "": "",
    "same": "The installed cohort of the same name has the same content: the run is linked to it.",
    "other": "The installed cohort of the same name has other content: the run is not linked to "
    "it.",
    "absent": "Its cohort is not installed, so ids do not link to text.",
}


def monitor() -> None:
    """All runs in a table to search, the actions on those selected, and one of them in full."""
    for damaged, problem in api.damaged_runs().items():
        st.warning(for_screen(problem), icon=":material/folder_off:")
        _removal([damaged], "Its files, which may hold text of records,")
    rows = {run["run"]: run for run in state.runs()}
    entry_of = {run: entry for entry in api.listed(rows.values()) for run in entry["runs"]}
    pickers.known_in_url("run", entry_of, "run named", "choose one of the list.")
    if not rows:
        st.info("No run yet. New run asks 20 questions of a cohort; no key, no download.")
        return
    pickers.restore("run", NONE, {run: run for run in rows}, unlinked=NONE)
    opened = st.session_state["run"]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        typed = st.text_input(
            "Search", key="runs_search", placeholder="Search name, cohort, state or id", width=280,
            persist_state="session", label_visibility="collapsed",
        ).lower().split()  # fmt: skip
        bar = st.container(horizontal=True, vertical_alignment="center", width="content")
    entries = list({entry["run"]: entry for entry in entry_of.values()}.values())
    names = picker.names(entries)
    entries = [{**entry, "name": names[entry["run"]]} for entry in entries]
    entries = [entry for entry in entries if all(word in _words(entry).lower() for word in typed)]
    if not entries:
        st.info("No run has these words. Clear the search.")
        return
    selected = _table(entries, rows) or ([entry_of[opened]] if opened else [])
    pickers.write_url("run", [opened] if opened else [])
    with bar:
        _actions(selected)
    if len(selected) == 1:
        (entry,) = selected
        if len(entry["runs"]) == 1:
            _one(entry)
        else:
            _group(entry, [rows[run] for run in entry["runs"]], opened)


def _words(entry: Run) -> str:
    of = entry["name"], _cohort(entry), entry["kind"], entry["status"], picker.origin(entry)
    return " ".join((*of, *entry["runs"]))


def _cohort(entry: Run) -> str:
    return Path(entry["data"]).name


def _came_to(entry: Run, rows: Mapping[str, Run]) -> dict[str, str]:
    """What a finished entry came to, in words; a share correct is of one run alone."""
    each = [state.totals(rows[run]) for run in entry["runs"]]
    if not all(each):
        return {}
    sums = {
        name: sum(known)
        if (known := [one[name] for one in each if one[name] is not None])
        else None
        for name in ("tokens", "cost_usd", "seconds")
    }
    correct, n = each[0]["correct"], each[0]["n"] * (len(each) == 1)
    return {
        "accuracy": f"{marks.percent(correct / n)}, n {n:,}" if n else "",
        "duration": api.duration(sums["seconds"]) if sums["seconds"] else "",
        "cost": "" if sums["cost_usd"] is None else f"${sums['cost_usd']:,.2f}",
        "tokens": f"{sums['tokens']:,}" if sums["tokens"] else "",
    }


TOTALS = {
    "accuracy": "Of the answers that the primary judge scored, of all arms together",
    "duration": "From its last start to its end, on the machine that made it",
    "cost": "What calls to services cost",
    "tokens": "Read and written by readers and judges",
}
"""Columns of what a run came to, with their explanation."""


def _table(entries: Sequence[Run], rows: Mapping[str, Run]) -> list[Run]:
    kinds = {kind["name"]: kind["title"] for kind in api.kinds()}
    totals = [_came_to(entry, rows) for entry in entries]
    frame = pd.DataFrame(
        {
            "name": [entry["name"] for entry in entries],
            "state": [entry["status"] for entry in entries],
            **{name: [one.get(name, "") for one in totals] for name in TOTALS},
            # What is done of an active run changes: only the line on top says so.
            "items": [_items(entry) for entry in entries],
            "failed": [
                f"{entry['failed']:,}" if entry["failed"] and not state.active(entry) else ""
                for entry in entries
            ],
            "cohort": [_cohort(entry) for entry in entries],
            "made": [picker.created(entry) for entry in entries],
            "kind": [kinds[entry["kind"]] for entry in entries],
            "origin": [picker.origin(entry) for entry in entries],
        }
    )
    empty = [name for name in ("failed", "origin", *TOTALS) if not frame[name].any()]
    frame = frame.drop(columns=empty)
    ids = " ".join(entry["run"] for entry in entries)
    shown = tables.table(
        frame,
        "runs-" + token("runs", ids),  # other rows, another selection
        "All runs, newest first, each with its state",
        {"name": st.column_config.TextColumn(pinned=False, width="medium")}
        | {name: st.column_config.TextColumn(help=text) for name, text in TOTALS.items()},
        opens=lambda row, _: st.session_state.update(run=entries[row]["run"]),
        selection_mode="multi-row",
    )
    return [entries[row] for row in shown["selection"]["rows"]]


def _items(entry: Run) -> str:
    planned = f"{entry['planned']:,}"
    if state.active(entry):
        return f"{planned} planned"
    finished = entry["done"] + entry["failed"]
    return planned if finished == entry["planned"] else f"{finished:,} of {planned}"


def _actions(entries: Sequence[Run]) -> None:
    if not entries:
        st.caption("Select rows to open, resume, compare, export or delete runs.")
        return
    rows = [run for entry in entries for run in entry["runs"]]
    status = {row["run"]: row for row in state.runs()}
    alone, key = len(entries) == 1, rows[0] if len(rows) == 1 else f"{rows[0]}_{len(rows)}"
    first = entries[0]
    if alone and len(rows) == 1 and first["done"]:
        page, address = picker.results_of(first)
        navigation.link(page, "Open results", icon=":material/arrow_forward:", query_params=address)
    elif alone and first["group"].startswith("replication,"):
        navigation.link("replication", "Open results", icon=":material/arrow_forward:")
    if why := not_compared(entries):
        st.caption(why)
    else:
        navigation.link("runs", "Compare", icon=":material/compare_arrows:",
                        query_params=[("runs", run) for run in rows])  # fmt: skip
    if any(state.active(entry) for entry in entries):
        panel.button(
            "Cancel", f"stop_{key}", api.cancel_runs, api.cancel_runs, rows, icon=":material/stop:",
            disabled=all(entry["status"] == "cancelling" for entry in entries),
            help="Finished items are kept; a cancelled run can be resumed.",
        )  # fmt: skip
    again = [
        run
        for run in rows
        if not status[run]["imported"]
        and (status[run]["status"] in STOPPED
             or (status[run]["status"] == "done" and status[run]["failed"] > 0))
    ]  # fmt: skip
    if again:
        retry = all(status[run]["status"] == "done" for run in again)
        label = "Retry failed items" if retry else "Resume"
        panel.button(label if alone else f"{label} ({len(again)} runs)", f"again_{key}", api.resume,
                     lambda: [api.resume(run, queued=True) for run in again],
                     icon=":material/resume:")  # fmt: skip
    if alone and len(rows) == 1:
        _name(first)
        if first["status"] == "done":
            _export(first["run"])
    if not any(state.active(entry) for entry in entries):
        count = first["done"] + first["failed"]
        what = f"{count:,} rows, the log and all reviews" if len(rows) == 1 else (
            f"{len(rows)} runs with all rows, logs and reviews")  # fmt: skip
        _removal(rows, what)


def not_compared(entries: Sequence[Run]) -> str:
    """Why the selected entries cannot be compared; "" where they can."""
    kinds = dict.fromkeys(entry["kind"] for entry in entries)
    if any(len(entry["runs"]) > 1 for entry in entries):
        return "No comparison of a group: page Paper compares its runs."
    if len(kinds) > 1:
        titles = {kind["name"]: kind["title"] for kind in api.kinds()}
        named = api.names_in_words([f"“{titles[kind]}”" for kind in kinds])
        return f"No comparison: the runs are of different kinds, {for_screen(named)}."
    return "To compare, select another run of this kind." if len(entries) == 1 else ""


def _name(run: Run) -> None:
    with st.popover("Rename", icon=":material/edit:"):
        name = st.text_input(
            "Name", for_terminal(run["name"]), max_chars=200, key=f"name_{run['run']}"
        )
        panel.button("Save", f"rename_{run['run']}", api.label_run, api.label_run, run["run"], name)


def _export(run: str) -> None:
    lacking = sign_in.lacking(api.export_bytes)
    st.download_button(
        "Export",
        sign_in.later(api.export_bytes, run),
        file_name=f"{run}.zip",
        mime="application/zip",
        key=f"export_{run}",
        icon=":material/download:",
        on_click="ignore",
        disabled=bool(lacking),
        help=lacking
        or "Tables, rows and an HTML report for another installation, with a spec "
        "that repeats the run. Prompts and answers are excluded; record ids are included.",
    )


def _removal(runs: Sequence[str], what: str) -> None:
    key, title = runs[0] if len(runs) == 1 else f"{runs[0]}_{len(runs)}", "Delete"

    def remove() -> None:
        for run in runs:
            api.remove_run(run)
        if st.query_params.get("run") in runs:
            st.query_params.pop("run")

    with st.popover(title, icon=":material/delete:"):
        st.write(for_screen(", ".join(runs[:3])) + (f" and {len(runs) - 3} more" * (len(runs) > 3)))
        sure = st.checkbox(
            f"{what} are deleted from this machine. This cannot be undone.",
            key=f"remove_run_sure_{key}",
        )
        panel.button(
            title, f"remove_run_{key}", api.remove_run, remove, disabled=not sure,
            type="primary",
        )  # fmt: skip


def _group(entry: Run, rows: Sequence[Run], opened: str) -> None:
    """A group of runs: how many are in which state, and one of them in full."""
    counts = Counter(row["status"] for row in rows)
    statuses = ", ".join(f"{n} {status}" for status, n in counts.items())
    st.markdown(f"**{for_screen(entry['name'])}** on {for_screen(_cohort(entry))}: {statuses}.")
    _origin(entry)
    titles = {row["run"]: f"{row['name']} · {row['status']}" for row in rows}
    step = st.selectbox(
        "Run of the group", list(titles),
        list(titles).index(opened) if opened in titles and opened != entry["run"] else None,
        format_func=lambda run: for_terminal(titles[run]),
        key=f"of_group_{entry['run']}", width=picker.WIDTH, placeholder="Open one of its runs",
    )  # fmt: skip
    if step:
        _one(next(row for row in rows if row["run"] == step))


def _one(run: Run) -> None:
    reason = f" {for_screen(run['reason'])}." if run["reason"] else ""
    counts = f"{run['done']:,} of {run['planned']:,} items done, {run['failed']:,} failed."
    if state.active(run):
        where = (
            f"number {run['queue_number']}"
            if run["queue_number"]
            else "progress is at the top of the page"
        )
        counts = f"{run['planned']:,} items planned; {where}."
    st.markdown(f"**{for_screen(run['name'])}** is {run['status']}: {counts}{reason}")
    if changed := api.rows_warning(run["run"]):
        st.warning(for_screen(changed), icon=":material/warning:")
    _origin(run)
    if run["unreachable"]:
        st.caption("Its process could not reach a network.")
    if run["failed"] and not state.active(run):
        st.caption(
            "Failed items are retried on resume; they are never counted as incorrect answers."
        )
        rows = pd.DataFrame(api.failed_items(run["run"]))
        asked = run["kind"] in state.COMPARING and "instruction" in rows
        tables.table(
            rows,
            f"{run['run']}-failed",
            "Failed items with their reasons" + "; click a row to open its question" * asked,
            opens=(lambda row, _: _open_item(run["run"], rows["instruction"][row]))
            if asked
            else None,
        )
    with st.expander("Log", key=f"log_{run['run']}"):
        st.code(api.log_tail(run["run"]) or "(nothing yet)", language=None, wrap_lines=True)
        st.caption(f"Run {run['run']}")


def _open_item(run: str, instruction: Any) -> None:
    """Open the question of a failed item on page Arms; all questions where the row names none."""
    asked = {} if missing(instruction) else {"asked": token(run, str(instruction))}
    navigation.on_click("arms", run=run, view="questions", differ="false", **asked)


def _origin(run: Run) -> None:
    """Where an imported run, or a group of such runs, comes from."""
    if run["imported"]:
        origin = panel.example(run["run"]) or "imported from another installation"
        text = marks.sentence(f"{origin}; read-only")
        st.caption(f"{text} {SAME_COHORT[run['cohort_here']]}")
