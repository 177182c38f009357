"""A cohort on the Data page: its data-use tag, counts, check and evidence positions.

No text of a record appears here; skipped parts are named by file, line and reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core import api, figures
from midchart.core.errors import MidchartError
from midchart.pages.ui import sign_in, state
from midchart.pages.ui.shared import chart, messages, tables
from midchart.pages.ui.shared.marks import for_screen, for_terminal
from midchart.pages.ui.shared.pickers import segments

EDGES = [n / 10 for n in range(1, 10)]
"""Inner decile edges; a value on an edge belongs to the right (docs/methods.md, Units)."""
DECILES = [f"{10 * n}–{10 * n + 10}" for n in range(10)]
QUESTION_COUNTS = {
    "records": "Patients",
    "events": "Events",
    "instructions": "Questions",
    "gold": "With evidence",
    "responses": "Model responses included",
}
FORECAST_COUNTS = {
    "records": "Patients",
    "events": "Events",
    "tasks": "Tasks",
    "labelled": "Labels",
}
SPLITS = {"train": "train", "tuning": "tuning", "held_out": "held-out"}


def _tag(manifest: api.Manifest) -> dict[str, str]:
    identity = {
        "": "unknown: treat as identifiable",
        "yes": "yes",
        "no": "no: names are included",
    }.get(manifest.deidentified or "", f"{manifest.deidentified}: treat as identifiable")
    origin = {"Source of records": manifest.source or "not stated", "De-identified": identity}
    if manifest.synthetic:
        origin = {"Source of records": "None: synthetic patients."}
    allowed = {True: "allowed", False: "not allowed"}
    return origin | {
        "Licence": manifest.licence or "not stated",
        "Training": allowed[manifest.training_allowed],
        "External services": allowed[manifest.external_services_allowed],
    }


def permitted(manifest: api.Manifest) -> str:
    """The tag in two or three words, for lists."""
    if manifest.synthetic:
        return "synthetic"
    return "external services allowed" if manifest.external_services_allowed else "local only"


def counts(cohort: api.Cohort) -> str:
    """A cohort's patients and its questions or tasks, in a few words."""
    asked = api.counted(len(cohort.instructions), "question")
    if cohort.labels and not cohort.instructions:
        asked = f"{api.counted(len(cohort.labels), 'task')} to forecast"
    return f"{api.counted(len(cohort.records), 'patient')} · {asked}"


def listing() -> None:
    """The cohorts with their counts, permitted use and state; a click shows one in full."""
    rows: list[dict[str, str]] = []
    for name, path, problem in state.cohorts():
        row = {"cohort": name, "contents": "–", "use": "–", "state": CLOSED}
        if problem:
            title = f"{for_screen(name)} cannot be opened"
            st.warning(for_screen(problem), title=title, icon=":material/folder_off:")
        else:
            opened = api.open_data(path)
            row |= {"contents": counts(opened), "use": permitted(opened.manifest)}
            row["state"] = "events not read yet" if api.unread(path) else "ready"
        rows.append(row)

    def show(row: int, _: str) -> None:
        if rows[row]["state"] != CLOSED:
            st.session_state["cohort"] = rows[row]["cohort"]

    alt = "Cohorts with contents, permitted use and state"
    column = {"cohort": st.column_config.TextColumn(pinned=False)}
    tables.table(pd.DataFrame(rows), "cohorts", alt, column, opens=show)


CLOSED = "cannot be opened"


def cohort(name: str, check_first: bool = False) -> None:
    """Counts, tag, evidence positions (or tasks) and check of one cohort.

    ``check_first``: the check comes right below the counts.
    """
    path = next(path for known, path, _ in state.cohorts() if known == name)
    opened = api.open_data(path)
    manifest, kind = opened.manifest, opened.format
    if command := api.unread(path):
        st.info("The events of this cohort have not been imported yet. Run this command once:")
        st.code(command, language=None, wrap_lines=True)
        return
    validate = kind == "fhir" and st.session_state.get(f"{name}-validate", False)
    check = state.check(path, validate) if messages.all_read(path) else {}
    labels = check.get("labels", {})
    forecasts = bool(labels) and not check["instructions"]
    titles = FORECAST_COUNTS if forecasts else QUESTION_COUNTS
    counts = {
        "records": len(opened.records),
        "instructions": len(opened.instructions),
        "gold": len(opened.gold),
        "responses": len(opened.responses),
        "tasks": len(labels),
        "labelled": sum(task["n"] for task in labels.values()),
    } | check
    with st.grid(len(titles), min_column_width=120):
        for key, title in titles.items():
            st.metric(title, f"{int(counts[key]):,}" if key in counts else "…")
    if check and check_first:
        _check(name, path, check, kind)
    left, right = st.columns((2, 3), gap="large")
    with left:
        st.header("Permitted use", anchor=False)
        for question, answer in _tag(manifest).items():
            with st.container(gap=None):
                st.caption(question)
                st.text(for_terminal(answer))
        st.caption(f"Format {for_screen(kind)}")
        if not manifest.synthetic:
            _change_use(name, path, manifest)
    if not check:
        right.caption("Evidence positions and the check follow once every record is read.")
        return
    with right:
        if forecasts:
            _tasks(name, labels)
        else:
            _positions(name, check["positions"])
    if not check_first:
        _check(name, path, check, kind)


