"""The sections of the Patient page: first screen, record, timeline, reasons, numbers and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.patient import (
    background,
    cached,
    export,
    model,
    opening,
    prompts,
    record_view,
    score_arrays,
    scores,
    screen,
    timeline,
)
from midchart.pages.ui.patient.model import ArmView, Choice, Piece
from midchart.pages.ui.shared import chart, figures, marks, tables
from midchart.pages.ui.shared.formats import listed
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import segments
from midchart.pages.ui.sign_in import later

WAITING = "Not run on this long record yet: it reads the whole record once, which may take minutes."


def first_screen(choice: Choice, pieces: Sequence[Piece]) -> list[ArmView]:
    """The question answered by each arm; gives the arms' results. What takes longer than a moment
    is shown once a thread has it."""
    figures.set_cohort(choice.cohort)
    size, others = cached.size(choice), cached.other_values(choice)
    units, unit = size[0], choice.protocol.unit
    titles = {name: title for name, title, _ in state.members("arm")}
    views: dict[str, ArmView] = {}
    able: dict[str, str] = {}
    for name in choice.arms:
        view = ArmView(name, titles[name], problem=cached.problem(choice, name))
        if not view.problem and cached.waits(choice.record, units, name):
            view = replace(view, pending=True, problem=WAITING)
        views[name] = view
        if not view.problem:
            able[name] = view.title
    waiting = [name for name, view in views.items() if view.pending]
    reading = background.reading(choice, able, cached.reads(choice))
    stages = reading.wait(background.MOMENT_S)
    for name, stage in stages.items():
        if stage == background.WAITING:
            views[name] = replace(views[name], running=True)
        else:
            views[name] = cached.view(choice, name, able[name], stage == background.READ)
    st.html(screen.screen(choice, list(views.values()), pieces, size, others))
    if set(stages.values()) - {background.READ}:
        _at_work(reading, stages, able)
    with st.container(horizontal=True, gap="small"):
        if pieces:
            selected = model.with_selection(views.values())
            event = model.first_event(pieces, selected[0] if selected else None)
            st.button(
                "Read around the evidence", key="patient_around", icon=":material/menu_book:",
                on_click=cached.open_item, args=(cached.EVENT, choice, event),
            )  # fmt: skip
        if waiting:
            names = listed([views[name].title for name in waiting])
            st.button(
                f"Run {names} on this record ({units:,} {unit}s; may take minutes)",
                key="patient_run_slow", on_click=cached.request,
                args=(choice.record, *((name,) for name in waiting)),
                icon=":material/hourglass_top:",
            )  # fmt: skip
        if choice.reader and cached.reading_waits(choice):
            st.button(
                f"Answer with {choice.reader_title}", type="primary", key="patient_answer",
                on_click=cached.request, icon=":material/quick_reference_all:",
                args=(choice.record, (choice.instruction.id, choice.reader)),
            )  # fmt: skip
    _limits(choice)
    return list(views.values())


@st.fragment(run_every=0.7)
def _at_work(
    reading: background.Reading, stages: Mapping[str, int], titles: Mapping[str, str]
) -> None:
    """Which arms and answers are not there yet; draws the page again when more are."""
    if reading.wait(0) != stages:
        st.rerun(scope="app")
    selecting = [titles[name] for name, stage in stages.items() if stage == background.WAITING]
    answering = [titles[name] for name, stage in stages.items() if stage == background.SELECTED]
    words = [f"{listed(selecting)} selecting sentences"] if selecting else []
    words += [f"answers under {listed(answering)}"] if answering else []
    with st.container(key="patient_at_work"):
        st.caption(
            f":material/hourglass_top: Running: {for_screen('; '.join(words))}. "
            "The first time on a "
            "record takes some seconds; the page shows them by itself."
        )


def _limits(choice: Choice) -> None:
    """The patient's facts, why this question is shown, and the limits of the annotation."""
    instruction = choice.instruction
    task = " · ".join(w for w in (instruction.domain, instruction.specialty) if w)
    facts = cached.facts(choice.record)
    words = ["Synthetic record"] if choice.cohort.manifest.synthetic else []
    words += [for_screen(f"{facts} · question: {task}" if task else facts)]
    note = model.evidence_note(choice.gold)
    if not note and choice.gold is not None and not choice.gold.exact:
        words.append("Evidence located by matching its text.")
    if instruction.cutoff is not None:
        words.append("Arms may not use events after the question's cut-off time.")
    words += [for_screen(opening.why(instruction, choice.cohort_key))]
    st.caption(" · ".join(filter(None, words)))
    if note:
        st.info(for_screen(note))


