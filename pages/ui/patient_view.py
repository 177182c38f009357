"""The Patient page's parts: each draws one section from what was chosen and what was kept."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from core import api
from core.errors import MidchartError
from pages.ui import (
    cards,
    compare,
    evidence,
    kept,
    marks,
    patient_export,
    patient_state,
    reader_view,
    state,
    tables,
    theme,
    timeline,
)
from pages.ui.choose import Choice
from pages.ui.kept import ArmView, Piece

WAITING = "Not run on this long record yet: it reads all of it once, which may take minutes."
OPEN = "patient_open"
"""Session key of the open event: (record digest, question id, event number)."""


def looks(views: Sequence[ArmView]) -> list[timeline.Look]:
    """Colour and symbol of each arm in the viewer's theme."""
    found = [theme.look_of(view.name) for view in views]
    return [timeline.Look(look.colour, look.symbol) for look in found]


def question(choice: Choice) -> None:
    """The patient's facts, and what must be said of the evidence before anything else."""
    asked = choice.instruction
    task = " · ".join(w for w in (asked.domain, asked.specialty) if w)
    facts = patient_state.facts(choice.record)
    words = [f"{facts} · question: {task}" if task else facts]
    note = kept.evidence_note(choice.gold)
    if not note and choice.gold is not None and not choice.gold.exact:
        words.append("Evidence located by matching its text.")
    if asked.cutoff is not None:
        words.append("Arms may use nothing after the question's cut-off time.")
    st.caption(" · ".join(words))
    if note:
        st.info(note)


def summary(choice: Choice, found: Sequence[Piece]) -> list[ArmView]:
    """The cards. Quick arms are drawn at once; then each slow one as it comes."""
    slot = st.empty()
    size = patient_state.size(choice.record, choice.protocol)
    titles = {name: title for name, title, _ in state.members("arm")}
    views = {name: ArmView(name, titles.get(name, name)) for name in choice.arms}

    def draw() -> None:
        shown = list(views.values())
        slot.html(cards.cards(shown, looks(shown), found, size, choice.protocol.unit))

    def ready(name: str) -> bool:
        key = patient_state.view_key(
            choice.key, choice.record, choice.instruction, name, choice.reader, choice.protocol
        )
        return patient_state.is_ready(key, name)

    waiting = tuple(n for n in choice.arms if patient_state.long_wait(choice.record, size[0], n))
    for name in waiting:
        views[name] = ArmView(name, titles.get(name, name), pending=True, problem=WAITING)
    slow = [name for name in choice.arms if not ready(name)]
    for name in sorted((n for n in choice.arms if n not in waiting), key=lambda n: n in slow):
        arguments = (
            choice.key, choice.cohort, choice.record, choice.instruction, name, choice.reader,
            choice.judges, choice.protocol,
        )  # fmt: skip
        if name not in slow:
            views[name] = patient_state.view(*arguments)
            continue
        draw()
        with st.spinner(f"{views[name].title} reads the whole record the first time"):
            views[name] = patient_state.view(*arguments)
    draw()
    if waiting:
        names = " and ".join(views[name].title for name in waiting)
        st.button(
            f"Run {names} on this record ({size[0]:,} {choice.protocol.unit}s; may take minutes)",
            key="patient_run_slow", on_click=patient_state.ask_for, args=(choice.record, waiting),
            icon=":material/hourglass_top:",
        )  # fmt: skip
    return list(views.values())


def open_event(choice: Choice, found: Sequence[Piece], view: ArmView | None) -> int | None:
    """The number of the open event: what was clicked, else the first dropped evidence."""
    held = st.session_state.get(OPEN)
    where = (choice.record.digest, choice.instruction.id)
    if held is not None and held[:2] == where and held[2] < len(choice.record.events):
        return held[2]
    first = kept.first_event(found, view)
    return first if first is not None else len(choice.record.events) - 1


def _clicked(key: str, digest: str, question_id: str) -> None:
    event = timeline.opened(st.session_state[key].get("selection"))
    if event is not None:
        st.session_state[OPEN] = (digest, question_id, event)


def _step(choice: Choice, found: Sequence[Piece], event: int | None, forward: bool) -> None:
    to = evidence.step(found, event, forward)
    if to is not None:
        st.session_state[OPEN] = (choice.record.digest, choice.instruction.id, to)


