"""The sections of the Patient page: map, questions, record, arms, reasons and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.patient import cached, controls, model, prompts, scores, screen, timeline
from midchart.pages.ui.patient.model import ArmView, Choice, Piece
from midchart.pages.ui.shared import chart, figures, marks, tables
from midchart.pages.ui.shared.formats import listed
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick_linked, segments
from midchart.pages.ui.sign_in import later

WAITING = "Not run on this long record yet: it reads the whole record once, which may take minutes."


@dataclass(frozen=True)
class Panes:
    """The containers of the page, from top to bottom and from left to right."""

    top: DeltaGenerator
    map: DeltaGenerator
    questions: DeltaGenerator
    record: DeltaGenerator
    arms: DeltaGenerator
    below: DeltaGenerator


def places() -> Panes:
    """The workbench: the map on top; the questions, the record and the arms next to each other, on
    a narrow screen below each other in this order; and what is below them."""
    top, map_place = st.container(), st.container(key="patient_map")
    left, middle, right = st.columns((5, 12, 7), gap="medium")
    return Panes(top, map_place, left, middle, right, st.container())


def views_of(choice: Choice, heat: str) -> tuple[list[ArmView], cached.Reading, dict[str, int]]:
    """The arms' results on the question, their thread and how far it is: what takes longer than a
    moment is shown once the thread has it."""
    units = cached.size(choice)[0]
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
    reading = cached.reading(choice, able, cached.reads(choice), heat)
    stages = reading.wait(cached.MOMENT_S)
    for name in able:
        if stages[name] == cached.WAITING:
            views[name] = replace(views[name], running=True)
        else:
            views[name] = cached.view(choice, name, able[name], stages[name] == cached.READ)
    return list(views.values()), reading, stages


def headline(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """What was lost or answered wrongly, in one sentence."""
    reference = choice.gold.answer if choice.gold is not None else ""
    alarm, rest = screen.verdict(views, pieces, reference)
    if alarm:
        st.html(marks.block(alarm + (f'<div class="mc-rest">{rest}</div>' if rest else "")))


def arms(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    reading: cached.Reading,
    stages: Mapping[str, int],
) -> None:
    """What each arm kept and what the reader made of it, and what else the chart says."""
    titles = {view.name: view.title for view in views}
    st.html(screen.arms(choice, views, pieces, cached.size(choice)))
    if set(stages.values()) - {cached.READ}:
        _at_work(reading, stages, titles)
    waiting = [view for view in views if view.pending]
    if waiting:
        names, units = listed([view.title for view in waiting]), cached.size(choice)[0]
        st.button(
            f"Run {names} on this record ({units:,} {choice.protocol.unit}s; may take minutes)",
            key="patient_run_slow", on_click=cached.request,
            args=(choice.record, *((view.name,) for view in waiting)),
            icon=":material/hourglass_top:",
        )  # fmt: skip
    if choice.reader and cached.reading_waits(choice):
        st.button(
            f"Answer with {choice.reader_title}", type="primary", key="patient_answer",
            on_click=cached.request, icon=":material/quick_reference_all:",
            args=(choice.record, (choice.instruction.id, choice.reader)),
        )  # fmt: skip
    st.html(screen.asked(choice, views, pieces, cached.other_values(choice)))
    _limits(choice)


@st.fragment(run_every=0.7)
def _at_work(reading: cached.Reading, stages: Mapping[str, int], titles: Mapping[str, str]) -> None:
    """Which arms and answers are not there yet; draws the page again when more are."""
    if reading.wait(0) != stages:
        st.rerun(scope="app")
    titles = {**titles, cached.HEAT: "the heat of the map"}
    selecting = [titles[name] for name, stage in stages.items() if stage == cached.WAITING]
    answering = [titles[name] for name, stage in stages.items() if stage == cached.SELECTED]
    words = [f"{listed(selecting)} (scoring sentences)"] if selecting else []
    words += [f"answers under {listed(answering)}"] if answering else []
    with st.container(key="patient_at_work"):
        st.caption(
            f":material/hourglass_top: Running: {for_screen('; '.join(words))}. "
            "The first time on a "
            "record takes some seconds; the page shows them by itself."
        )


def facts(choice: Choice) -> str:
    """Who the chart is of, and what the question is about (markdown)."""
    instruction = choice.instruction
    words = ["Synthetic chart"] if choice.cohort.manifest.synthetic else []
    words += [cached.facts(choice.record), instruction.domain, instruction.specialty]
    return for_screen(" · ".join(filter(None, words)))


def _limits(choice: Choice) -> None:
    """Why this question is shown, and the limits of the annotation."""
    instruction = choice.instruction
    words: list[str] = []
    note = model.evidence_note(choice.gold)
    if not note and choice.gold is not None and not choice.gold.exact:
        words.append("Evidence located by matching its text.")
    if instruction.cutoff is not None:
        words.append("Arms may not use events after the question's cut-off time.")
    words += [for_screen(controls.why_opened(instruction, choice.cohort_key))]
    st.caption(" · ".join(filter(None, words)))
    if note:
        st.info(for_screen(note))


# The map


def heat_of(choice: Choice) -> str:
    """The arm whose scores are the heat of the map, chosen above it; "" for none."""
    known = {name: title for name, title, _ in state.members("arm")}
    scored = [name for name in (GATE, *choice.arms) if name in known]
    titles = {
        name: f"Heat: {known[name]}"
        for name in dict.fromkeys(scored)
        if name in api.scored_arms() and not cached.problem(choice, name)
        and (name == GATE or not cached.waits(choice.record, cached.size(choice)[0], name))
    }  # fmt: skip
    titles[NO_HEAT] = "no heat"
    return pick_linked(
        "heat", "Heat of the map", list(titles), titles.__getitem__, key="patient_heat",
        unlinked=next(iter(titles)), width=250, label_visibility="collapsed",
    )  # fmt: skip


GATE, NO_HEAT = "qccs", "none"


def _figure_key(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str, heat: str, hot: bool
) -> tuple[object, ...]:
    drawn = ((v.name, v.problem, v.pending, v.running, v.prompt is not None) for v in views)
    about = (choice.reader, choice.run, by, chart.dark(), heat, hot)
    return *cached.question_key(choice), *about, *drawn


@cached.cached(_figure_key, entries=24, shared=True)
def _figure(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str, heat: str, hot: bool
) -> chart.Drawing:
    """The map: building it costs more than all else that a click on the page draws."""
    table = cached.scores(choice, heat) if hot else None
    if table is not None and (table.arms[0].problem or timeline.constant(table.arms[0].values)):
        table = None
    title = api.title("arm", heat) if heat and (table is not None or not hot) else ""
    figure = timeline.figure(
        cached.axis(choice.record), views, pieces, by, (title, table), cached.places(choice),
        {view.name: screen.claim(choice, view, pieces).source for view in views},
    )  # fmt: skip
    return chart.Drawing.of(figure)


def axis_choice(choice: Choice) -> str:
    """Whether the map goes by order or by time."""
    timed = cached.axis(choice.record).timed
    by = segments(
        "Axis", [timeline.ORDER, timeline.TIME], "axis", label_visibility="collapsed",
        width="content", disabled=not timed,
    )  # fmt: skip
    return by if timed else timeline.ORDER


def chart_map(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    by: str,
    heat: str,
    hot: bool,
) -> tuple[chart.Drawing, str]:
    """The map of the chart, and what it shows in words; a click on a marker opens it in the record,
    and the record shows on the map where it is. ``hot``: the scores of its heat are there."""

    def open_marker(event: int, _number: int, _event: int, sentence: int = -1, *_: object) -> None:
        cached.open_item(cached.EVENT, choice, int(event))
        if sentence >= 0:
            units = api.sentences(choice.record, choice.protocol)
            cached.open_item(cached.SENTENCE, choice, units[int(sentence)].id)

    heat = "" if heat == NO_HEAT else heat
    drawing = _figure(choice, views, pieces, by, heat, hot and bool(heat))
    alt = timeline.alt(views, pieces, len(choice.record.events))

    def select() -> None:
        if point := st.session_state["patient_timeline"].get("point"):
            open_marker(*point)

    chart.plot(drawing, alt, "patient_timeline", select, follows=True)
    return drawing, alt


def reading_the_map(choice: Choice, pieces: Sequence[Piece], by: str) -> None:
    """What the marks of the map mean."""
    words = [
        "Click a mark to open it in the record. ▼ the answer is from here; hollow: kept only as "
        "recent. Heat: ranks of the score, dark blue (last) to yellow (first)."
    ]
    if pieces:
        words.insert(0, "★ evidence; under an arm a ring: kept, crossed ring: cut, cross: dropped.")
    axis = cached.axis(choice.record)
    if by == timeline.TIME and axis.undated:
        words.append(f"{axis.undated:,} undated events are not on this axis.")
    st.caption(" ".join(words))


# Files


COLUMNS = (
    *("arm", "sentence", "event", "time", "kind", "position"),
    *("status", "kept_by", "score", "text"),
)


def _time(time: datetime | None) -> str | None:
    return time.isoformat() if time else None


def selections_frame(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]
) -> pd.DataFrame:
    """The sentences that each arm kept and the gold sentences that it dropped, with status."""
    gold, events = model.gold_ids(pieces), choice.record.events
    units = api.sentences(choice.record, choice.protocol) if gold else ()
    rows: list[tuple[Any, ...]] = []
    for view in model.with_selection(views):
        entries = [(k.sentence, k.kept_by, k.score) for k in view.kept]
        ids = {sentence.id for sentence, _, _ in entries}
        dropped = [(unit, "", None) for unit in units if unit.id in gold and unit.id not in ids]
        for sentence, kept_by, score in entries + dropped:
            event = sentence.span.event
            rows.append(
                (
                    *(view.name, sentence.id, event, _time(events[event].time), events[event].kind),
                    round(model.position(choice.record, event), 6),
                    model.label_of(view, sentence.id, sentence.id in gold),
                    *(kept_by, score, sentence.text),
                )
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))


TABS = ("Why was it kept?", "What did the reader get?")


@st.fragment
def reasons(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
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


def files(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    drawn: tuple[chart.Drawing, str],
) -> None:
    """What each arm kept and which evidence it dropped, as a file; and the map as a figure."""
    figures.export(drawn[0].figure, drawn[1], "patient_timeline", chart.ink().paper)
    content = tables.csv_bytes(selections_frame(choice, views, pieces)).decode()
    name = f"midchart_{choice.instruction.id}.csv"
    st.download_button(
        "Selections, CSV", later(api.download, name, partial(str, content)), name, "text/csv",
        key=f"save_{name}", icon=":material/download:", on_click="ignore",
    )  # fmt: skip
    st.caption("It contains text of the record: store it only where the record may be stored.")
