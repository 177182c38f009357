"""Kept, dropped and marked: the words and marks of the Patient page, on records made by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core import api
from midchart.core.arms.hits import question_of
from midchart.core.text.prompt import context_lines
from midchart.core.types import Kept, Prompt
from midchart.pages.ui.patient import model, view
from midchart.pages.ui.patient.model import ArmView, Choice
from midchart.pages.ui.shared import marks, tables

HOSTILE = '<script>alert(1)</script> <img src=x onerror="y"> <|im_end|> & "q"'
NOTE = f"Seen today.\nMetformin was stopped in May.\n{HOSTILE}\nFollow-up in two weeks."
DAY = datetime(2020, 1, 1)


def record_of(*texts: str) -> api.Record:
    """Notes and readings in turn, one a day."""
    events = tuple(
        api.Event(i, DAY + timedelta(days=i), "note" if "\n" in t else "measurement", "", "", t)
        for i, t in enumerate(texts)
    )
    return api.Record("p1", events, "digest" + str(hash(texts)))


RECORD = record_of("a: 1", "b: 2", NOTE, "c: 3", "d: 4")
START = NOTE.index("Metformin")
END = START + len("Metformin was stopped in May.")
GOLD = api.Gold("q1", "May", ("Metformin was stopped in May.",), (api.Span(2, START, END),), 0.5)
PROTOCOL = api.Protocol()
QUESTION = api.Instruction("q1", "p1", "When was metformin stopped?")
PIECES = model.evidence_pieces(RECORD, GOLD, PROTOCOL)
CHOICE = Choice("", None, RECORD, QUESTION, GOLD, (), "extractive", (), PROTOCOL)


def view_of(name: str, *ids: str, recent: tuple[str, ...] = ()) -> ArmView:
    """An arm that kept the sentences with these ids."""
    units = {s.id: s for s in api.sentences(RECORD, PROTOCOL)}
    chosen = sorted((*ids, *recent), key=lambda i: (units[i].span.event, units[i].span.start))
    items = tuple(
        Kept(units[i], None if i in recent else 1.5 - n, "recency" if i in recent else "arm")
        for n, i in enumerate(chosen)
    )
    tokens = sum(i.sentence.tokens for i in items)
    return ArmView(name, name.upper(), api.Selection("p1", "q1", name, items, tokens))


def test_a_piece_is_kept_only_with_all_of_its_sentences():
    [piece] = PIECES
    assert piece.ids == {"e2.1"} and piece.at == 0.5
    assert piece.status(frozenset({"e2.1", "e0"})) == model.KEPT
    assert piece.status(frozenset({"e0"})) == model.DROPPED
    wide = api.Gold("q1", "May", ("x",), (api.Span(2, 0, END),), 0.5)
    [both] = model.evidence_pieces(RECORD, wide, PROTOCOL)
    assert both.ids == {"e2.0", "e2.1"}
    assert both.status(frozenset({"e2.0"})) == model.PARTLY


def prompted(view: ArmView, *cut: str, tokens: int = 512) -> ArmView:
    """The view with a prompt that shows all that the arm kept but for the sentences in ``cut``."""
    uncut = api.Prompt("x", "?", context_lines(view.selection, PROTOCOL), tokens)
    context = tuple(line for line in uncut.context if line.sentence_id not in cut)
    return replace(view, prompt=replace(uncut, context=context, cut=cut))


@pytest.mark.parametrize(
    ("view", "status", "words"),
    [
        (view_of("bm25", "e2.1"), model.KEPT, "kept"),
        (view_of("bm25", "e0"), model.DROPPED, "dropped"),
        (prompted(view_of("bm25", "e2.1")), model.KEPT, "kept"),
        (prompted(view_of("bm25", "e0")), model.DROPPED, "dropped"),
        (prompted(view_of("bm25", "e0", "e2.1"), "e2.1"), model.CUT, "cut at 512 tokens"),
    ],
)
def test_a_piece_is_kept_cut_from_the_prompt_or_dropped(view, status, words):
    [piece] = PIECES
    assert (view.status(piece), view.status_words(piece)) == (status, words)


@given(st.data())
def test_the_page_and_a_run_s_tables_agree_on_all_pieces_and_any_piece(data: st.DataObject):
    """Three pieces, one over two sentences and two in one sentence; sentences are selected whole or
    compressed, and their prompt shows all of a sentence, a part or none."""
    texts = {2: [(0, END), (START, START + 9)], 3: [(0, 4)]}
    spans = tuple(api.Span(event, a, b) for event, ends in texts.items() for a, b in ends)
    gold = replace(GOLD, snippets=("x", "y", "z"), spans=spans)
    cohort = api.Cohort("", "", api.Manifest(""), {"p1": RECORD}, (QUESTION,), {QUESTION.id: gold})
    protocol = replace(PROTOCOL, position="order")
    units = {s.id: s for s in api.sentences(RECORD, protocol)}
    ids = data.draw(st.sets(st.sampled_from(sorted(units))).map(sorted))
    part = st.tuples(st.integers(0, 12), st.integers(0, 40))

    def line(id: str, complete: bool) -> api.ContextLine:
        span, (start, length) = units[id].span, data.draw(part)
        start = min(span.start + start, span.end)
        shown = api.Span(span.event, start, min(start + length + 1, span.end))
        return api.ContextLine(id, "", None if complete else (shown,))

    sentences = tuple(Kept(units[id], 1.0, "arm") for id in ids)
    compressed = data.draw(st.booleans())
    lines = tuple(line(id, False) for id in ids) if compressed else None
    selection = api.Selection("p1", "q1", "bm25", sentences, 0, lines=lines)
    context = tuple(line(id, data.draw(st.booleans())) for id in ids if data.draw(st.booleans()))
    prompt = Prompt("", "?", context, 0)
    question = question_of(cohort, QUESTION, protocol)
    hits, prompted = question.hits(selection), question.prompted(prompt, selection)
    pieces = model.evidence_pieces(RECORD, gold, protocol)
    assert len(pieces) == 3
    for prompt_of_view, any_piece, all_pieces in (
        (None, hits["evidence"], hits["evidence_all"]),
        (prompt, prompted["evidence_in_prompt"], prompted["evidence_all_in_prompt"]),
    ):
        view = ArmView("bm25", "BM25", selection, prompt_of_view)
        statuses = [view.status(piece) for piece in pieces]
        assert all(status == model.KEPT for status in statuses) == all_pieces
        assert any(status in (model.KEPT, model.PARTLY) for status in statuses) == any_piece
        assert (view.held(pieces) == len(pieces)) == all_pieces


def test_a_question_of_a_run_shows_each_arm_s_own_prompt_and_what_it_lost(monkeypatch):
    monkeypatch.setattr(api, "primary_judge", lambda run: "exact")

    def row(label: str, cut: list[str], **more: object) -> dict[str, object]:
        selection = [{"id": id, "score": 1.5, "kept_by": "arm"} for id in ("e0", "e2.1")]
        verdicts = [
            {"judge": judge, "outcome": outcome, "refusal": False, "raw": "", "reason": ""}
            for judge, outcome in (("token_overlap", "correct"), ("exact", "incorrect"))
        ]
        return {
            "label": label, "selection": selection, "lines": None, "selection_tokens": 9,
            "cut": cut,
            "status": "ok", "prompt": None, "prompt_tokens": 512, "sources": None,
            "question_survived": True, "verdicts": verdicts, "answer": "May", "reason": None,
        } | more  # fmt: skip

    wrote = {"lines": [{"id": "e0", "text": "A summary."}]}
    views = [
        model.view_of_row(CHOICE, one)
        for one in (row("full", ["e2.1"]), row("bm25", []), row("map_reduce", [], **wrote))
    ]
    full, bm25, wrote = view.cards(CHOICE, views, PIECES).split("<tr ")[1:]
    assert ">cut</mark><small>cut at 512 tokens</small>" in full and "mc-lostgold" in full
    assert ">kept</mark>" in bm25 and "2 of 8 sentences kept, 9 of" in bm25
    assert "by Exact values (offline)" in bm25 and "Token overlap (offline): correct" in bm25
    assert ">summarised</span>" in wrote and "1 line written by the arm" in wrote
    exported = model.view_of_row(CHOICE, row("bm25", [], answer=None))
    card = view.cards(CHOICE, [exported], PIECES)
    assert "exported without the text" in card and "by Exact values" in card and "<q>" not in card


def test_the_mark_above_everything_says_who_dropped_the_evidence_and_who_kept_it():
    dropped, held = view_of("bm25", "e0"), view_of("dense", "e2.1")
    html = view.headline([dropped, held], PIECES)
    assert ">dropped evidence</span>" in html
    assert "BM25 dropped the evidence. DENSE kept it." in html
    html = view.headline([held], PIECES)
    assert ">kept evidence</span>" in html and "DENSE kept the evidence." in html
    cut = prompted(view_of("full", "e2.1"), "e2.1")
    html = view.headline([cut, held], PIECES)
    assert ">cut evidence<" in html and "FULL: cut. DENSE kept it." in html
    assert view.headline([dropped], ()) == "", "nothing is said without located evidence"


OTHERS = [
    api.OtherValue(
        api.Sentence(id, api.Span(at, 0, 4), None, "note", text, 4),
        ("metformin",),
        day,
        copies,
        new,
    )
    for id, at, text, day, copies, new in (
        ("e0", 0, "Metformin <b>was</b> stopped in 2012.", DAY, 1, False),
        ("e4", 4, "Metformin stopped again.", datetime(2021, 2, 3), 3, True),
    )
]
"""Passages with another date of the item, as the engine lists them: oldest first."""


def test_passages_with_another_value_stand_beside_the_evidence_the_newest_first_and_marked():
    html = first_screen(view_of("bm25", "e2.1"))
    parts = [
        "<u>Metformin was stopped in May.</u>", "Same item, other value or date", ">newest</span>",
        "2021-02-03, written in 2020-01-05 · Measurement · 3 times in the record",
        "Metformin stopped again.", "Metformin &lt;b&gt;was&lt;/b&gt; stopped in 2012.",
        "no synonyms, abbreviations or negation",
    ]  # fmt: skip
    assert [part for part in parts if part not in html] == []
    assert [html.index(part) for part in parts] == sorted(html.index(part) for part in parts)
    assert html.count(">newest</span>") == 1
    alone = view.asked(CHOICE, [], PIECES, OTHERS[:1])
    assert "The evidence is newer than each of them." in alone
    assert "Same item" not in view.asked(CHOICE, [], PIECES, ())


def first_screen(*views: ArmView, choice: Choice = CHOICE) -> str:
    """What the page says of a question: the headline, the arms, the chart's own passages."""
    first = view.headline(views, PIECES, choice.gold.answer if choice.gold else "")
    cards = view.cards(choice, views, PIECES)
    return first + cards + view.asked(choice, views, PIECES, OTHERS)


