"""A line's date is written in one form and read back by all that parse it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from midchart.core.judges.rules import failure_kind
from midchart.core.judges.values import single_value, take_dates
from midchart.core.protocol import Protocol
from midchart.core.readers.small import lines_of, sourced
from midchart.core.text import count_tokens
from midchart.core.text.prompt import (
    body,
    build_prompt,
    context_lines,
    dated,
    line_text,
    quoted,
    undated,
    without_date,
)
from midchart.core.types import Answer, ContextLine, Kept, Prompt, Selection, Sentence, Span

DAY, TIME = Protocol(line_time="day"), Protocol(line_time="time")
LINE = re.compile(r"\[(?:(\d\d\d\d)-(\d\d)-(\d\d)(?:T(\d\d):(\d\d))?|undated)\](?: (.*))?")
MOMENTS = st.none() | st.datetimes() | st.dates().map(lambda d: datetime.combine(d, time.min))
TEXTS = st.text() | st.sampled_from(
    ["[x] y", "] [2020-01-02] a", "[2020-01-02T03:04] b", "[undated] c", "d [2020-01-02]", "[", "]"]
)


def sentence(moment: datetime | None, text: str) -> Sentence:
    return Sentence("e0", Span(0, 0, len(text)), moment, "note", text, count_tokens(text))


@given(MOMENTS, TEXTS, st.sampled_from([DAY, TIME]))
@example(datetime(1, 2, 3, 4, 5), "a", TIME)
@example(datetime(33, 1, 1), "[a] b", TIME)
@example(datetime(476, 9, 4, 0, 0, 7), "a", TIME)
@example(None, "[2020-01-01T10:00] a", TIME)
@example(datetime(2020, 1, 1, 23, 59, 59, 999999), "a", TIME)
def test_what_a_line_says_of_time_and_text_is_read_back(moment, text, protocol):
    line = line_text(sentence(moment, text), protocol)
    plain_text = " ".join(text.split())
    match = LINE.fullmatch(line)
    assert match and (match[6] or "") == plain_text
    numbers = [int(part) for part in match.groups()[:5] if part]
    if moment is None:
        assert not numbers
    elif protocol is DAY or moment.time() == time.min:
        assert numbers == [moment.year, moment.month, moment.day]
    else:
        assert numbers == [moment.year, moment.month, moment.day, moment.hour, moment.minute]
    assert without_date(line) == body(ContextLine("e0", line)) == plain_text
    assert f"[{dated(line)}]" == line[: line.index("]") + 1]
    assert undated(quoted(plain_text, line)) == plain_text
    if moment is not None and plain_text:
        days, rest = take_dates(f"[{dated(line)}]")
        assert [(d.year, d.month, d.day) for d in days] == [(moment.year, moment.month, moment.day)]
        assert not any(map(str.isdigit, rest)), "a time of day is no quantity"


@pytest.mark.parametrize(
    ("moment", "says"),
    [
        (datetime(2020, 3, 4), "2020-03-04"),
        (datetime(2020, 3, 4, 0, 0, 1), "2020-03-04T00:00"),
        (datetime(2020, 3, 4, 0, 1), "2020-03-04T00:01"),
        (datetime(2020, 3, 4, 8, 30, 59), "2020-03-04T08:30"),
        (datetime(987, 3, 4, 23, 59), "0987-03-04T23:59"),
        (None, "undated"),
    ],
)
def test_seconds_are_left_out_and_midnight_is_a_day_alone(moment, says):
    assert line_text(sentence(moment, "a"), TIME) == f"[{says}] a"
    assert line_text(sentence(moment, "a"), DAY) == f"[{says.partition('T')[0]}] a"


def selection(*texts: str) -> Selection:
    lines = tuple(
        Kept(replace(sentence(datetime(2020, 1, 1 + i, 8, 30), t), id=f"e{i}"), None, "arm")
        for i, t in enumerate(texts)
    )
    return Selection("r", "i", "full", lines, sum(k.sentence.tokens for k in lines))


@pytest.mark.parametrize("protocol", [DAY, TIME])
def test_every_line_of_a_prompt_is_complete_until_it_is_cut(protocol):
    chosen = selection("[a] walks", "sodium 141 and more", "third")
    prompt = build_prompt("?", chosen, protocol, 10_000, count_tokens)
    assert not prompt.clipped
    for characters in range(1, sum(len(line.text) + 1 for line in context_lines(chosen, protocol))):
        cut = replace(protocol, full_characters=characters)
        prompt = build_prompt("?", chosen, cut, 10_000, count_tokens)
        context = "\n".join(line.text for line in context_lines(chosen, protocol))[:characters]
        parts = [part for part in context.split("\n") if part.partition("] ")[2]]
        complete_lines = {line.text for line in context_lines(chosen, protocol)}
        assert [line.text for line in prompt.context] == parts
        assert prompt.clipped == (not complete_lines.issuperset(parts))


def test_a_reader_that_quotes_moves_a_date_with_its_time_to_the_end():
    lines = context_lines(selection("Takes metformin 500 mg.", "Walks daily."), TIME)
    prompt = Prompt("p", "Which dose?", lines, 9)
    assert lines_of(prompt)[0] == "\n[2020-01-01T08:30] Takes metformin 500 mg."
    answer = sourced(Answer(lines_of(prompt)[0].lower()), prompt)
    assert answer.text == "Takes metformin 500 mg. [2020-01-01T08:30]"
    assert answer.sources == ("e0",) and single_value(answer.text) == "500 mg"


@pytest.mark.parametrize("date", ["2020-01-01", "2020-01-01T08:30", "undated"])
def test_the_date_of_a_line_is_no_part_of_a_wrong_answer(date):
    question, reference = "Which dose of metformin?", "500 mg"
    context = [f"[{date}] Takes metformin.", f"[{date}] Takes 81 mg aspirin."]

    def kind(answer: str) -> str:
        return failure_kind(question, answer, reference, context, quotes=True)

    for line in context:
        text = without_date(line)
        assert kind(line) == kind(quoted(text, line)) == kind(text)
    assert kind(quoted("Takes 81 mg aspirin.", context[1])) == "wrong value"
    assert failure_kind(question, context[0], reference, context) == "continuation"
