"""The question before and after the context, and a second reading with the context reversed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from midchart.core.protocol import LATER, Protocol, parse
from midchart.core.readers.twice import as_protocol_reads
from midchart.core.text import count_tokens
from midchart.core.text.prompt import CHATML, MESSAGES, NOT_DOCUMENTED, build_prompt
from midchart.core.types import Answer
from tests.core.readers.test_packing import selection

TEXTS = [f"line {i} of the note" for i in range(6)]
TWICE = Protocol(second_read="reversed")


class FirstLine:
    """Quotes the first line of its context; ``fails``: does not."""

    name, title, window, fails = "first", "First", 1000, False

    def count_tokens(self, text: str) -> int:
        return count_tokens(text)

    def read(self, prompt) -> Answer:
        assert prompt.text.index(prompt.context[0].text) < prompt.text.index(
            prompt.context[-1].text
        )
        if self.fails:
            return Answer("", "failed", "no")
        line = prompt.context[0]
        return Answer(line.text, sources=(line.sentence_id,), prompt_tokens=9, seconds=1.0)


class LowestLine(FirstLine):
    """Quotes the same line in any order, prompts in groups and answers last first."""

    group = 4

    def read_many(self, prompts):
        for index in reversed(range(len(prompts))):
            prompt = prompts[index]
            ordered = replace(prompt, context=tuple(sorted(prompt.context, key=lambda x: x.text)))
            yield index, Answer(ordered.context[0].text, prompt_tokens=9)


def prompts(protocol: Protocol, n: int = 3):
    return [
        build_prompt(f"why {i}?", selection(TEXTS), protocol, 1000, count_tokens) for i in range(n)
    ]


def test_an_answer_that_changes_with_the_order_is_not_given():
    asked = prompts(TWICE)
    answer = as_protocol_reads(FirstLine(), TWICE).read(asked[0])
    assert (answer.text, answer.status, answer.sources) == (NOT_DOCUMENTED, "ok", ())
    assert "order of the context" in answer.reason
    assert (answer.prompt_tokens, answer.seconds) == (18, 2.0)
    steady = as_protocol_reads(LowestLine(), TWICE)
    answers = dict(steady.read_many(asked))
    assert sorted(answers) == [0, 1, 2] and steady.group == 4
    assert {one.text for one in answers.values()} == {asked[0].context[0].text}
    assert {one.reason for one in answers.values()} == {""}
    failing = FirstLine()
    failing.fails = True
    assert as_protocol_reads(failing, TWICE).read(asked[0]).status == "failed"
    assert as_protocol_reads(failing, Protocol()) is failing


@pytest.mark.parametrize("frame", [CHATML, MESSAGES])
def test_the_question_is_before_and_after_the_context(frame):
    both = Protocol(question_place="both")
    for window, options in ((1000, ()), (300, ("yes", "no"))):
        texts = TEXTS * 8
        prompt = build_prompt(
            "is it\nso?", selection(texts), both, window, count_tokens, frame, options
        )
        before, _, after = prompt.text.partition(prompt.context[0].text)
        asked = "is it so?" + ("\n" if options else "")
        assert prompt.text.count(asked) == 2 and asked in before and asked in after
        assert prompt.tokens + both.answer_tokens <= window
        assert prompt.text.startswith(frame.head[:5]) and prompt.text.count("<bos>") <= 1
    once = build_prompt("is it so?", selection(TEXTS), Protocol(), 1000, count_tokens, frame)
    assert once.text.count("is it so?") == 1


def test_defaults_of_later_fields_are_in_no_row_key():
    text = repr(Protocol())
    assert text.startswith("Protocol(preset='corrected', unit='sentence'")
    assert not any(name in text for name in (*LATER, "judge_prompt"))
    assert "second_read='reversed'" in repr(TWICE) and "question_place" not in repr(TWICE)
    assert parse({"question_place": "both"}).differences() == {"question_place": ("after", "both")}
