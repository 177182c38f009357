"""The evaluation of a small reader: its contexts, and that its metrics distinguish readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from midchart.core.protocol import Protocol
from midchart.core.readers.small import answerable
from midchart.core.services.reader_evaluation import SHORT, Case, cases, holds, patients, quotes
from midchart.core.text.prompt import NOT_DOCUMENTED
from midchart.core.types import Answer, Prompt


@pytest.fixture(scope="module")
def all_cases() -> list[Case]:
    return cases(4_242, 3, Protocol())


class Told:
    """A reader that says what it is told to say of a prompt."""

    window = 100_000

    def __init__(self, say: Callable[[Prompt], str]) -> None:
        self.say = say

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        for index, prompt in enumerate(prompts):
            yield index, Answer(self.say(prompt))


def shares(all_cases: list[Case], say: Callable[[Prompt], str]) -> dict[tuple[str, str], float]:
    marks, rows = patients(Told(say), all_cases, Protocol())
    assert len(rows) == sum(answerable(case.instruction.question) for case in all_cases)
    return {(mark.part, mark.what): mark.share for mark in marks}


def test_contexts_hold_the_evidence_and_shorter_ones_the_latest_lines_next_to_it(all_cases) -> None:
    assert all_cases and any(len(case.shown.kept) > SHORT for case in all_cases)
    for case in all_cases:
        ids = [line.sentence.id for line in case.shown.kept]
        bare = [line.sentence.id for line in case.bare.kept]
        evidence = set(ids) - set(bare)
        short = [line.sentence.id for line in case.short.kept]
        assert evidence and set(bare) < set(ids) and len(case.lines(Protocol())) == len(evidence)
        assert evidence <= set(short)
        assert len(short) == min(len(ids), max(SHORT, len(evidence)))
        assert short == [id for id in ids if id in set(short)]
        others = [id for id in short if id not in evidence]
        assert others == bare[len(bare) - len(others) :]


def test_quoting_everything_is_correct_wherever_evidence_exists(all_cases) -> None:
    accuracy = shares(all_cases, lambda prompt: prompt.text)
    assert accuracy["evidence shown", "all"] == 1.0
    assert accuracy[f"evidence shown in {SHORT} lines", "all"] == 1.0
    assert accuracy["evidence taken out", "said not documented"] == 0.0
    assert accuracy["another patient's record", "right"] < 0.5


def test_other_results_of_the_same_test_are_detected(all_cases) -> None:
    case = all_cases[0]

    def left(kind: str, *texts: str) -> bool:
        some = case.bare.kept[0]
        lines = tuple(replace(some, sentence=replace(some.sentence, text=text)) for text in texts)
        return replace(case, kind=kind, bare=replace(case.bare, kept=lines)).has_other_result

    coded = "Urea nitrogen [Mass/volume] in Serum or Plasma: 13 mg/dL"
    for text in (coded, "- 05/19/2016: Na 139, K 4, BUN 15", "BUN: 15 today."):
        assert left("extreme-bun", "Walks daily.", text) and left("latest-bun", text)
        assert not left("extreme-k", coded) and not left("bun", text) and not left("dye", text)
    assert not left("extreme-bun", "BUN to be drawn.", "Abun 12")


def test_answering_not_documented_is_correct_only_without_evidence(all_cases) -> None:
    accuracy = shares(all_cases, lambda prompt: NOT_DOCUMENTED)
    assert accuracy["evidence shown", "all"] == 0.0
    assert accuracy["evidence shown", "refused"] == 1.0
    assert accuracy["evidence taken out", "said not documented"] == 1.0
    assert accuracy["another question", "this fact told"] == 0.0


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Ferritin of 12 ng/mL in 1998. [2012-03-04]", True),
        ("FERRITIN OF 12 NG/ML, 1998", True),
        ("Ferritin of 112 ng/mL in 1998.", False),
        ("Ferritin of 12 ng/mL. [1998-03-04]", False),
    ],
)
def test_an_answer_must_contain_the_key_words_outside_the_date(text, right) -> None:
    assert holds(text, ("12 ng/mL", "1998")) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Stopped in 1997; [2012-03-04]", True),
        ("31 pack-years. [2012-03-04]", True),
        ("stopped in 1997; 31 pack-years. [2012-03-04]", True),
        ("31 pack-years. Stopped in 1997;", False),
        ("Stopped in 1997; 31 pack-years. He walks.", False),
        ("not documented.", False),
    ],
)
def test_a_quote_is_of_evidence_that_follows_each_other(text, right) -> None:
    lines = ("[2012-03-04] Stopped in 1997;", "[2012-03-04] 31 pack-years.")
    assert quotes(text, lines) is right
