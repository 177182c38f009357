"""Importing a cohort from the browser, and removing one: the two forms of page Data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.shared.marks import for_screen

FILES, FOLDER, PATH = "Files or a zip", "A folder", "A path on this machine"
LARGEST_UPLOAD_MB = 500
"""Larger cohorts come in by a path."""
DONE = "imported_cohort"
LEFT = "damaged_runs_left"
UNDELETED = "undeleted_left"


def section() -> None:
    """The form that imports a cohort."""
    with st.container(border=True):
        ways = [FILES, FOLDER, PATH] if _on_this_machine() else [FILES, FOLDER]
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown("**Import a cohort**", width="content")
            way = st.segmented_control(
                "Source", ways, default=FILES, required=True, key="import_way",
                persist_state="session", label_visibility="collapsed", width="content",
            )  # fmt: skip
            st.caption("A private copy: read by your account alone, not sent anywhere.")
        left, middle, right = st.columns((5, 3, 2), vertical_alignment="bottom")
        if way == PATH:
            source: Any = left.text_input(
                "Path of a file or folder (it is copied)", key="import_path", max_chars=1000,
                persist_state="session",
            )  # fmt: skip
        else:
            source = left.file_uploader(
                "Records, and optionally a .tsv of questions", key=f"import_files_{way}",
                accept_multiple_files="directory" if way == FOLDER else True,
                max_upload_size=LARGEST_UPLOAD_MB, label_visibility="collapsed",
                help=f"Up to {LARGEST_UPLOAD_MB} MB; larger cohorts come in by a path.",
            )  # fmt: skip
        name = middle.text_input(
            "Name of the cohort", key="import_name", max_chars=64, persist_state="session",
            placeholder="ward-3", help="Letters, digits, hyphens; part of addresses, so no "
            "patient's name.",
        )  # fmt: skip
        ready = bool(source and name)
        start = right.button(
            "Import", type="primary", key="import_start", disabled=not ready, width="stretch"
        )
        link = "" if sign_in.required() else " (or a symbolic link)"
        with st.popover("Formats, and folders without a copy", type="tertiary"):
            st.caption(
                for_screen(f"Formats: {'; '.join(sorted(state.titles('loader').values()))}.")
                + f" A folder{link} that is placed in `cohorts` of the data folder appears on "
                "every page that is opened after that, and nothing is copied."
            )
        if start:
            _import(name, source)


def _on_this_machine() -> bool:
    """Whether the browser is on the machine that serves the page, without sign-in by others."""
    return st.context.ip_address in (None, "127.0.0.1", "::1") and "is_logged_in" not in (
        st.user.to_dict()
    )


def _import(name: str, source: Any) -> None:
    meter = st.progress(0.0, "Copying")

    def step(done: int, total: int) -> None:
        share = done / max(total, 1)
        words = f"Copying: {done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
        meter.progress(min(share, 1.0), words if share < 1 else "Opening the files")

    files: Any = Path(source) if isinstance(source, str) else [(one.name, one) for one in source]
    try:
        read = partial(state.ReadingBar(), "records")
        report = api.import_cohort(name, files, progress=step, reading=read)
    except (MidchartError, OSError) as error:
        meter.empty()
        st.error(for_screen(str(error)), title="The cohort was not imported; nothing was changed")
        return
    st.session_state[DONE] = report
    st.toast("Cohort imported: its check is at the top of the page", icon=":material/check:")
    state.forget_cohorts()
    st.rerun()


def result() -> str:
    """The cohort of the session's last import, "" for none: what was read, and first questions.

    Until the message is closed, the page shows this cohort.
    """
    report = st.session_state.get(DONE)
    if not report:
        return ""
    name = report["name"]
    if name not in state.imported():  # removed by somebody else
        del st.session_state[DONE]
        return ""
    files = next((p for p in report["balance"] if p["what"] == "files"), {"total": 0, "shown": 0})
    skipped, unread = report["skipped"], files["total"] - files["shown"]
    if skipped or unread:
        title = f"Imported, except {api.counted(len(skipped), 'part')}"
        if unread:
            title = f"{files['shown']:,} of {files['total']:,} files read, {unread:,} not"
        first = [f"{part['file']}: {part['reason']}. " for part in skipped[:1]]
        words = f"{''.join(first)}The table below says what and why."
        st.warning(for_screen(words), title=title, icon=":material/warning:")
    else:
        left_out = any(part["left_out"] for part in report["balance"])
        words = "What was left out is below." if left_out else "Every part was read."
        st.success(words, title="Cohort imported", icon=":material/check:")
    if report["unconfined"]:
        st.caption(for_screen(report["unconfined"]))
    with st.container(horizontal=True):
        if st.button("Ask its patients a question", key="import_open", type="primary"):
            navigation.go("patient", cohort=name)
        st.button("Show all cohorts", key="import_close", type="tertiary", on_click=_close)
    return name


def _close() -> None:
    st.session_state["cohort"] = st.session_state.pop(DONE)["name"]


def left_runs() -> None:
    """What the last removal of this session left: linked caches, folders that cannot be deleted,
    and damaged runs with the way to remove them."""

    def warn(what: str, names: Sequence[str], remedy: str) -> None:
        st.warning(
            f"{what} are left: {for_screen(', '.join(names))}. They may hold text of the removed "
            f"records. {remedy}",
            icon=":material/folder_off:",
        )

    if lines := st.session_state.pop(UNDELETED, ()):
        warn("Folders of stopped work", lines, "The next start tries to delete them again.")
    if runs := st.session_state.pop(LEFT, ()):
        warn("Damaged runs whose cohort cannot be read", runs, "Remove them on page Runs.")
        navigation.link("runs", "Open Runs", icon=":material/arrow_forward:")


def removal(name: str) -> None:
    """The form that removes a cohort, with its caches and, if wanted, its runs."""
    with st.expander("Remove this cohort", icon=":material/delete:"):
        st.write(
            "Deletes the copy on this machine and every cache that may hold its text. Questions, "
            "marks and logs kept with the cohort are deleted too. This cannot be undone."
        )
        runs = st.checkbox(
            "Delete its runs as well (their rows hold text of the records)",
            value=True, key=f"remove_runs_{name}",
        )  # fmt: skip
        typed = st.text_input(
            "Type the cohort's name to confirm", key=f"remove_name_{name}", max_chars=64
        )
        if st.button("Remove", key=f"remove_{name}", disabled=typed != name):
            try:
                removed = api.remove_cohort(name, runs)
            except (MidchartError, OSError) as error:
                st.error(for_screen(str(error)), title="The cohort was not removed")
                return
            st.session_state.pop(DONE, None)
            st.session_state[LEFT] = removed["damaged_runs"]
            st.session_state[UNDELETED] = removed["undeleted"]
            st.cache_data.clear()  # results of its runs and records, in this process's memory
            st.cache_resource.clear()
            st.rerun()