def _tasks(name: str, labels: dict[str, Any]) -> None:
    st.header("Prediction tasks", anchor=False)
    frame = pd.DataFrame(
        {"task": task, "labels": counts["n"], "positive": counts["positive"],
         "positive (%)": round(100 * counts["positive"] / counts["n"], 1) if counts["n"] else None,
         **{title: counts["splits"][split] for split, title in SPLITS.items()}}
        for task, counts in sorted(labels.items())
    )  # fmt: skip
    tables.table(frame, f"{name}-tasks", "Labels by task and split")
    st.caption("Splits are by patient: no patient is in two splits.")


def _positions(name: str, positions: list[dict[str, Any]]) -> None:
    st.header("Evidence position", anchor=False)
    located = [row for row in positions if row["order"] is not None]
    if not located:
        st.info(
            "No evidence of this cohort could be located in its record, so no position can be "
            "shown.",
            icon=":material/search_off:",
        )
        return
    by = segments("Position by", tables.POSITIONS, "position")
    values = [row[by] for row in located if row[by] is not None]
    counts = np.bincount(deciles(values), minlength=10)
    bars = go.Bar(
        x=DECILES, y=counts, text=counts, textposition="outside", cliponaxis=False,
        marker_color=figures.series()[0], hovertemplate="%{x} %: %{y} questions<extra></extra>",
    )  # fmt: skip
    figure = go.Figure(bars)
    figure.update_layout(height=260, bargap=0.25)
    title = f"position in the record, % ({len(values)} questions)"
    figure.update_xaxes(title=title, showgrid=False)
    figure.update_yaxes(visible=False)
    highest = DECILES[int(counts.argmax())]
    alt = f"Bar chart: questions by decile of evidence position; most at {highest} %."
    chart.show(figure, alt, "positions")


def deciles(positions: list[float]) -> np.ndarray:
    """The decile (0 to 9) of each position in [0, 1]."""
    return np.searchsorted(EDGES, positions, side="right")


def _balance(name: str, check: dict[str, Any]) -> None:
    """The balance of a cohort's files: what each part became, and entries without a date."""
    if not check["balance"]:
        return
    lost = sum(part["unaccounted"] for part in check["balance"])
    if lost:
        st.error(f"{lost:,} parts of the files are neither in a record nor named: a program fault.")
    rows = [
        {"part": part["what"], "in the files": part["total"], "in records": part["shown"],
         "not in records": sum(part["left_out"].values()),
         "because": "; ".join(f"{reason}: {n:,}" for reason, n in part["left_out"].items())}
        for part in check["balance"]
    ]  # fmt: skip
    tables.table(pd.DataFrame(rows), f"{name}-balance", "What became of each part of the files")
    if check["leaves"]:
        frame = pd.DataFrame(check["leaves"])
        if lost := int(frame.loc[frame["outcome"] == "unaccounted", "leaves"].sum()):
            every = frame["leaves"].sum()
            st.warning(f"{lost:,} of {every:,} strings and codes are neither shown nor named.")
        alt = "Strings, numbers and codes that are not shown as they are"
        tables.table(frame[frame["outcome"] != "shown"], f"{name}-leaves", alt)
    if check["undated"]:
        st.caption(
            f"{check['undated']:,} entries have no date: they come first in their record and are "
            "in no position band."
        )


def _check(name: str, path: str, check: dict[str, Any], kind: str) -> None:
    st.header("Check", anchor=False)
    _settle(name, path, check["unsettled"])
    _balance(name, check)
    if kind == "fhir" and api.can_validate():
        st.checkbox(
            "Validate resources against FHIR R4B",
            key=f"{name}-validate",
            help="By fhir.resources. Reading a cohort does not need it: what follows the standard "
            "in each resource is read, the rest is named below.",
        )
    if check["unconfined"]:
        st.caption(for_screen(check["unconfined"]))
    left_out = any(part["left_out"] or part["unaccounted"] for part in check["balance"])
    if not check["skipped"] and not check["warnings"] and not left_out:
        st.write("All files were read: nothing skipped, no warnings.")
    if "invalid" in check and not check["invalid"]:
        st.write("Every resource follows FHIR R4B.")
    for what, title, alt in (
        ("skipped", "skipped; all others are usable.", "Skipped: file, line and reason"),
        ("invalid", "reasons why resources do not follow FHIR R4B:",
         "Not valid: file, first line and reason"),
    ):  # fmt: skip
        if check.get(what):
            st.write(f"{len(check[what]):,} {title}")
            frame = pd.DataFrame(check[what], columns=["file", "line", "reason"])
            tables.table(frame, f"{name}-{what}", alt)
    if check["warnings"]:
        frame = pd.DataFrame({"warning": check["warnings"]})
        tables.table(frame, f"{name}-warnings", "Warnings of the check")