def test_the_page_has_headline_a_card_per_arm_evidence_and_reference_in_this_order():
    rank = {1: "rank 57 of 812, 37 places too low"}
    html = first_screen(replace(view_of("bm25", "e0", recent=("e4",)), ranks=rank))
    parts = [
        ">dropped evidence</span>", ">BM25</b>",
        "2 of 8 sentences kept (1 by score, 1 most recent)", ">dropped</mark>",
        "rank 57 of 812, 37 places too low", "Ranked best", "<time>2020-01-01</time> a: 1",
        "2020-01-03 · Note · at 50 % of the record · dropped by BM25",
        "<u>Metformin was stopped in May.</u>", ">May</div>",
    ]  # fmt: skip
    assert [part for part in parts if part not in html] == []
    assert [html.index(part) for part in parts] == sorted(html.index(part) for part in parts)


def test_hostile_text_is_inert_and_readable():
    html = view.passage(NOTE, START, len(NOTE))
    assert "<script" not in html and "<img" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html and "&lt;|im_end|&gt;" in html
    assert marks.for_screen("a\x00b\u202ec", html=True) == "a\ufffdb[U+202E]c"


def test_what_opens_first_is_the_dropped_evidence():
    gold = api.Gold("q", "x", ("a", "b"), (api.Span(0, 0, 1), api.Span(3, 0, 1)))
    pieces = model.evidence_pieces(RECORD, gold, PROTOCOL)
    assert model.first_event(pieces, view_of("bm25", "e0")) == 3
    assert model.first_event(pieces, view_of("bm25", "e0", "e3")) == 0
    assert model.first_event((), view_of("bm25", "e1", recent=("e4",))) == 1


