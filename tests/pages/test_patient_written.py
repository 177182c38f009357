"""The Patient page shows text written by an arm verbatim."""

from __future__ import annotations

from dataclasses import replace

from midchart.core.protocol import parse
from midchart.core.text import count_tokens
from midchart.core.text.prompt import build_prompt
from midchart.core.types import ContextLine, Kept, Selection, Sentence, Span
from midchart.pages.ui.patient.model import ArmView, kept_ids, size_words
from midchart.pages.ui.patient.prompts import budget_words, lines_html
from midchart.pages.ui.patient.screen import UNKNOWN

TEXTS = ["Dose of metformin is 500 mg", "No fever <b>today</b>", "Well in herself"]


def sentence(i: int) -> Sentence:
    text = TEXTS[i]
    return Sentence(f"e{i}", Span(i, 0, len(text)), None, "note", text, count_tokens(text))


def compressed() -> Selection:
    """Most of the first sentence, a little of the second, nothing of the third."""
    lines = (
        ContextLine("e0", "[undated] metformin is 500 mg", (Span(0, 8, 27),)),
        ContextLine("e1", "[undated] No", (Span(1, 0, 2),)),
    )
    selected = tuple(Kept(sentence(i), 0.5, "arm") for i in (0, 1))
    return Selection("p", "i", "llmlingua2", selected, 5, lines=lines)


def summaries() -> Selection:
    lines = (ContextLine("e0", "[undated] Takes <i>metformin</i>", ()),)
    return Selection("p", "i", "map_reduce", (), 5, lines=lines)


def seen(selection: Selection, window: int = 400) -> ArmView:
    prompt = build_prompt("Dose?", selection, parse(), window, count_tokens)
    return ArmView(selection.arm, "Arm", selection=selection, prompt=prompt)


def test_of_a_compressed_sentence_half_must_be_left_to_count_as_kept():
    assert kept_ids(compressed()) == {"e0"}
    assert kept_ids(replace(compressed(), lines=None)) == {"e0", "e1"}
    assert kept_ids(summaries()) == kept_ids(None) == frozenset()


def test_the_size_says_what_was_written():
    words = size_words(ArmView("x", "LLMLingua-2", compressed()), 3, 20, "sentence")
    assert words == "words of 2 of 3 sentences kept, 5 of 20 tokens"
    view = ArmView("x", "Map-reduce", summaries())
    assert (
        size_words(view, 3, 20, "sentence") == "1 summary in place of 3 sentences, 5 of 20 tokens"
    )
    assert view.summarised and "share of the evidence in a summary is unknown" in UNKNOWN


def test_the_context_is_what_the_reader_saw_and_nothing_in_it_is_markup():
    shown = lines_html(seen(compressed()), frozenset({"e0"}), ())
    assert "metformin is 500 mg" in shown and "Dose of metformin" not in shown
    assert ">kept evidence<" in shown and "today" not in shown
    html = lines_html(seen(summaries()), frozenset({"e0"}), ())
    assert "&lt;i&gt;metformin&lt;/i&gt;" in html and "<i>metformin" not in html
    assert "evidence" not in html
    assert "holds 1 of 1 kept lines" in budget_words(seen(summaries()))


def test_a_written_line_that_was_cut_is_marked():
    many = tuple(ContextLine(f"e{i}", f"[undated] line {i} of many", ()) for i in range(60))
    view = seen(replace(summaries(), lines=many), 400)
    assert view.prompt.cut
    html = lines_html(view, frozenset(), ())
    assert html.count('class="mc-lost"') == len(view.prompt.cut)
    assert f"holds {60 - len(view.prompt.cut)} of 60" in budget_words(view)
