"""The record as a list that scrolls, with search, filters and marks; and the questions that people
keep with the cohort, whose evidence they mark in it.

The list is a component whose script (``record_view.js``) has the complete record and draws the rows
on the screen alone, so scrolling, search and filters need no answer of the server. The record and
an arm's marks are sent once each; after that the browser is given their keys.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from midchart.core import api
from midchart.core.errors import InputError, MidchartError
from midchart.pages.ui import navigation, state
from midchart.pages.ui.patient import model
from midchart.pages.ui.patient.model import ArmView, Choice, Piece
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import marks
from midchart.pages.ui.shared.marks import for_screen, for_terminal
from midchart.pages.ui.shared.pickers import segments
from midchart.pages.ui.sign_in import download_button, lacking
from midchart.pages.ui.state import cached

KEY, SENT = "patient_record", "patient_record_sent"
CONTEXTS, SAVED = "patient_marking_contexts", "patient_marks_saved"
"""In the session: context → its choice and annotator; page load → id of its last saved change."""
MOST_CONTEXTS = 8
KINDS = (
    ("Notes", ("note",)),
    ("Labs, vitals", ("measurement",)),
    ("Drugs", ("drug_exposure", "drug")),
    ("Vaccinations", ("immunization",)),
    ("Conditions", ("condition", "condition_occurrence")),
    ("Visits", ("visit", "visit_detail", "visit_occurrence")),
    ("Procedures", ("procedure", "procedure_occurrence")),
)
OTHER = "Other"
_FILES = Path(__file__).with_suffix("")
SCRIPT = _FILES.with_suffix(".js").read_text(encoding="utf-8")
STYLE = navigation.TEXT_STYLE.read_text(encoding="utf-8") + _FILES.with_suffix(".css").read_text(
    encoding="utf-8"
)


@dataclass(frozen=True)
class Part:
    """A piece of the component's data, as JSON, and the key by which the browser knows it."""

    key: str
    text: str

    @classmethod
    def of(cls, content: Any) -> Part:
        text = json.dumps(content, separators=(",", ":"))
        return cls(blake2b(text.encode(), digest_size=12).hexdigest(), text)


@dataclass(frozen=True)
class ShownRecord:
    """A record for the browser. ``places``: event → place of each of its characters in the browser,
    for the events where they differ; ``sentences``: the sentences of each event."""

    part: Part
    places: dict[int, NDArray[np.int64]]
    sentences: tuple[tuple[api.Sentence, ...], ...]

    def place(self, event: int, *characters: int) -> list[int]:
        """Places in the browser of characters of an event's text."""
        places = self.places.get(event)
        return list(characters) if places is None else [int(places[at]) for at in characters]


def _by_sentence(protocol: api.Protocol) -> api.Protocol:
    """Evidence is marked by sentence also where arms select events."""
    return dataclasses.replace(protocol, unit="sentence")


@cached(
    lambda choice: (choice.record.digest, repr(_by_sentence(choice.protocol))),
    entries=6,
    spinner="Preparing the record for reading",
    shared=True,
)
def shown_record(choice: Choice) -> ShownRecord:
    """The record's entries as columns for the browser."""
    events = choice.record.events
    sentences: list[list[api.Sentence]] = [[] for _ in events]
    for sentence in api.sentences(choice.record, _by_sentence(choice.protocol)):
        sentences[sentence.span.event].append(sentence)
    places: dict[int, NDArray[np.int64]] = {}
    shown = ShownRecord(Part("", ""), places, tuple(map(tuple, sentences)))
    texts: list[str] = []
    cuts: dict[int, list[int]] = {}
    headings: dict[int, list[list[int]]] = {}
    for number, event in enumerate(events):
        raw = api.event_text(event)
        text, changed = marks.for_browser(raw)
        if changed is not None:
            places[number] = changed
        texts.append(text)
        spans = [(s.span.start, s.span.end) for s in sentences[number]]
        if len(spans) != 1 or raw[slice(*spans[0])] != raw.strip():
            cuts[number] = shown.place(number, *(at for span in spans for at in span))
        if event.kind == "note" and ("**" in raw or "#" in raw):
            lines = ((line, marks.heading_in(raw, line)) for line in marks.lines_of(raw))
            headings[number] = [
                shown.place(number, *line, *words) for line, words in lines if words is not None
            ]
    names: dict[str, dict[str, int]] = {}

    def column(name: str, values: list[str]) -> list[int]:
        table = names.setdefault(name, {})
        return [table.setdefault(marks.for_terminal(value), len(table)) for value in values]

    group = {kind: label for label, kinds in KINDS for kind in kinds}
    order = [*(label for label, _ in KINDS), OTHER]
    content = {
        "group": [order.index(group.get(e.kind, OTHER)) for e in events],
        "kind": column("kinds", [model.kind_of(e) for e in events]),
        "title": column(
            "titles", [e.name or "Note" if e.kind == "note" else model.kind_of(e) for e in events]
        ),
        "author": column("authors", [e.author for e in events]),
        "note": [int(e.kind == "note") for e in events],
        "time": [model.when(e) if e.time else "" for e in events],
        "text": texts,
        "cuts": cuts,
        "headings": headings,
        "groups": order,
    }
    content |= {name: list(table) for name, table in names.items()}
    return dataclasses.replace(shown, part=Part.of(content))