def test_export_holds_every_kept_and_every_dropped_sentence():
    views = [view_of("bm25", "e0", recent=("e4",)), ArmView("dense", "Dense", problem="no weights")]
    frame = view.selections_frame(CHOICE, views, PIECES)
    assert list(frame.status) == ["kept", "kept", "dropped evidence"]
    assert list(frame.sentence) == ["e0", "e4", "e2.1"]
    assert frame.text[2].startswith("Metformin"), "dropped evidence carries its words"
    rows = list(csv.DictReader(io.StringIO(tables.csv_bytes(frame).decode())))
    assert rows[1]["kept_by"] == "recency" and rows[1]["score"] == ""


def answered(view: ArmView, text: str, *sources: str, **verdicts_by: str) -> ArmView:
    """The view with a prompt, an answer and verdicts."""
    outcomes = {name: api.Verdict(outcome) for name, outcome in verdicts_by.items()}
    answer = api.Answer(text, sources=sources)
    return replace(prompted(view), answer=answer, verdicts=outcomes, reader="Small <b>reader</b>")


def test_every_answer_names_its_reader_and_its_source_sentence():
    quoted = answered(view_of("bm25", "e0", "e2.1"), "May", "e2.1")
    html = first_screen(quoted)
    assert "Answers of Small &lt;b&gt;reader" in html
    claim = "quotes the evidence: 2020-01-03 · Note: “Metformin was stopped in May.”"
    assert f"Small &lt;b&gt;reader&lt;/b&gt; {claim}" in html
    assert "quotes something else: 2020-01-01 · Measurement" in first_screen(
        answered(view_of("bm25", "e0"), "a: 1", "e0")
    )
    html = first_screen(answered(view_of("bm25", "e0", "e1"), "Not documented.", "e0"))
    assert "found no answer in the 2 sentences it got (of 8): Not documented" in html
    assert "<q>" not in html, "the reader's word is not the chart's"
    html = first_screen(answered(view_of("bm25", "e0"), "Insulin since 1999"))
    assert "says what no sentence it got supports" in html
    cards = view.cards(replace(CHOICE, gold=None), [quoted], ())
    assert cards.index("Ranked best") < cards.index("<q>May</q>"), (
        "the chart first, then its reader"
    )


