"""The sections of the Patient page: first screen, timeline, evidence panel and tabs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.patient import (
    background,
    cached,
    context,
    export,
    model,
    opening,
    record_view,
    scores,
    screen,
    timeline,
    two_arms,
)
from midchart.pages.ui.patient.model import ArmView, Choice, Piece
from midchart.pages.ui.shared import chart, figures, marks, reader_rates, tables
from midchart.pages.ui.shared.formats import listed
from midchart.pages.ui.shared.marks import plain
from midchart.pages.ui.shared.pickers import segments
from midchart.pages.ui.sign_in import later

WAITING = "Not run on this long record yet: it reads the whole record once, which may take minutes."
MOST_BUTTONS = 6


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
    opening.caption(choice.instruction, choice.cohort, choice.cohort_key)
    if set(stages.values()) - {background.READ}:
        _at_work(reading, stages, able)
    if waiting:
        names = listed([views[name].title for name in waiting])
        st.button(
            f"Run {names} on this record ({units:,} {unit}s; may take minutes)",
            key="patient_run_slow", on_click=cached.request,
            args=(choice.record, *((name,) for name in waiting)), icon=":material/hourglass_top:",
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
            f":material/hourglass_top: In progress: {plain('; '.join(words))}. The first time on a "
            "record takes some seconds; the page shows them by itself."
        )


def _to_the_record(choice: Choice, pieces: Sequence[Piece]) -> None:
    """A button for each piece of evidence that opens its entry."""
    events = dict.fromkeys(piece.event for piece in pieces)
    with st.container(horizontal=True, gap="small"):
        for number, event in enumerate(list(events)[:MOST_BUTTONS], 1):
            st.button(
                f"Read around {f'evidence {number}' if len(events) > 1 else 'the evidence'}",
                key=f"patient_around_{number}", icon=":material/menu_book:",
                on_click=cached.open_item, args=(cached.EVENT, choice, event),
            )  # fmt: skip


def _limits(choice: Choice) -> None:
    """The patient's facts, and the limits of the evidence annotation."""
    instruction = choice.instruction
    task = " · ".join(w for w in (instruction.domain, instruction.specialty) if w)
    facts = cached.facts(choice.record)
    words = ["Synthetic record"] if choice.cohort.manifest.synthetic else []
    words += [plain(f"{facts} · question: {task}" if task else facts)]
    note = model.evidence_note(choice.gold)
    if not note and choice.gold is not None and not choice.gold.exact:
        words.append("Evidence located by matching its text.")
    if instruction.cutoff is not None:
        words.append("Arms may not use events after the question's cut-off time.")
    st.caption(" · ".join(words))
    if note:
        st.info(plain(note))


