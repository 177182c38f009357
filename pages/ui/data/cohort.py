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
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import segments

EDGES = [n / 10 for n in range(11)]
"""Of deciles; a value on an edge belongs to the right (docs/methods.md, Units)."""
SPLITS = {"train": "train", "tuning": "tuning", "held_out": "held-out"}


def _tag(manifest: api.Manifest, kind: str) -> str:
    """What the records are and what they may be used for, in a line."""
    identity = {
        "": "unknown: treat as identifiable",
        "yes": "yes",
        "no": "no: names are included",
    }.get(manifest.deidentified or "", f"{manifest.deidentified}: treat as identifiable")
    facts = {"Source": manifest.source or "not stated", "De-identified": identity}
    if manifest.synthetic:
        facts = {"Source": "synthetic patients"}
    allowed = {True: "allowed", False: "not allowed"}
    facts |= {
        "Licence": manifest.licence or "not stated",
        "Training": allowed[manifest.training_allowed],
        "External services": allowed[manifest.external_services_allowed],
        "Format": kind,
    }
    return " · ".join(f"{name}: {fact}" for name, fact in facts.items())


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


def listing() -> str:
    """The cohorts with their counts, permitted use and state; gives the chosen one."""
    captions: dict[str, str] = {}
    for name, path, problem in state.cohorts():
        if problem:
            title = f"{for_screen(name)} cannot be opened"
            st.warning(for_screen(problem), title=title, icon=":material/folder_off:")
            continue
        opened = api.open_data(path)
        words = [api.counted(len(opened.records), "patient"), permitted(opened.manifest)]
        words += ["events not read yet"] if api.unread(path) else []
        captions[name] = " · ".join(words)
    return state.pick_cohort("Cohorts", forecasts=True, captions=captions)


def cohort(name: str) -> None:
    """Counts and tag of one cohort, what of its files was read and left out, and where its evidence
    is (or its tasks)."""
    path = next(path for known, path, _ in state.cohorts() if known == name)
    opened = api.open_data(path)
    manifest, kind = opened.manifest, opened.format
    if command := api.unread(path):
        st.info("The events of this cohort have not been imported yet. Run this command once:")
        st.code(command, language=None, wrap_lines=True)
        return
    validate = kind == "fhir" and st.session_state.get(f"{name}-validate", False)
    top = st.container()
    check = state.check(path, validate)
    labels = check.get("labels", {})
    forecasts = bool(labels) and not check["instructions"]
    words = [api.counted(len(opened.records), "patient"), api.counted(check["events"], "event")]
    if forecasts:
        labelled = api.counted(sum(task["n"] for task in labels.values()), "label")
        words += [f"{api.counted(len(labels), 'task')} with {labelled}"]
    else:
        asked = api.counted(len(opened.instructions), "question")
        words += [f"{asked} ({len(opened.gold):,} with a reference)" if opened.gold else asked]
        words += [f"{len(opened.responses):,} model responses"] if opened.responses else []
    messages.conclude(f"{name}: {', '.join(words)}.", [_tag(manifest, kind)], top)
    if not manifest.synthetic:
        _change_use(name, path, manifest)
    if forecasts:
        _check(name, path, check, kind)
        _tasks(name, labels)
    elif not opened.gold:
        _check(name, path, check, kind)
    else:
        left, right = st.columns((3, 2), gap="large")
        with left:
            _check(name, path, check, kind)
        with right:
            _positions(name, check["positions"])


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
    counts = np.histogram(values, EDGES)[0]
    deciles = [f"{10 * n}" for n in range(10)]
    bars = go.Bar(
        x=deciles, y=counts, text=counts, textposition="outside", cliponaxis=False,
        marker_color=figures.series()[0], hovertemplate="from %{x} %: %{y}<extra></extra>",
    )  # fmt: skip
    figure = go.Figure(bars)
    figure.update_layout(height=260, bargap=0.25)
    title = f"tenth of the record, from % ({len(values)} questions)"
    figure.update_xaxes(title=title, showgrid=False)
    figure.update_yaxes(visible=False)
    highest = deciles[int(counts.argmax())]
    alt = f"Bar chart: questions by decile of evidence position; most from {highest} %."
    chart.show(figures.style(figure), alt, "positions")


def _balance(name: str, check: dict[str, Any]) -> None:
    """The balance of a cohort's files: what each part became, and entries without a date."""
    if not check["balance"]:
        return
    lost = sum(part["unaccounted"] for part in check["balance"])
    if lost:
        st.error(f"{lost:,} parts of the files are neither in a record nor named: a program fault.")
    parts = sorted(check["balance"], key=lambda part: not part["left_out"])
    rows = [
        {"read": f"{part['shown']:,} of {part['total']:,} {part['what']}",
         "left out, because": "; ".join(f"{n:,}: {why}" for why, n in part["left_out"].items())}
        for part in parts
    ]  # fmt: skip
    tables.table(
        pd.DataFrame(rows), f"{name}-balance", "What became of each part of the files",
        download=pd.DataFrame(parts),
    )  # fmt: skip
    if check["leaves"]:
        frame = pd.DataFrame(check["leaves"])
        every, hidden = frame["leaves"].sum(), frame[frame["outcome"] != "shown"]
        if lost := int(frame.loc[frame["outcome"] == "unaccounted", "leaves"].sum()):
            st.warning(f"{lost:,} of {every:,} strings and codes are neither shown nor named.")
        title = f"{hidden['leaves'].sum():,} of {every:,} strings, numbers and codes are not shown"
        with st.expander(title):
            alt = "Strings, numbers and codes that are not shown as they are"
            tables.table(hidden, f"{name}-leaves", alt)
    if check["undated"]:
        st.caption(
            f"{check['undated']:,} entries have no date: they come first in their record and are "
            "in no position band."
        )


def _check(name: str, path: str, check: dict[str, Any], kind: str) -> None:
    st.header("What was read, and what left out", anchor=False)
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
    """The weights the program can use, and the command for each that is missing."""
    frame = pd.DataFrame(api.models())
    how = frame["how"].fillna("").map(lambda how: f"installed ({how})" if how else "installed")
    shown = pd.DataFrame(
        {"model": frame["name"], "state": how.where(frame["here"], "not installed"),
         "size (MB)": frame["size_mb"], "used by": frame["used_by"]}
    )  # fmt: skip
    alt = "Models: installed or not, size, and what uses them"
    tables.table(shown, "models", alt, download=frame, opens=lambda row, _: st.session_state.update(
        model=row))  # fmt: skip
    st.caption("Nothing is downloaded automatically. Click a model for the command that gets it.")
    if (row := st.session_state.get("model")) is not None:
        model = frame.iloc[row]
        st.code(model["command"], language=None, wrap_lines=True)
        st.caption(f"With network access; or copy its folder to {for_screen(model['where'])}")


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
    alt = "Arms, readers and judges: installed or not"
    tables.table(pd.DataFrame(rows), "families", alt, row_height=70)  # so that text is wrapped
