"""The runs of this installation: searched, filtered, labelled, archived, deleted; one in full."""

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
from midchart.pages.ui.shared import formats, tables
from midchart.pages.ui.shared.formats import missing
from midchart.pages.ui.shared.marks import plain, visible
from midchart.pages.ui.shared.pickers import pick_linked, token

Run = dict[str, Any]
STOPPED = ("cancelled", "crashed")
SHORT, TALL = 12, 460
"""Rows up to which the table of runs has no scrollbar, and its height in pixels beyond."""
SAME_COHORT = {
    "": "",
    "same": "The installed cohort of the same name has the same content: the run is linked to it.",
    "other": "The installed cohort of the same name has other content: the run is not linked to "
    "it.",
    "absent": "Its cohort is not installed, so ids do not link to text.",
}


def monitor() -> None:
    """All runs in a table to search and filter, and those chosen in full."""
    for damaged, problem in api.damaged_runs().items():
        st.warning(plain(problem), icon=":material/folder_off:")
        _removal([damaged], "Its files, which may hold text of records,")
    rows = {run["run"]: run for run in state.runs(archived=True)}
    if not rows:
        st.info("No run yet. Compose one: the five-minute demo needs no API key and no download.")
        return
    entries = _filtered(api.listed(rows.values()))
    if not entries:
        st.info("No run has these. Clear the search or a filter.")
        return
    wanted = st.query_params.get("run")
    for entry in entries:
        if wanted in entry["runs"][1:]:  # an address of one run of a group opens the group
            st.query_params["run"] = entry["run"]
    selected = _table(entries)
    if len(selected) > 1:
        _several(selected)
        return
    by_id = {entry["run"]: entry for entry in entries}
    titles = picker.titles(entries)
    chosen = by_id[
        pick_linked("run", "Run", list(by_id), titles.__getitem__, key="run", width=picker.WIDTH)
    ]
    if len(chosen["runs"]) == 1:
        _one(chosen)
    else:
        _group(chosen, [rows[run] for run in chosen["runs"]])


def _filtered(entries: list[Run]) -> list[Run]:
    """The entries that match what is typed and chosen above the table."""
    titles = {kind["name"]: kind["title"] for kind in api.kinds()}
    tags = sorted({tag for entry in entries for tag in entry["tags"]})
    archived = any(entry["archived"] for entry in entries)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="filters"):
        typed = st.text_input(
            "Search", key="runs_search", placeholder="Name, cohort, tag or id", width=344,
            persist_state="session",
        )  # fmt: skip
        kinds = _choose("Kind", sorted({entry["kind"] for entry in entries}), titles)
        states = _choose("Status", sorted({entry["status"] for entry in entries}))
        tagged = _choose("Tag", tags) if tags else []
        if archived:
            archived = st.toggle("Archived runs too", key="runs_archived", persist_state="session")
    words = typed.lower().split()
    return [
        entry
        for entry in entries
        if (archived or not entry["archived"])
        and (not kinds or entry["kind"] in kinds)
        and (not states or entry["status"] in states)
        and (not tagged or set(tagged) & set(entry["tags"]))
        and all(word in _searched(entry) for word in words)
    ]


def _choose(label: str, options: list[str], titles: Mapping[str, str] | None = None) -> list[str]:
    return st.multiselect(
        label, options, key=f"runs_{label.lower()}", persist_state="session", width=168,
        placeholder="All", format_func=lambda option: visible((titles or {}).get(option, option)),
    )  # fmt: skip


def _searched(entry: Run) -> str:
    texts = (entry["name"], _cohort(entry), entry["kind"], *entry["tags"], *entry["runs"])
    return " ".join(texts).lower()


def _cohort(entry: Run) -> str:
    return Path(entry["data"]).name


def _table(entries: Sequence[Run]) -> list[Run]:
    """The table of entries; those that are selected in it."""
    frame = pd.DataFrame(
        {
            "name": [entry["name"] for entry in entries],
            "status": [picker.status(entry) for entry in entries],
            # What is done of an active run changes: only the line on top says so.
            "items": [_items(entry) for entry in entries],
            "failed": [
                f"{entry['failed']:,}" if entry["failed"] and not state.active(entry) else ""
                for entry in entries
            ],
            "kind": [entry["kind"] for entry in entries],
            "cohort": [_cohort(entry) for entry in entries],
            "tags": [", ".join(entry["tags"]) for entry in entries],
            "made": [picker.created(entry) for entry in entries],
            "run": [entry["run"] for entry in entries],
        }
    )
    frame = frame.drop(columns=[name for name in ("failed", "tags") if not frame[name].any()])
    key = "runs-" + token("runs", " ".join(frame["run"]))  # other rows, another selection
    shown = tables.table(
        frame,
        key,
        "All runs, newest first, with status",
        {"name": st.column_config.TextColumn(pinned=True, width="medium")},
        opens=lambda row, _: st.session_state.update(run=entries[row]["run"]),
        selection_mode="multi-row",
        height="content" if len(frame) <= SHORT else TALL,
    )
    return [entries[row] for row in shown["selection"]["rows"]]


