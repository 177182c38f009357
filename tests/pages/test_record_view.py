"""What the reading view gives to the browser: entries, places of characters, marks, and saving."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import streamlit as st
from hypothesis import given
from hypothesis import strategies as strategy

from midchart.core import api
from midchart.core.types import Kept
from midchart.pages.ui.patient import model, record_view
from midchart.pages.ui.patient.model import ArmView, Choice
from midchart.pages.ui.shared import marks
from tests.support.pages import page_at
from tests.support.patient_cohort import FIRST, make

pytestmark = pytest.mark.slow

ODD = "Start\r\n** Plan **\n\U0001f600 Metformin\u200b was stopped. Next visit in May.\x07"


def in_browser(text: str, start: int, end: int) -> str:
    """Characters of a text as a script in a browser cuts them: by UTF-16 unit."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass")


def choice_of(text: str, start: int, end: int) -> Choice:
    """A record of one reading and one note, with evidence in the note."""
    events = (
        api.Event(0, datetime(2020, 1, 1), "measurement", "", "Sodium", "140", "mmol/L"),
        api.Event(1, datetime(2020, 1, 2, 9, 30), "note", "", "Visit\u202e note", text),
    )
    record = api.Record("p1", events, f"digest of {text}")
    gold = api.Gold("q1", "May", (text[start:end],), (api.Span(1, start, end),), 0.5)
    question = api.Instruction("q1", "p1", "When?")
    return Choice("", None, record, question, gold, (), "extractive", (), api.Protocol())


@given(strategy.text(alphabet="ab\r\n\x07\u200b\U0001f600\ud800é", max_size=30), strategy.data())
def test_places_in_the_browser_are_those_of_the_same_characters(text, data):
    shown, places = marks.for_browser(text)
    assert shown == marks.for_terminal(text.replace("\r\n", "\n"))
    at = data.draw(strategy.integers(0, len(text)))
    if text[at - 1 : at + 1] == "\r\n":
        return  # one character there
    place = at if places is None else int(places[at])
    assert in_browser(shown, 0, place) == marks.for_terminal(text[:at].replace("\r\n", "\n"))


def test_entries_sentences_headings_and_marks_have_their_places_in_the_browser():
    start = ODD.index("Metformin")
    end = ODD.index(" Next")
    choice = choice_of(ODD, start, end)
    record = json.loads(record_view.shown_record(choice).part.text)
    assert record["text"][0] == "Sodium: 140 mmol/L" and "0" not in record["cuts"]
    text = record["text"][1]
    assert "[U+200B]" in text and "\r" not in text and text.endswith("\N{REPLACEMENT CHARACTER}")
    cuts = record["cuts"]["1"]
    cut = [in_browser(text, *pair) for pair in zip(cuts[::2], cuts[1::2], strict=True)]
    assert "Next visit in May.\N{REPLACEMENT CHARACTER}" in cut
    [heading] = record["headings"]["1"]
    assert in_browser(text, *heading[2:]) == "Plan"
    assert record["titles"][record["title"][1]] == "Visit[U+202E] note"
    assert record["time"] == ["2020-01-01", "2020-01-02 09:30"]

    pieces = model.evidence_pieces(choice.record, choice.gold, choice.protocol)
    [sentence] = [s for s in api.sentences(choice.record, choice.protocol) if s.id in pieces[0].ids]
    for items, label in (
        ((Kept(sentence, 1.0, "arm"),), "kept evidence"),
        ((), "dropped evidence"),
    ):
        view = ArmView("bm25", "BM25", api.Selection("p1", "q1", "bm25", items, 1))
        content = json.loads(record_view.marks_part(choice, view, [view], pieces).text)
        event, low, high, number, _ = content["marks"]
        assert event == 1 and content["labels"][number]["label"] == label
        assert in_browser(text, low, high).endswith("Metformin[U+200B] was stopped.")
        assert in_browser(text, *content["exact"][1:]) == "Metformin[U+200B] was stopped."


@pytest.fixture
def own_choice(tmp_path, monkeypatch):
    """A kept question of the cohort by hand, and the session state of its page."""
    cohort = api.open_data(make(tmp_path / "hand"))
    id = api.keep_question(cohort.path, "9001", "What did it show?")
    cohort = api.open_data(cohort.path)
    monkeypatch.setattr(st, "session_state", {})
    return Choice(
        "", cohort, cohort.records["9001"], api.instruction_for(cohort, id), None, (), "", (),
        api.Protocol(),
    )  # fmt: skip


def marked(choice: Choice) -> list[str]:
    """The texts marked as evidence of the question."""
    question = api.own_question(choice.cohort.path, choice.instruction.id)
    return [text for annotation in question.annotations.values() for text in annotation.texts]


def save(context: str, *changes: tuple[int, int, int, bool], page: str = "1-2") -> None:
    """Send changes, each of an id, event, sentence, and whether it is marked, as a browser does."""
    fields = ("id", "event", "sentence", "on")
    sent = [dict(zip(fields, change, strict=True), context=context) for change in changes]
    st.session_state[record_view.KEY] = {"changes": {"page": page, "changes": sent}}
    record_view.save()


def test_changes_are_saved_once_and_in_their_order_however_often_they_are_sent(own_choice):
    sentences = record_view.shown_record(own_choice).sentences[20]
    [number] = [i for i, sentence in enumerate(sentences) if sentence.text == FIRST]
    context = record_view.marking_context(own_choice)
    on, off, first = (1, 20, number, True), (2, 20, number, False), (3, 20, 0, True)
    save(context, on)
    assert marked(own_choice) == [FIRST]
    save(context, on, off, first)
    assert marked(own_choice) == ["Seen for follow-up."]
    lines = (Path(own_choice.cohort.path) / "midchart.questions").read_text()
    save(context, on, off, first)
    save(context, on)  # a late copy of an older message
    assert (Path(own_choice.cohort.path) / "midchart.questions").read_text() == lines
    save(context, on, page="3-4")  # the page was loaded again, and counts anew
    assert marked(own_choice) == ["Seen for follow-up.", FIRST]
    assert st.session_state[record_view.SAVED] == {"1-2": 3, "3-4": 1}


def test_changes_are_saved_for_the_question_and_annotator_they_were_made_for(own_choice):
    context = record_view.marking_context(own_choice)
    id = api.keep_question(own_choice.cohort.path, "9001", "Another?")
    other = replace(own_choice, instruction=replace(own_choice.instruction, id=id))
    st.session_state[record_view.ANNOTATOR] = "ann"
    as_ann = record_view.marking_context(other)
    save(context, (1, 20, 0, True))
    save(as_ann, (2, 20, 1, True))
    assert (len(marked(own_choice)), len(marked(other))) == (1, 1)
    assert list(api.own_question(other.cohort.path, id).annotations) == ["ann"]


def test_the_record_is_sent_once(patient_page):
    def parts(app):
        sent = [json.loads(one.proto.json or "{}") for one in app.get("bidi_component")]
        [data] = [one for one in sent if "record" in one]
        return data["record"], data["marks"], data

    app = patient_page.run()
    assert not app.exception
    record, shown, data = parts(app)
    assert FIRST in record[1] and shown[1] and data["marking"] is None
    assert data["open"] == 20, "the first piece of evidence that the arm dropped, or the first"
    again, same, _ = parts(app.run())
    assert again == [record[0], None] and same == [shown[0], None]
    app.segmented_control(key="patient_marks").set_value("recency").run()
    again, other, _ = parts(app)
    assert again[1] is None and other[1] and "dropped evidence" in other[1]
    assert not page_at("patient").run().exception
