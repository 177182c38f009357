"""Map-reduce passes all of the record to the model and always keeps the question."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.arms import ARMS
from midchart.core.arms.map_reduce import FOLD, SUMMARISE
from midchart.core.errors import InputError, WorkFailed
from midchart.core.protocol import Protocol, parse
from midchart.core.text import count_tokens
from midchart.core.text.prompt import build_prompt
from midchart.core.types import Budget, Instruction, Record
from tests.support.charts import chart
from tests.support.writers import GroupWriter, Writer

QUESTION = Instruction("i1", "p1", "What dose of metformin does the patient take?")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    return tmp_path


def readings(n: int) -> Record:
    return chart(*(f"reading{i} was {i % 7} of 10 units on the ward" for i in range(n)))


def summarise(record: Record, reader: Writer, protocol: Protocol | None = None, **budget):
    arm = ARMS.build("map_reduce", protocol or Protocol(), reader=reader)
    return arm.select(record, QUESTION, Budget(**budget))


def prompt_of(selection, reader: Writer, protocol: Protocol | None = None):
    protocol = protocol or Protocol()
    return build_prompt(QUESTION.question, selection, protocol, reader.window, reader.count_tokens)


def facts(selection) -> dict[str, int]:
    return {name: int(value) for name, value in selection.trace if value.isdigit()}


def test_every_thirty_events_are_summarised_and_no_sentence_is_verbatim():
    reader = Writer()
    selection = summarise(readings(70), reader)
    assert [line.sentence_id for line in selection.lines] == ["e0", "e30", "e60"]
    assert selection.lines[1].text.startswith("[2015-01-31 to 2015-03-01] reading30 was 2 of")
    assert all(line.shown == () for line in selection.lines)
    assert selection.kept == ()
    trace = facts(selection)
    assert (trace["chunks"], trace["summaries asked for"], trace["times folded"]) == (3, 3, 0)
    assert trace["tokens read for summaries"] == sum(p.tokens for p in reader.prompts)
    assert trace["tokens of summaries written"] == selection.tokens == 36
    assert all(p.question == SUMMARISE for p in reader.prompts)
    assert not prompt_of(selection, reader).cut


@pytest.mark.parametrize("unit", ["sentence", "event"])
def test_no_word_of_a_chunk_too_long_for_the_window_is_lost(unit):
    texts = [f"note{i} " + " ".join(f"w{i}x{j}" for j in range(40 * (i % 5))) for i in range(35)]
    texts[7] = "giant " + " ".join(f"g{j}" for j in range(2500))
    texts[8] = "".join(f"y{i:04d}" for i in range(600))  # one word
    reader = Writer(window=600)
    reader.count_tokens = lambda text: max(count_tokens(text), len(text) // 5)
    summarise(chart(*texts, kind="note"), reader, parse({"unit": unit}))
    seen = Counter(
        word
        for prompt in reader.prompts
        if prompt.question == SUMMARISE
        for line in prompt.context
        for word in line.text.split()[1:]
    )
    words = Counter(word for text in texts for word in text.split())
    pieces = {word: n for word, n in seen.items() if re.fullmatch(r"[y0-9]+", word)}
    assert words - seen == Counter([texts[8]]) and seen - words == Counter(pieces)
    assert sum(len(word) * n for word, n in pieces.items()) == 3000
    assert all(not prompt.cut for prompt in reader.prompts)


def test_the_published_variant_loses_the_question_at_fifty_chunks_and_the_corrected_one_does_not():
    record, reader = readings(1500), Writer(window=32_768, words=90)
    published = parse("published")
    flat = summarise(record, reader, published)
    assert (facts(flat)["chunks"], facts(flat)["times folded"]) == (50, 0)
    assert not prompt_of(flat, reader, published).question_survived
    for protocol in (
        parse({"preset": "published", "map_reduce": "folded"}),
        parse({"preset": "published", "truncation": "context"}),
        parse(),
    ):
        prompt = prompt_of(summarise(record, reader, protocol), reader, protocol)
        assert prompt.question_survived


def test_a_summary_is_generated_only_once():
    record = readings(100)
    first = Writer(identity="weights-1")
    selection = summarise(record, first)
    again = Writer(identity="weights-1")
    arm = ARMS.build("map_reduce", Protocol(), reader=again)
    assert arm.select(record, QUESTION, Budget()) == selection
    other = Instruction("i2", "p1", "Which ward?")
    assert arm.select(record, other, Budget()).lines == selection.lines
    assert (len(first.prompts), len(again.prompts)) == (4, 0)
    for stranger, protocol in (
        (Writer(identity="weights-2"), Protocol()),
        (Writer(identity="weights-1"), parse({"answer_tokens": 64})),
        (Writer(identity=""), Protocol()),
        (Writer(identity=""), Protocol()),
    ):
        summarise(record, stranger, protocol)
        assert len(stranger.prompts) == 4


@pytest.mark.parametrize("make", [Writer, GroupWriter])
def test_failed_summaries_are_reported_and_the_others_used(make):
    record = readings(100)
    with pytest.raises(WorkFailed, match="1 of 4 summaries failed: it would not"):
        summarise(record, make(identity="w", fails_on="reading45 "))
    after = make(identity="w")
    assert len(summarise(record, after).lines) == 4
    assert len(after.prompts) == 1


def test_summaries_are_folded_to_the_token_budget_and_the_excess_counted():
    reader = Writer()
    assert summarise(readings(100), reader).tokens == 48
    half = summarise(readings(100), reader, tokens=30)
    assert (half.tokens, half.cut, facts(half)["times folded"]) == (24, 0, 1)
    none = summarise(readings(100), reader, tokens=5)
    assert (none.lines, none.tokens, none.cut) == ((), 0, 1)
    assert any(p.question == FOLD for p in reader.prompts)


def test_a_reader_that_cannot_write_is_refused():
    with pytest.raises(InputError, match="works with a reader that writes"):
        ARMS.build("map_reduce", Protocol())
    reader = Writer()
    reader.generative = False
    with pytest.raises(InputError, match="cannot summarise"):
        ARMS.build("map_reduce", Protocol(), reader=reader)
    for events in (0, -1, True, 2.5):
        with pytest.raises(InputError, match="whole number from 1"):
            ARMS.build("map_reduce", Protocol(), reader=Writer(), events=events)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["fever", "x" * 300, "a b " * 60, "<|im_end|>", "\n\nQUESTION: z", ""]),
        max_size=90,
    ),
    st.integers(200, 900),
    st.integers(0, 60),
    st.sampled_from(["sentence", "event"]),
)
def test_for_any_record_the_question_survives_or_a_reason_is_given(texts, window, words, unit):
    reader = Writer(window, words)
    reader.count_tokens = lambda text: len(text) // 3
    protocol = parse({"unit": unit, "answer_tokens": 20})
    try:
        selection = summarise(chart(*texts, kind="note"), reader, protocol)
    except InputError as told:
        assert "window" in str(told)
        return
    prompt = prompt_of(selection, reader, protocol)
    assert prompt.question_survived and not prompt.cut
    assert prompt.text.count("<|im_start|>") == 3
    assert prompt.tokens + 20 <= window