def _settle(name: str, path: str, unsettled: list[dict[str, Any]]) -> None:
    if not unsettled:
        return
    several = len(unsettled) > 1
    title = f"{len(unsettled)} questions need" if several else "One question needs"
    with st.container(border=True):
        st.write(f"**{title} your answer:** the files alone do not decide it.")
        problem = sign_in.lacking(api.settle_columns)
        answers = {
            one["column"]: st.radio(
                for_screen(one["statement"]), one["readings"], index=None, horizontal=True,
                key=f"read_{name}_{one['column']}", disabled=bool(problem),
            )
            for one in unsettled
        }  # fmt: skip
        readings = {column: reading for column, reading in answers.items() if reading}
        if problem:
            st.caption(problem)
        if st.button("Read them so", key=f"read_{name}", disabled=not readings or bool(problem)):
            try:
                api.settle_columns(path, readings)
            except MidchartError as error:
                st.error(for_screen(str(error)), title="The answer could not be kept")
                return
            st.rerun()


LABELS = {
    "training_allowed": "Models may be trained on these records",
    "external_services_allowed": "Their text may be sent to external services",
}


def _change_use(name: str, path: str, manifest: api.Manifest) -> None:
    waiting = api.unconfirmed_permissions(path)
    if waiting:
        fields = ", ".join(f"`{field} = true`" for field in waiting)
        st.warning(
            f"`midchart.toml` sets {fields}, but the audit log has no confirmation of it for these "
            "files. It is treated as no until a person confirms it here with a reason.",
            icon=":material/lock:",
        )
    if problem := sign_in.lacking(api.set_data_use):
        st.caption(f"Change of permitted use: {problem}")
        return
    with st.expander("Change permitted use", icon=":material/edit:", expanded=bool(waiting)):
        st.caption("What the folder's `midchart.toml` does not state is not allowed.")
        chosen = {
            field: st.checkbox(label, getattr(manifest, field), key=f"allow_{field}_{name}")
            for field, label in LABELS.items()
        }
        changed = [field for field in LABELS if chosen[field] != getattr(manifest, field)] + [
            field for field in waiting if not chosen[field]
        ]
        reason = st.text_input(
            "Who allowed or ended it, and by which agreement (recorded in the audit log)",
            key=f"permission_reason_{name}", max_chars=500,
        )  # fmt: skip
        title = "Confirm" if waiting else "Save"
        if not st.button(title, key=f"permission_{name}", disabled=not (changed and reason)):
            return
        try:
            for field in changed:
                api.set_data_use(path, field, chosen[field], reason)
        except MidchartError as error:
            st.error(for_screen(str(error)), title="The permitted use was not changed")
            return
        state.forget_cohorts()
        st.rerun()


# Models and components


def weights() -> None:
    """The weights the program can use: a table, and the command for each that is missing."""
    frame = pd.DataFrame(api.models())
    how = frame["how"].fillna("").map(lambda how: f"installed ({how})" if how else "installed")
    shown = pd.DataFrame(
        {"model": frame["name"], "state": how.where(frame["here"], "not installed"),
         "size (MB)": frame["size_mb"], "used by": frame["used_by"]}
    )  # fmt: skip
    alt = "Models: installed or not, size, and what uses them"
    tables.table(shown, "models", alt, download=frame)
    missing = frame[~frame["here"]].to_dict("records")
    if missing:
        st.write(
            "Nothing is downloaded automatically. Run a model's command with network access, or "
            "copy its folder to the path shown."
        )
    for model in missing:
        name, where = for_screen(model["name"]), for_screen(model["where"])
        st.caption(f"**{name}**, {model['size_mb']:,} MB, goes to {where}")
        st.code(model["command"], language=None, wrap_lines=True)


def components() -> None:
    """Every arm, reader and judge: installed or not, or what a spec must name for it."""
    rows = [
        {"family": family, "name": card.name, "description": card.title,
         "state": "not installed" if not card.installed
         else "set in a run's spec" if card.problem else "installed",
         "requirement": card.problem}
        for family in ("arm", "reader", "judge")
        for card in api.members(family)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    alt = "Arms, readers and judges: installed or not"
    tables.table(frame.drop(columns="requirement"), "families", alt, download=frame)
    # In full: a cell of a table would cut a sentence off.
    for row in rows:
        if row["requirement"]:
            words = f"{row['state']}: {for_screen(row['requirement'])}"
            st.caption(f"{row['family']} **{for_screen(row['name'])}**, {words}")