@st.fragment
def details(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The record, the timeline and the reasons; their clicks redraw nothing else."""
    record_view.section(choice, views, pieces)
    _timeline(choice, views, pieces)
    _reasons(choice, views, pieces)


def _figure_key(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str
) -> tuple[object, ...]:
    drawn = ((v.name, v.problem, v.pending, v.running, v.prompt is not None) for v in views)
    about = (choice.reader, choice.run, by, chart.dark())
    return *cached.question_key(choice), *about, *drawn


@cached.cached(_figure_key, entries=24, shared=True)
def _figure(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str
) -> chart.Drawing:
    """The timeline: building it costs more than all else that a click on the page draws."""
    strips, places = cached.strips(choice, views), cached.places(choice)
    axis = cached.axis(choice.record)
    return chart.Drawing.of(timeline.figure(axis, views, pieces, by, strips, places))


def _timeline(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The timeline with its choice of axis."""
    axis = cached.axis(choice.record)
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.header("Where in the record is it?", anchor=False, width="content")
        by = segments(
            "Axis", [score_arrays.ORDER, score_arrays.TIME], "axis",
            label_visibility="collapsed", width="content", disabled=not axis.timed,
        )  # fmt: skip
    if not axis.timed:
        by = score_arrays.ORDER

    def open_marker(event: int, _number: int, _event: int, sentence: int = -1, *_: object) -> None:
        cached.open_item(cached.EVENT, choice, int(event))
        if sentence >= 0:
            units = api.sentences(choice.record, choice.protocol)
            cached.open_item(cached.SENTENCE, choice, units[int(sentence)].id)

    chart.show(
        _figure(choice, views, pieces, by),
        timeline.alt(views, pieces, len(choice.record.events)),
        "patient_timeline",
        opens=open_marker,
    )
    words = [
        "Select a marker to open it in the record and see why it was kept.",
        "Hollow: kept only because recent. Strip under an arm: ranks of its scores, dark blue "
        "(last) to yellow (first).",
    ]
    if pieces:
        words.append("Evidence: ring kept, crossed ring cut, cross dropped.")
    if by == score_arrays.TIME and axis.undated:
        words.append(f"{axis.undated:,} undated events are not on this axis.")
    st.caption(" ".join(words))


TABS = ("Why was it kept?", "What did the reader get?")


def _reasons(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """Why a sentence was kept, and the prompts of two arms; only the open tab is drawn."""
    why, prompt = st.tabs(TABS, on_change="rerun", key="patient_reasons")
    if why.open:
        with why:
            strips = cached.strips(choice, views)
            first = next(iter(strips.values()), None)
            arms = tuple(table.arms[0] for table in strips.values())
            scores.section(choice, views, pieces, first and replace(first, arms=arms))
    if prompt.open:
        with prompt:
            _prompts(choice, views, pieces)


def _prompts(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """What the reader got from two arms, side by side."""
    selected = {view.name: view for view in model.with_selection(views)}
    if not selected:
        st.info("No arm has a selection.")
        return
    units, gold = api.sentences(choice.record, choice.protocol), model.gold_ids(pieces)
    for at, place in enumerate(st.columns(min(len(selected), 2), gap="medium")):
        with place:
            letter = "AB"[at]
            name = st.selectbox(
                f"Prompt {letter}", list(selected), index=at, key=f"patient_prompt_{letter}",
                format_func=lambda name: selected[name].title,
            )  # fmt: skip
            view = selected[name]
            st.caption(prompts.budget_words(view) or "No reader has answered this question yet.")
            st.html(prompts.lines_html(view, gold, units))
            if view.prompt is None:
                continue
            box = st.expander("Prompt, verbatim", on_change="rerun", key=f"patient_raw_{letter}")
            if box.open:
                with box:
                    st.html(marks.prompt_html(view.prompt.text))


def files(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """What each arm kept and which evidence it dropped, as a file."""
    content = tables.csv_bytes(export.frame(choice, views, pieces)).decode()
    name = f"midchart_{choice.instruction.id}.csv"
    st.download_button(
        "Selections, CSV", later(api.download, name, partial(str, content)), name, "text/csv",
        key=f"save_{name}", icon=":material/download:", on_click="ignore",
    )  # fmt: skip
    st.caption("It contains text of the record: store it only where the record may be stored.")