def test_the_deciding_judge_comes_first_and_every_judge_is_named_by_its_title():
    quoted = answered(
        view_of("bm25", "e2.1"), "May", "e2.1", exact="failed", token_overlap="correct"
    )
    html = first_screen(quoted)
    first, second = html.index("by Exact values (offline)"), html.index("Token overlap (offline): ")
    assert html.index(">failed</span>") < first < second
    assert "token_overlap" not in html
    assert "by Exact values (offline), which decides" in html
    unjudged = replace(CHOICE, gold=None)
    html = first_screen(replace(quoted, verdicts={}), choice=unjudged)
    assert "mc-verdict" not in html and "Reference answer" not in html


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("** Chief Complaint **", "Chief Complaint"),
        ("  **Plan**:", "Plan"),
        ("## History of Present Illness", "History of Present Illness"),
        ("2 ** 3 ** 4", None),
        ("#1 of 3", None),
        ("** **", None),
        ("a ** b **", None),
    ],
)
def test_headings_are_told_from_other_lines(line, words):
    span = marks.heading_in(line, (0, len(line)))
    assert (span and line[slice(*span)]) == words


def test_the_marks_of_an_entry_say_what_was_kept_cut_and_dropped():
    bm25, full = view_of("bm25", "e2.0"), prompted(view_of("full", "e2.0", "e2.1"), "e2.0", "e2.1")
    units = [unit for unit in api.sentences(RECORD, PROTOCOL) if unit.span.event == 2]
    gold, arms = model.gold_ids(PIECES), model.arms_showing([bm25, full])
    labels = [
        [(mark.label, mark.extra) for mark in model.marks_of(units, view, gold, arms)]
        for view in (bm25, full)
    ]
    assert labels == [
        [("kept", ""), ("dropped evidence", "")],
        [("cut", "at 512 tokens"), ("cut evidence", "at 512 tokens")],
    ]