def record_timeline(choice: Choice, views: Sequence[ArmView], found: Sequence[Piece]) -> None:
    """The timeline with its switch of axis."""
    axis = patient_state.axis(choice.record)
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.subheader("Timeline", anchor=False, width="content")
        by = st.segmented_control(
            "Axis", [timeline.ORDER, timeline.TIME], default=timeline.ORDER, required=True,
            key="axis", bind="query-params", label_visibility="collapsed", width="content",
            disabled=not axis.timed,
        )  # fmt: skip
    if not axis.timed:
        by = timeline.ORDER
    ink = theme.ink()
    gold = timeline.EVIDENCE_COLOUR[theme.dark()]
    figure = timeline.figure(
        axis, views, found, looks(views), by,
        timeline.Shades(ink.text, ink.faint, gold, theme.dark()),
    )  # fmt: skip
    margins = figure.layout.height
    theme.style(figure)
    figure.update_layout(
        height=margins, margin={"l": 8, "r": 22, "t": timeline.TOP, "b": timeline.BOTTOM - 8}
    )
    key = "patient_timeline"
    st.plotly_chart(
        figure,
        theme=None,
        key=key,
        alt=timeline.alt(views, found, len(choice.record.events)),
        config={"displaylogo": False, "displayModeBar": False},
        on_select=lambda: _clicked(key, choice.record.digest, choice.instruction.id),
        selection_mode="points",
    )
    words = ["Click a marker to open its entry.", "Hollow: kept only because recent."]
    if found:
        words.append("Ring: evidence kept. Cross: evidence dropped. Dashed line: evidence.")
    if by == timeline.TIME and axis.undated:
        words.append(f"{axis.undated:,} undated events are not on this axis.")
    st.caption(" ".join(words))


def evidence_panel(choice: Choice, views: Sequence[ArmView], found: Sequence[Piece]) -> str:
    """The open entry with its marks, the way to the next evidence; returns the panel's HTML."""
    there = [view for view in views if view.selection is not None]
    st.subheader("In the record", anchor=False)
    if not there:
        st.info("None of the chosen arms is available; choose another to see what it keeps.")
        return ""
    titles = {view.name: view for view in there}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        name = st.segmented_control(
            "Show marks of", list(titles), default=there[0].name, required=True,
            format_func=lambda n: titles[n].title, key="patient_marks", persist_state="page",
            wrap=True,
        )  # fmt: skip
        view = titles.get(name, there[0])
        event = open_event(choice, found, view)
        for label, forward, icon in (
            ("Previous evidence", False, ":material/arrow_upward:"),
            ("Next evidence", True, ":material/arrow_downward:"),
        ):
            st.button(
                label, icon=icon, key=f"patient_{'next' if forward else 'previous'}",
                on_click=_step, args=(choice, found, event, forward), disabled=not found,
            )  # fmt: skip
    if event is None:
        return ""
    status = evidence.status_line(found, event, view)
    if status:
        st.text(status)
    entry = choice.record.events[event]
    long = marks.words_in(api.event_text(entry)) > marks.LONG_NOTE
    whole = long and st.toggle("Show whole note", key=f"patient_whole_{event}")
    units = patient_state.near(choice.record, choice.protocol, event, evidence.AROUND)
    body = evidence.panel(choice.record, event, view, views, found, units, bool(whole))
    st.html(marks.block(marks.legend(choice.protocol.unit) + body))
    unit, asked = choice.protocol.unit, choice.instruction.question
    return patient_export.panel_page(asked, view.title, body, unit, status)


def _pick(label: str, views: Sequence[ArmView], key: str, index: int = 0) -> ArmView:
    titles = {view.name: view for view in views}
    name = st.selectbox(
        label, list(titles), index=min(index, len(titles) - 1), key=key,
        format_func=lambda n: titles[n].title,
    )  # fmt: skip
    return titles[name]


def reader(choice: Choice, views: Sequence[ArmView], found: Sequence[Piece]) -> None:
    """What the reader was given and what it answered."""
    there = [view for view in views if view.selection is not None]
    if not there:
        st.info("No arm has a selection to read.")
        return
    view = _pick("Context from", there, "patient_reader_arm")
    title = {n: t for n, t, _ in state.members("reader")}.get(choice.reader, choice.reader)
    if view.prompt is not None:
        st.markdown(reader_view.budget_words(view))
    st.html(reader_view.answer_html(view, choice.gold, title))
    if choice.reader == "extractive":
        st.caption(
            "The extractive reader is a baseline without a language model: it copies the sentence "
            "of its context that best fits the question, and never writes one."
        )
    gold = frozenset(i for p in found for i in p.ids)
    st.html(reader_view.context_html(view, gold))
    if view.prompt is not None:
        raw = st.expander("The prompt, as built", on_change="rerun", key="patient_prompt")
        if raw.open:
            with raw:
                st.code(view.prompt.text[:40_000], language=None, wrap_lines=True)