@st.fragment
def record(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The timeline and the record; its own clicks redraw nothing else."""
    background.drawn()
    _to_the_record(choice, pieces)
    _timeline(choice, views, pieces)
    record_view.section(choice, views, pieces)


TABS = ("Sentence scores", "Score matrix", "Reader prompt", "Arm comparison", "Table and export")


@st.fragment
def more(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The tabs under the record; only the open one is drawn."""
    background.drawn()
    st.header("More", anchor=False)
    running = frozenset(view.name for view in views if view.running)
    drawn = (
        partial(scores.section, choice, pieces, running),
        partial(scores.section, choice, pieces, running, matrix=True),
        partial(reader, choice, views, pieces),
        partial(compare, choice, views, pieces),
        partial(table_and_export, choice, views, pieces),
    )
    tabs = st.tabs(TABS, on_change="rerun", key="patient_more")
    for tab, draw in zip(tabs, drawn, strict=True):
        if tab.open:
            with tab:
                draw()


def _figure_key(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str
) -> tuple[object, ...]:
    drawn = ((v.name, v.problem, v.pending, v.running, v.prompt is not None) for v in views)
    about = (choice.reader, choice.run, by, chart.dark())
    return *cached.question_key(choice), *about, *drawn


@cached.cached(_figure_key, entries=24, shared=True)
def _figure(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str
) -> go.Figure:
    """The timeline: building it costs more than all else that a click on the page draws."""
    return timeline.figure(cached.axis(choice.record), views, pieces, by)


def _timeline(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The timeline with its choice of axis."""
    axis = cached.axis(choice.record)
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.header("Timeline", anchor=False, width="content")
        by = segments(
            "Axis", [timeline.ORDER, timeline.TIME], "axis", label_visibility="collapsed",
            width="content", disabled=not axis.timed,
        )  # fmt: skip
    if not axis.timed:
        by = timeline.ORDER
    chart.show(
        _figure(choice, views, pieces, by),
        timeline.alt(views, pieces, len(choice.record.events)),
        "patient_timeline",
        styled=True,
        opens=lambda event, *_: cached.open_item(cached.EVENT, choice, int(event)),
    )
    words = ["Select a marker to open its entry.", "Hollow: kept only because recent."]
    if pieces:
        words.append(
            "Ring: evidence in the prompt (kept, if there is no reader). Crossed ring: kept but "
            "cut from the prompt. Cross: dropped. Dashed line: evidence."
        )
    if by == timeline.TIME and axis.undated:
        words.append(f"{axis.undated:,} undated events are not on this axis.")
    st.caption(" ".join(words))


def _pick_arm(label: str, views: Sequence[ArmView], key: str, index: int = 0) -> ArmView:
    by_name = {view.name: view for view in views}
    name = st.selectbox(
        label, list(by_name), index=index, key=key, format_func=lambda n: by_name[n].title
    )
    return by_name[name]


def reader(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The reader's prompt and answer."""
    selected = model.with_selection(views)
    if not selected:
        st.info("No arm has a selection.")
        return
    view = _pick_arm("Context from", selected, "patient_reader_arm")
    if view.prompt is None:
        st.info("No reader has answered this question yet.")
        return
    st.markdown(context.budget_words(view))
    reader_rates.caption(choice.reader)
    if choice.reader == "abstaining":
        st.caption(
            "This reader copies the sentence that is nearest to the question, by meaning and by "
            "shared words, and answers “not documented” where none is clearly nearest."
        )
    if choice.reader == "extractive":
        st.caption(
            "The extractive reader is a baseline without a language model: it copies the "
            "sentence of its context that is most similar to the question."
        )
    if choice.reader == "small":
        st.caption(
            "The small reader is extractive: it quotes one line of its context verbatim or "
            "answers “not documented”; either can be incorrect. It was trained on synthetic "
            "records only and is often incorrect on real text (figures: guide, The small reader)."
        )
    st.html(context.context_html(view, model.gold_ids(pieces)))
    box = st.expander("Prompt", on_change="rerun", key="patient_prompt")
    if box.open:
        with box:
            st.html(marks.prompt_html(view.prompt.text))
            st.caption("The file of prompts, under Table and export, has the full text.")


def compare(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """Two arms side by side."""
    selected = model.with_selection(views)
    if len(selected) < 2:
        st.info("Select two or more arms to compare.")
        return
    left, right = st.columns(2)
    with left:
        a = _pick_arm("A", selected, "patient_a")
    with right:
        b = _pick_arm("B", selected, "patient_b", 1)
    units = api.sentences(choice.record, choice.protocol)
    table = two_arms.rows(a, b, model.gold_ids(pieces), units)
    st.text(two_arms.count_words(table, a, b))
    if st.toggle("Different only", key="patient_different"):
        table = [row for row in table if row.who != two_arms.BOTH]
    shown = table[: two_arms.MOST_ROWS]
    if len(shown) < len(table):
        st.caption(f"The first {len(shown)} of {len(table):,}; all are in the download below.")
    colours = (chart.look_of(a.name).colour, chart.look_of(b.name).colour)
    st.html(two_arms.html_of(shown, a, b, colours))


def table_and_export(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The numbers as a table, and everything shown as files."""
    tables.table(
        export.arms_frame(views, pieces),
        "patient_arms",
        "Each arm's selection, evidence and answer",
    )
    stem = f"midchart_{choice.instruction.id}"
    selections = tables.csv_bytes(export.frame(choice, views, pieces)).decode()
    document = export.as_json(choice, views, pieces)
    files = [
        ("Selections, CSV", selections, f"{stem}.csv", "text/csv"),
        ("Full view, JSON", document, f"{stem}.json", "application/json"),
        ("Prompts, text", export.prompts(views), f"{stem}_prompts.txt", "text/plain"),
        (
            "Evidence in its notes, HTML",
            export.evidence_page(choice, views, pieces),
            f"{stem}.html",
            "text/html",
        ),
    ]
    st.caption(
        "These files contain text of the record: store them only where the record may be stored."
    )
    with st.container(horizontal=True, gap="small"):
        for label, data, name, mime in files:
            st.download_button(
                label, later(api.download, name, partial(str, data)), name, mime,
                key=f"save_{name}", icon=":material/download:",
                on_click="ignore", disabled=not data,
            )  # fmt: skip