def marks_part(
    choice: Choice, view: ArmView | None, views: Sequence[ArmView], pieces: Sequence[Piece]
) -> Part:
    """The marks of one arm, the exact evidence, and the entries to step over."""
    shown = shown_record(choice)
    gold, arms = model.gold_ids(pieces), model.arms_showing(views)
    by_event: dict[int, dict[str, api.Sentence]] = {}
    for sentence in (item.sentence for item in view.kept) if view else ():
        by_event.setdefault(sentence.span.event, {})[sentence.id] = sentence
    for event in {piece.event for piece in pieces}:
        by_event.setdefault(event, {}).update(
            (unit.id, unit)
            for unit in model.units(choice).by_event.get(event, ())
            if unit.id in gold
        )
    labels = {label: number for number, label in enumerate(marks.STYLE)}
    extras: dict[str, int] = {}
    flat: list[int] = []
    for event, units in sorted(by_event.items()) if view else ():
        for mark in model.marks_of(list(units.values()), view, gold, arms):
            extra = extras.setdefault(marks.for_terminal(mark.extra), len(extras))
            flat += event, *shown.place(event, mark.start, mark.end), labels[mark.label], extra
    return Part.of(
        {
            "marks": flat,
            "labels": [
                {"label": label, "style": marks.STYLE[label], "strength": marks.STRENGTH[label]}
                for label in labels
            ],
            "extras": list(extras),
            "exact": [
                at
                for piece in pieces
                for at in (piece.event, *shown.place(piece.event, piece.span.start, piece.span.end))
            ],
            "stops": _stops(pieces, view),
        }
    )


def _stops(pieces: Sequence[Piece], view: ArmView | None) -> list[int]:
    """The events to step over: those with evidence; without evidence, those the arm kept."""
    if pieces or view is None:
        return sorted({piece.event for piece in pieces})
    return sorted({k.sentence.span.event for k in view.kept})