def two_arms(choice: Choice, views: Sequence[ArmView], found: Sequence[Piece]) -> None:
    """Two arms side by side, and why a sentence got its score."""
    there = [view for view in views if view.selection is not None]
    if len(there) < 2:
        st.info("Choose two arms or more to compare them.")
        return
    left, right = st.columns(2)
    with left:
        a = _pick("A", there, "patient_a")
    with right:
        b = _pick("B", there, "patient_b", 1)
    gold = frozenset(i for p in found for i in p.ids)
    units = api.sentences(choice.record, choice.protocol)
    assert a.selection is not None and b.selection is not None
    table = compare.rows(a.selection, b.selection, gold, units)
    st.text(compare.count_words(table, a.title, b.title))
    if st.toggle("Different only", key="patient_different"):
        table = [row for row in table if row.who != compare.BOTH]
    shown = table[: compare.MOST_ROWS]
    if len(shown) < len(table):
        st.caption(f"The first {len(shown)} of {len(table):,}; all are in the download below.")
    colours = (theme.colour_of(a.name), theme.colour_of(b.name))
    why(choice, [a, b])
    st.html(compare.html_of(shown, a, b, colours))


def why(choice: Choice, views: Sequence[ArmView]) -> None:
    """Each term's part of a kept sentence's score."""
    box = st.expander("Why was a sentence kept?", on_change="rerun", key="patient_why")
    if not box.open:
        return
    with box:
        view = _pick("Arm", views, "patient_why_arm")
        assert view.selection is not None
        scored = [k for k in view.selection.kept if k.score is not None]
        scored = sorted(scored, key=lambda k: -(k.score or 0.0))[:200]
        if not scored:
            st.info(f"{view.title} keeps by recency alone; there is no score to explain.")
            return
        by_id = {k.sentence.id: k for k in scored}
        chosen = st.selectbox(
            "Sentence, best score first", list(by_id), key="patient_why_sentence",
            format_func=lambda i: compare.place(by_id[i].sentence, choice.record),
        )  # fmt: skip
        try:
            found = patient_state.explain(
                choice.record, choice.instruction, view.name, chosen, choice.protocol
            )
        except MidchartError as error:
            st.error(str(error))
            return
        score = by_id[chosen].score
        terms = sorted(found.terms if found else (), key=lambda term: -term.part)
        parts = [(term.text, term.part) for term in terms]
        if not parts:
            st.caption(f"Score {score:.4g}. {view.title} has no terms to take its score apart by.")
            return
        words = [term for term, _ in parts][::-1]
        bars = go.Figure(
            go.Bar(
                x=[part for _, part in parts][::-1], y=[marks.safe(w) for w in words],
                orientation="h", marker_color=theme.colour_of(view.name),
                texttemplate="%{x:.3g}", textposition="auto",
            )
        )  # fmt: skip
        bars.update_layout(height=70 + 26 * len(parts), yaxis_type="category")
        bars.update_xaxes(title_text=f"Part of the score {score:.4g}")
        theme.show(bars, f"Terms of the score {score:.4g}", "patient_why_figure")


def export(choice: Choice, views: Sequence[ArmView], found: Sequence[Piece], panel: str) -> None:
    """The numbers as a table, and everything seen as files."""
    tables.table(
        cards.frame(views, found), "patient_arms", "Each arm's selection, evidence and answer"
    )
    stem = f"midchart_{choice.instruction.id}"
    rows = patient_export.frame(choice.record, views, found, choice.protocol)
    document = patient_export.as_json(
        choice.record, choice.instruction, choice.gold, choice.protocol, choice.reader, views, found
    )
    files = [
        ("Selections, CSV", tables.csv_bytes(rows), f"{stem}.csv", "text/csv"),
        ("All that is seen, JSON", document, f"{stem}.json", "application/json"),
        ("Prompts, text", patient_export.prompts(views), f"{stem}_prompts.txt", "text/plain"),
        ("Evidence panel, HTML", panel, f"{stem}.html", "text/html"),
    ]
    st.caption("These files hold text of the record: keep them where the record may be kept.")
    with st.container(horizontal=True, gap="small"):
        for label, data, name, kind in files:
            st.download_button(
                label, data, name, kind, key=f"save_{name}", icon=":material/download:",
                on_click="ignore", disabled=not data,
            )  # fmt: skip