def _items(entry: Run) -> str:
    planned = f"{entry['planned']:,}"
    if state.active(entry):
        return f"{planned} planned"
    finished = entry["done"] + entry["failed"]
    return planned if finished == entry["planned"] else f"{finished:,} of {planned}"


def _several(entries: Sequence[Run]) -> None:
    """What can be done to several entries at once."""
    runs = [run for entry in entries for run in entry["runs"]]
    st.markdown(f"**{len(entries)} selected**: " + ", ".join(plain(e["name"]) for e in entries))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        _cancel(runs, entries, "several")
        _archive(runs, all(entry["archived"] for entry in entries), "several")
        if len(entries) == len({*runs}) and len({entry["kind"] for entry in entries}) == 1:
            navigation.link(
                "runs", "Compare", icon=":material/compare_arrows:",
                query_params=[("view", "Compare"), *(("runs", run) for run in runs)],
            )  # fmt: skip
    _tags(entries, "several")
    if not any(state.active(entry) for entry in entries):
        _removal(runs, f"{len(runs)} runs with all rows, logs and reviews", "several")


def _group(entry: Run, rows: Sequence[Run]) -> None:
    """A group of runs: its steps, and what can be done to all of them."""
    key = f"group_{entry['run']}"
    counts = Counter(picker.status(row) for row in rows)
    statuses = ", ".join(f"{n} {status}" for status, n in counts.items())
    st.markdown(f"**{plain(entry['name'])}** on {plain(_cohort(entry))}: {statuses}.")
    _origin(entry)
    with st.container(horizontal=True, vertical_alignment="center"):
        _cancel(entry["runs"], [entry], key)
        stopped = [r["run"] for r in rows if r["status"] in STOPPED and not r["imported"]]
        if stopped:
            panel.button(f"Resume {len(stopped)} runs", f"again_{key}", "resume", _resume, stopped,
                         icon=":material/resume:")  # fmt: skip
        if entry["group"].startswith("replication,"):
            navigation.link("replication", "Open results", icon=":material/arrow_forward:")
        _archive(entry["runs"], entry["archived"], key)
    _tags([entry], key)
    if not state.active(entry):
        _removal(entry["runs"], f"{len(rows)} runs with all rows, logs and reviews", key)
    titles = {row["run"]: f"{row['name']} · {picker.status(row)}" for row in rows}
    step = st.selectbox(
        "Run of the group", list(titles), None, format_func=lambda run: visible(titles[run]),
        key=f"of_group_{entry['run']}", width=picker.WIDTH, placeholder="Open one of its runs",
    )  # fmt: skip
    if step:
        _one(next(row for row in rows if row["run"] == step))


def _resume(runs: Sequence[str]) -> None:
    for run in runs:
        api.resume(run, queued=True)


def _cancel(runs: Sequence[str], entries: Sequence[Run], key: str) -> None:
    if any(state.active(entry) for entry in entries):
        panel.button(
            "Cancel", f"stop_{key}", "cancel_runs", api.cancel_runs, runs, icon=":material/stop:",
            disabled=all(entry["status"] == "cancelling" for entry in entries),
            help="Finished items are kept; a cancelled run can be resumed.",
        )  # fmt: skip


def _archive(runs: Sequence[str], archived: bool, key: str) -> None:
    panel.button(
        "Take out of the archive" if archived else "Archive", f"archive_{key}", "label_run",
        lambda: [api.label_run(run, archived=not archived) for run in runs],
        icon=":material/unarchive:" if archived else ":material/archive:",
        help="Lists and pickers leave archived runs out.",
    )  # fmt: skip


def _tags(entries: Sequence[Run], key: str) -> None:
    """The form of an entry's name (of one run alone) and tags."""
    runs = [run for entry in entries for run in entry["runs"]]
    alone, problem = len(runs) == 1, sign_in.lacking("label_run")
    known = sorted({tag for run in state.runs(archived=True) for tag in run["tags"]})
    tags = list(dict.fromkeys(tag for entry in entries for tag in entry["tags"]))
    title = "Name and tags" if alone else "Tags"
    with st.expander(title, icon=":material/sell:"), st.form(f"labels_{key}", border=False):
        name = None
        if alone:
            name = st.text_input("Name", entries[0]["name"], max_chars=200, key=f"name_{key}")
        new = st.multiselect(
            "Tags", known, tags, key=f"tags_{key}", accept_new_options=True, format_func=visible,
            placeholder="Choose or type a tag",
            help="A few words; stored apart from the run, which stays as it is.",
        )  # fmt: skip
        if st.form_submit_button("Save", disabled=bool(problem), help=problem or None):
            panel.act(lambda: [api.label_run(run, name, new) for run in runs])