def section(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The record, with the marks of one of the arms."""
    by_name = {view.name: view for view in model.with_selection(views)}
    view = None
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.markdown("**The chart**")
        if by_name:
            titles = {name: view.title for name, view in by_name.items()}
            name = segments(
                "Marks of", titles, "patient_marks", persist_state="page", wrap=True,
                label_visibility="collapsed", width="content",
            )  # fmt: skip
            view = by_name.get(name) or next(iter(by_name.values()))
    if view is not None:
        st.html(marks.block(marks.legend(choice.protocol.unit, bool(pieces))))
    event, _ = model.opened(choice)
    if event is None:
        event = model.first_event(pieces, view)
    if event is None:
        event = len(choice.record.events) - 1
    sent = st.session_state.setdefault(SENT, set())

    def part(one: Part) -> tuple[str, str | None]:
        text = None if one.key in sent else one.text
        sent.add(one.key)
        return one.key, text

    st.components.v2.component("record_view", js=SCRIPT, css=STYLE)(
        key=KEY,
        data={
            "record": part(shown_record(choice).part),
            "marks": part(marks_part(choice, view, views, pieces)),
            "open": event,
            "at": _mark_at(choice, event, pieces, view),
            "jump": f"{choice.instruction.id} {choice.record.digest} {model.times_opened()}",
            "opened": model.times_opened(),
            "marking": _marking(choice),
            "saved": st.session_state.get(SAVED, {}),
        },
        on_missing_change=_send_again,
        on_changes_change=save,
    )


def _mark_at(
    choice: Choice, event: int, pieces: Sequence[Piece], view: ArmView | None
) -> int | None:
    """Where in an entry, in the browser, the list opens: at the open sentence, else the evidence,
    else what the arm kept; None for its beginning."""
    _, opened = model.opened(choice)
    units = model.units(choice).by_event.get(event, [])
    starts = [unit.span.start for unit in units if unit.id == opened]
    starts += [piece.span.start for piece in pieces if piece.event == event]
    starts += [unit.span.start for unit in units if view and unit.id in view.ids]
    return shown_record(choice).place(event, starts[0])[0] if starts else None


def _send_again() -> None:
    """The browser does not have a part any more: it was reloaded, or it holds newer ones."""
    for key in st.session_state[KEY]["missing"]["keys"]:
        st.session_state.get(SENT, set()).discard(key)


def _marking(choice: Choice) -> dict[str, Any] | None:
    """What the annotator has marked; None where the question is not one that people keep."""
    if not is_own(choice):
        return None
    spans = marked_spans(choice, annotator())
    marked = [
        (event, number)
        for event in {span.event for span in spans}
        for number, sentence in enumerate(shown_record(choice).sentences[event])
        if any(sentence.span.overlaps(span) for span in spans)
    ]
    return {
        "context": marking_context(choice),
        "marked": marked,
        "problem": marks.for_terminal(st.session_state.pop(panel.REFUSED, "")),
    }


def marking_context(choice: Choice) -> str:
    """The name of a question, annotator and division into sentences, under which marks of the
    browser are saved; it stays known after the page has gone on to another question."""
    by = annotator()
    question = choice.cohort.path, choice.record.digest, choice.instruction.id
    context = Part.of([*question, by, repr(_by_sentence(choice.protocol))]).key
    contexts: dict[str, tuple[Choice, str]] = st.session_state.setdefault(CONTEXTS, {})
    contexts.pop(context, None)
    contexts[context] = choice, by
    while len(contexts) > MOST_CONTEXTS:
        del contexts[next(iter(contexts))]
    return context


def save() -> None:
    """Save what was marked and unmarked in the browser, each change once, in its order.

    The browser sends a change again until the number in ``SAVED`` has reached its id.
    """
    message = st.session_state[KEY]["changes"]
    saved: dict[str, int] = st.session_state.setdefault(SAVED, {})
    changes = [one for one in message["changes"] if one["id"] > saved.get(message["page"], 0)]
    for context, several in groupby(changes, itemgetter("context")):
        panel.attempt(_save, context, list(several))
    if changes:
        saved[message["page"]] = changes[-1]["id"]


def _save(context: str, changes: Sequence[Mapping[str, Any]]) -> None:
    """Save changes of one question and annotator; raises MidchartError."""
    if context not in st.session_state.get(CONTEXTS, {}):
        raise InputError("the last marks are not saved: the session has ended; mark them again")
    choice, by = st.session_state[CONTEXTS][context]
    sentences = shown_record(choice).sentences
    spans = list(marked_spans(choice, by))
    for change in changes:
        span = sentences[change["event"]][change["sentence"]].span
        if change["on"] != any(span.overlaps(other) for other in spans):
            spans = [other for other in spans if not span.overlaps(other)] + [span] * change["on"]
    api.mark_evidence(choice.cohort.path, choice.instruction.id, spans, by)


# Questions of people: keep, answer, withdraw. What answers and marks change on the rest of the page
# is shown when somebody asks for it.


PREFIX = "own-"
ANNOTATOR = "annotator"


def is_own(choice: Choice) -> bool:
    """Whether the question is one that people keep with the cohort."""
    return choice.instruction.id.startswith(PREFIX)


def own_question(choice: Choice) -> None:
    """Of a typed question the button that keeps it, of a kept one its answer and evidence; and how
    often the reader is wrong."""
    if is_own(choice):
        _edit(choice)
    elif choice.instruction.id.startswith("typed-"):
        _keep_button(choice)


def _keep_button(choice: Choice) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Keep this question", icon=":material/bookmark_add:", key="own_keep",
            on_click=_keep, args=(choice,), disabled=bool(lacking(api.keep_question)),
            help=lacking(api.keep_question) or None,
        )  # fmt: skip
        st.caption("Saved with the cohort: mark its evidence and answer, then runs judge by it.")
    if panel.REFUSED in st.session_state:
        panel.refusal()


def _keep(choice: Choice) -> None:
    asked = choice.cohort.path, choice.record.id, choice.instruction.question
    if id := panel.attempt(api.keep_question, *asked, annotator()):
        st.session_state["patient_question"] = id
        state.forget_cohorts()


def annotator() -> str:
    """The code of the person who marks; "" for the account."""
    return str(st.session_state.get(ANNOTATOR) or "")


@st.fragment
def _edit(choice: Choice) -> None:
    if st.session_state.pop("own_results", False):
        st.rerun(scope="app")
    question = api.own_question(choice.cohort.path, choice.instruction.id)
    with st.expander(
        "Your question: answer and evidence", icon=":material/edit_note:", expanded=True
    ):
        if problem := lacking(api.mark_evidence):
            st.caption(problem)
        try:
            _answer(choice, question)
            _actions(choice, question)
            _others(choice, question)
        except MidchartError as error:
            st.error(for_screen(str(error)))


def _own_answer(question: api.KeptQuestion, by: str) -> tuple[str, bool, tuple[api.Span, ...]]:
    """An annotator's answer, whether there is one in the chart, and the marked spans."""
    names = list(question.annotations)
    by = by or next((n for n in names if n == question.by), names[0] if names else "")
    annotation = question.annotations.get(by)
    return (
        (annotation.answer, annotation.documented, annotation.spans)
        if annotation
        else ("", True, ())
    )


def _answer(choice: Choice, question: api.KeptQuestion) -> None:
    answer, documented, _ = _own_answer(question, annotator())
    shown = for_terminal(answer)
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    with right:
        st.text_input(
            "Annotator", key=ANNOTATOR, max_chars=32, placeholder="your account",
            persist_state="session", help="A code such as 'reviewer-2' where several people mark.",
        )  # fmt: skip
    with left:
        absent = st.checkbox("Not documented in this chart", not documented, key=_key("none"))
        written = st.text_input(
            "Reference answer", shown, key=_key("answer"), max_chars=10_000, disabled=absent
        )
    text = answer if written == shown else written
    if absent == documented or (not absent and text.strip() != answer):
        api.answer_question(choice.cohort.path, question.id, text, not absent, annotator())
        state.forget_cohorts()
        st.rerun(scope="fragment")


def _key(name: str) -> str:
    return f"own_{name}_{annotator()}"


def marked_spans(choice: Choice, by: str) -> tuple[api.Span, ...]:
    """What an annotator has marked as the question's evidence."""
    return _own_answer(api.own_question(choice.cohort.path, choice.instruction.id), by)[2]


def _actions(choice: Choice, question: api.KeptQuestion) -> None:
    st.caption("Mark its evidence in the record below: click the sentences that hold it.")
    with st.container(horizontal=True):
        st.button(
            "Show what the arms kept of it", type="primary", key="own_show",
            icon=":material/refresh:", on_click=_show_results,
        )  # fmt: skip
        table = partial(api.questions_table, choice.cohort.path)
        label, mime = "Own questions (MedAlign TSV)", "text/tab-separated-values"
        download_button(label, "own_questions.tsv", mime, table)
        st.button(
            "Withdraw this question", type="tertiary", key="own_withdraw", on_click=_withdraw,
            args=(choice, question.id),
        )  # fmt: skip


def _withdraw(choice: Choice, id: str) -> None:
    panel.attempt(api.withdraw_question, choice.cohort.path, id, annotator())
    if panel.REFUSED not in st.session_state:
        st.session_state.pop("patient_question", None)
        _show_results()


def _show_results() -> None:
    state.forget_cohorts()
    st.session_state["own_results"] = True


def _others(choice: Choice, question: api.KeptQuestion) -> None:
    rows = [
        row
        for row in api.marking_agreement(choice.cohort.path, choice.protocol)
        if row["id"] == question.id
    ]
    by_id = {unit.id: unit for unit in api.sentences(choice.record, choice.protocol)}
    for row in rows:
        kappa = "not defined" if row["kappa"] is None else f"{row['kappa']:.2f}"
        st.markdown(
            for_screen(
                f"{row['first']} and {row['second']}: {row['both']} sentences marked by both, "
                f"{len(row['disagreements'])} by one only; Cohen's kappa {kappa}."
            )
        )
        for sentence in row["disagreements"]:
            st.caption(for_screen(f"Disagreement: {by_id[sentence].text[:300]}"))
