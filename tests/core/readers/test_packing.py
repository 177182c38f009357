"""The question is in every prompt, whatever the record contains and however short the window."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from midchart.core.errors import InputError
from midchart.core.protocol import parse
from midchart.core.text import count_tokens
from midchart.core.text.prompt import (
    build_prompt,
    context_lines,
    context_texts,
    quoted,
    undated,
    without_date,
)
from midchart.core.types import ContextLine, Kept, Selection, Sentence, Span


def selection(texts: list[str], arm: str = "bm25") -> Selection:
    lines = tuple(
        Kept(
            Sentence(
                f"e{i}",
                Span(i, 0, len(t)),
                datetime(2020, 1, 1 + i % 28),
                "note",
                t,
                count_tokens(t),
            ),
            float(i % 7),
            "arm" if i % 3 else "recency",
        )
        for i, t in enumerate(texts)
    )
    return Selection("r", "i", arm, lines, sum(k.sentence.tokens for k in lines))


EVENTS_FIRST = parse({"recency_rule": "events_first"})


def test_the_recency_buffer_is_dropped_before_selected_lines():
    texts = [f"word{i} " * 10 for i in range(9)]
    for window in (250, 330):
        prompt = build_prompt("why?", selection(texts), parse(), window, count_tokens)
        lost = {int(id[1:]) for id in prompt.cut}
        assert lost and (lost <= {0, 3, 6} or lost >= {0, 3, 6})


def test_the_lowest_scores_are_dropped_first():
    texts = [f"word{i} " * 10 for i in range(9)]
    prompt = build_prompt("why?", selection(texts), EVENTS_FIRST, 250, count_tokens)
    ids = {line.sentence_id for line in prompt.context}
    assert {"e0", "e3", "e6"} <= ids  # the recency lines
    assert prompt.cut
    cut_scores = [int(i[1:]) % 7 for i in prompt.cut]
    kept_scores = [int(i[1:]) % 7 for i in ids - {"e0", "e3", "e6"}]
    assert max(cut_scores) <= min(kept_scores, default=99)


def test_among_equal_scores_the_earlier_line_remains_and_of_the_buffer_the_later():
    texts = ["word " * 10] * 6
    same = selection(texts)
    for by, stays in (("arm", ["e0", "e1"]), ("recency", ["e4", "e5"])):
        lines = tuple(replace(one, score=1.0, kept_by=by) for one in same.kept)
        prompt = build_prompt("?", replace(same, kept=lines), parse(), 224, count_tokens)
        assert [line.sentence_id for line in prompt.context] == stays


@pytest.mark.parametrize(("side", "gone"), [("latest", "e0"), ("earliest", "e39")])
def test_full_keeps_the_side_that_the_protocol_names(side, gone):
    texts = [f"note number {i} " * 5 for i in range(40)]
    protocol = parse({"full_side": side})
    prompt = build_prompt("why?", selection(texts, "full"), protocol, 500, count_tokens)
    assert gone in prompt.cut
    assert prompt.question_survived


def windowed(texts: list[str], window: int) -> Selection:
    return replace(selection(texts, "full"), window=window)


def test_full_contexts_of_several_lengths_are_shown_with_each_other():
    texts = [f"note number {i} " * 5 for i in range(400)]
    shown = {}
    for window in (500, 2_000, 8_000):
        prompt = build_prompt(
            "why?", windowed(texts, window), parse("corrected"), 9_000, count_tokens
        )
        assert window - 200 < prompt.tokens + 128 <= window
        shown[window] = [line.sentence_id for line in prompt.context]
    assert shown[8_000][-len(shown[2_000]) :] == shown[2_000]
    assert shown[2_000][-len(shown[500]) :] == shown[500]


def test_a_reader_shorter_than_an_arms_window_is_reported_where_it_would_cut():
    texts = [f"note number {i} " * 5 for i in range(40)]
    prompt = build_prompt("why?", windowed(texts, 9_000), parse(), 5_000, count_tokens)
    assert not prompt.cut
    with pytest.raises(InputError, match="window of 9000 tokens and the reader one of 300"):
        build_prompt("why?", windowed(texts, 9_000), parse(), 300, count_tokens)


def test_the_published_full_context_is_clipped_at_its_characters_first():
    texts = [f"reading {i} was normal" for i in range(400)]
    protocol = parse({"full_characters": 1_000})
    prompt = build_prompt("Is it?", selection(texts, "full"), protocol, 100_000, count_tokens)
    everything = "\n".join(line.text for line in context_lines(selection(texts), parse()))
    assert "\n".join(line.text for line in prompt.context) == everything[:1_000]
    assert prompt.question_survived and prompt.cut[-1] == "e399"
    other = build_prompt("Is it?", selection(texts), protocol, 100_000, count_tokens)
    assert not other.cut
    # Clipped at 32,000 characters, a record seldom reaches the 16,384 tokens of the right cut.
    published = parse("published")
    both = build_prompt("Is it?", selection(texts * 9, "full"), published, 99_999, count_tokens)
    assert both.question_survived and both.cut


def test_a_partly_cut_line_names_the_remaining_part_of_the_record():
    texts = ["first  of\nall", "a b\u00ad  c <|im_end|> and more", "never seen"]
    line = context_lines(selection(texts), parse())[1].text
    for left in range(len(line) + 1):
        characters = len(context_lines(selection(texts), parse())[0].text) + 1 + left
        protocol = parse({"full_characters": characters})
        prompt = build_prompt("?", selection(texts, "full"), protocol, 10_000, len)
        shown = {one.sentence_id: one for one in prompt.context}
        visible = line[:left].partition("] ")[2].replace(" ", "")
        assert ("e1" in shown) == bool(visible)
        if visible and left < len(line):
            (span,) = shown["e1"].shown
            piece = texts[1][span.start : span.end]
            assert "".join(piece.split()).replace("<", "‹") == visible
        elif visible:
            assert shown["e1"].shown is None


def test_text_written_by_an_arm_replaces_its_sentences_and_is_dropped_by_side():
    written = tuple(ContextLine(f"e{i}", f"[2020-01-01] summary\n{i} </s>", ()) for i in range(20))
    chosen = replace(selection(["the sentence itself"], "map_reduce"), lines=written)
    prompt = build_prompt("why?", chosen, parse({"full_side": "latest"}), 290, count_tokens)
    assert prompt.context[-1].text == "[2020-01-01] summary 19 ‹/s>"
    assert prompt.cut[0] == "e0" and "itself" not in prompt.text
    assert context_texts(chosen)[3] == "summary\n3 </s>"


def test_a_question_too_long_for_the_window_is_refused():
    with pytest.raises(InputError, match="no place for it"):
        build_prompt("why " * 500, selection(["a"]), parse("corrected"), 300, count_tokens)


def test_a_quote_has_its_lines_date_last_and_loses_no_more_than_that():
    for line, says, complete in (
        ("[2014-05-01] Sodium [serum]: 141", "Sodium [serum]: 141", " [2014-05-01]"),
        ("[undated] Walks [a lot]", "Walks [a lot]", " [undated]"),
    ):
        assert without_date(line) == says
        assert quoted(says, line) == says + complete
        assert undated(quoted(says, line)) == says
        assert undated(says) == says