def _one(run: Run) -> None:
    """One run: status and reason, actions, failed items, log, folder."""
    reason = f" {plain(run['reason'])}." if run["reason"] else ""
    counts = f"{run['done']:,} of {run['planned']:,} items done, {run['failed']:,} failed."
    if state.active(run):
        where = (
            f"number {run['queue_number']}"
            if run["queue_number"]
            else "progress is at the top of the page"
        )
        counts = f"{run['planned']:,} items planned; {where}."
    st.markdown(f"**{plain(run['name'])}** {panel.WORDS[run['status']]}: {counts}{reason}")
    with st.container(horizontal=True, vertical_alignment="center"):
        _actions(run)
    if changed := api.rows_warning(run["run"]):
        st.warning(plain(changed), icon=":material/warning:")
    _origin(run)
    if run["failed"] and state.active(run):
        st.caption("Failed items are listed once the run has stopped.")
    elif run["failed"]:
        st.header("Failed items", anchor=False)
        st.caption(
            "Failed items are retried with the button above. They are never counted as "
            "incorrect answers."
        )
        rows = pd.DataFrame(api.failed_items(run["run"]))
        asked = run["kind"] in state.COMPARING and "instruction" in rows
        tables.table(
            rows,
            f"{run['run']}-failed",
            "Failed items with their reasons",
            opens=(lambda row, _: _open_item(run["run"], rows["instruction"][row]))
            if asked
            else None,
        )
        st.caption(
            "Click a row to open its question."
            if asked
            else "Failed items of this kind of run have no question to open."
        )
    with st.expander("Log", key=f"log_{run['run']}"):
        st.code(api.log_tail(run["run"]) or "(nothing yet)", language=None, wrap_lines=True)
    st.caption(f"Folder: {plain(run['folder'])}")
    _tags([run | {"runs": [run["run"]]}], run["run"])
    if not state.active(run):
        _removal([run["run"]], f"{run['done'] + run['failed']:,} rows, the log and all reviews")


def _open_item(run: str, instruction: Any) -> None:
    """Open the question of a failed item on page Arms; all questions where the row names none."""
    asked = {} if missing(instruction) else {"asked": token(run, str(instruction))}
    navigation.on_click("arms", run=run, view="questions", differ="false", **asked)


def _origin(run: Run) -> None:
    """Where an imported run, or a group of such runs, comes from."""
    if run["imported"]:
        origin = panel.example(run["run"]) or "imported from another installation"
        text = formats.sentence(f"{origin}; read-only")
        st.caption(f"{text} {SAME_COHORT[run['cohort_here']]}")


def _removal(runs: Sequence[str], what: str, key: str = "") -> None:
    """The form that removes runs."""
    key = key or runs[0]
    title = f"Delete run {runs[0]}" if len(runs) == 1 else f"Delete {len(runs)} runs"
    with st.expander(title, icon=":material/delete:"):
        sure = st.checkbox(
            f"{what} are deleted from this machine. This cannot be undone.",
            key=f"remove_run_sure_{key}",
        )
        panel.button(
            title, f"remove_run_{key}", "remove_run",
            lambda: [api.remove_run(run) for run in runs], disabled=not sure,
        )  # fmt: skip


def _actions(run: dict[str, Any]) -> None:
    """The buttons that fit a run's status."""
    done = run["status"] == "done"
    if state.active(run):
        _cancel([run["run"]], [run], run["run"])
    elif not run["imported"] and (not done or run["failed"]):
        label = "Retry failed items" if done else "Resume"
        panel.button(label, f"again_{run['run']}", "resume", _resume, [run["run"]],
                     icon=":material/resume:")  # fmt: skip
    _archive([run["run"]], run["archived"], run["run"])
    if run["kind"] in picker.RESULTS and run["done"]:
        page, address = picker.results_of(run)
        navigation.link(page, "Open results", icon=":material/arrow_forward:", query_params=address)
    if done:
        st.download_button(
            "Export without text",
            sign_in.later(api.export_bytes, run["run"]),
            file_name=f"{run['run']}.zip",
            mime="application/zip",
            key=f"export_{run['run']}",
            icon=":material/download:",
            on_click="ignore",
            disabled=bool(sign_in.lacking("export_bytes")),
            help=sign_in.lacking("export_bytes")
            or "Tables, rows and an HTML report for another installation, with a spec that "
            "repeats the run. Prompts and answers are excluded; record ids are included.",
        )
