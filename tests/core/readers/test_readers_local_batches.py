"""Batches of prompts: each prompt once, within the limits, shared prefixes; constrained answers.

Constrained answers equal transformers' constrained greedy search.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.protocol import parse
from midchart.core.readers import local_batches
from midchart.core.readers.qwen import ENDS, Qwen
from midchart.core.text.prompt import HEAD, MIDDLE, TAIL
from midchart.core.types import Prompt
from tests.reference import qwen as reference

prompts_of_ids = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(0, 9)), max_size=12
)


@given(prompts_of_ids, st.integers(1, 5), st.integers(1, 400), st.booleans())
def test_a_plan_holds_each_prompt_once_within_its_room(prefixes, answer, room, share):
    ids = [
        np.array(
            [opening] * (300 if opening else 0) + [9] * own_tokens + [10 + last], dtype=np.int64
        )
        for opening, own_tokens, last in prefixes
    ]
    groups = local_batches.plan(ids, answer, room, share)
    planned = [i for group in groups for batch in group.batches for i in batch]
    assert sorted(planned) == list(range(len(ids)))
    for group in groups:
        members = [ids[i] for batch in group.batches for i in batch]
        assert share or group.shared == 0
        for one in members:
            assert group.shared < len(one)
            assert (one[: group.shared] == members[0][: group.shared]).all()
        if group.shared:
            assert len(members) > 1
            assert group.shared >= max(local_batches.LEAST_SHARED, max(map(len, members)) / 2)
        for batch in group.batches:
            lengths = [len(ids[i]) for i in batch]
            assert lengths == sorted(lengths, reverse=True)
            assert len(batch) == 1 or len(batch) * (lengths[0] + answer) <= room
    if share:
        long = [i for i, (opening, _, _) in enumerate(prefixes) if opening]
        alone = {i for group in groups if not group.shared for b in group.batches for i in b}
        for i in long:
            assert i not in alone or sum(prefixes[j][0] == prefixes[i][0] for j in long) == 1


NAME = "Qwen2.5-7B-Instruct"
NEW = 24


pytestmark = pytest.mark.usefixtures("models")


def texts_of(number: int) -> tuple[str, ...]:
    """Lines that begin alike, one of them within another, and one longer than an answer may be."""
    values = [f"Glucose: {90 + 7 * i} mg" for i in range(number, number + 6)]
    return (*values, "Glucose", f"Sodium {'and so on ' * 40}{number}", "Not documented.")


def prompt(number: int) -> Prompt:
    context = "\n".join(f"[2020-01-01] {text}" for text in texts_of(number)[:-1])
    text = HEAD + context + MIDDLE + f"What was it on day {number}?" + TAIL
    return Prompt(text, f"What was it on day {number}?", (), 0)


def constrained(prompts: Sequence[Prompt], within: Sequence[tuple[str, ...]]) -> list[str]:
    """What transformers generates greedily where only the texts' tokens may follow."""
    model, tokenizer = reference.load(Path(os.environ["MIDCHART_MODELS"]) / NAME)
    end = tokenizer.convert_tokens_to_ids(ENDS[0])
    decoded: list[str] = []
    for one, texts in zip(prompts, within, strict=True):
        row = tokenizer(one.text, return_tensors="pt", add_special_tokens=False).input_ids
        begin = row.shape[1]
        allowed = [[*tokenizer(text, add_special_tokens=False).input_ids, end] for text in texts]

        def following(_, read, begin=begin, allowed=allowed):
            written = read[begin:].tolist()
            return [t[len(written)] for t in allowed if t[: len(written)] == written] or [end]

        generated = model.generate(
            row,
            max_new_tokens=NEW,
            do_sample=False,
            prefix_allowed_tokens_fn=following,
            eos_token_id=end,
            pad_token_id=end,
        )[0, begin:]
        decoded.append(tokenizer.decode(generated, skip_special_tokens=True).strip())
    return decoded


def test_constrained_answers_equal_transformers_constrained_search():
    reader = Qwen(parse({"answer_tokens": NEW}), dtype="float32")
    prompts = [prompt(number) for number in range(9)]
    # A text is written as it is given: these begin with a space.
    within = [tuple(f" {text}" for text in texts_of(number)) for number in range(9)]
    wanted = constrained(prompts, within)
    together = {i: answer.text for i, answer in reader.read_many(prompts, within)}
    assert [together[i] for i in range(9)] == wanted
    alone = [next(reader.read_many([p], [w]))[1].text for p, w in zip(prompts, within, strict=True)]
    assert alone == wanted
    assert len(set(wanted)) > 3
    for expected, texts in zip(wanted, within, strict=True):
        # The longest text is cut where an answer ends.
        assert f" {expected}" in texts or texts[-2].startswith(f" {expected}")


def test_unconstrained_answers_are_free_and_constraints_may_differ_by_prompt():
    reader = Qwen(parse({"answer_tokens": NEW}), dtype="float32")
    free = reader.read(prompt(1)).text
    assert free not in texts_of(1)
    within = [None, ("Potassium",), ("Sodium",)]
    answers = {i: answer.text for i, answer in reader.read_many([prompt(1)] * 3, within)}
    assert answers == {0: free, 1: "Potassium", 2: "Sodium"}


OPTIONS = ("left lung", "the right lung and the heart", "none")


def choice_prompts() -> list[Prompt]:
    return [replace(prompt(n), options=OPTIONS) for n in range(4)]


@torch.no_grad()
def test_the_likeliest_option_is_that_of_transformers():
    prompts = choice_prompts()
    model, tokenizer = reference.load(Path(os.environ["MIDCHART_MODELS"]) / NAME)
    expected: list[str] = []
    for one in prompts:
        each: list[float] = []
        for text in OPTIONS:
            ids = tokenizer(one.text, return_tensors="pt").input_ids
            option_ids = tokenizer(text, return_tensors="pt").input_ids
            logits = model(torch.cat([ids, option_ids], dim=1)).logits[0, ids.shape[1] - 1 : -1]
            chosen = logits.log_softmax(-1).gather(1, option_ids[0][:, None])
            each.append(float(chosen.sum()) / len(text))
        expected.append(OPTIONS[each.index(max(each))])
    reader = Qwen(parse({"answer_tokens": NEW}), dtype="float32", choose="likelihood")
    answers = dict(reader.read_many(prompts))
    assert [answers[i].text.partition(": ")[2] for i in range(4)] == expected
    assert {answers[i].how for i in range(4)} == {"likelihood"}


def test_a_letter_is_the_most_probable_of_the_options():
    prompts = [*choice_prompts(), prompt(9)]
    reader = Qwen(parse({"answer_tokens": NEW}), dtype="float32", choose="letter")
    letters = constrained(prompts[:4], [("A", "B", "C")] * 4)
    answers = dict(reader.read_many(prompts))
    assert [answers[i].text for i in range(4)] == [
        f"{letter}: {OPTIONS['ABC'.index(letter)]}" for letter in letters
    ]
    free = Qwen(parse({"answer_tokens": NEW}), dtype="float32")
    assert answers[4].text == free.read(prompts[4]).text
