"""Both presets are complete, and every field is checked."""

from __future__ import annotations

import pytest

from midchart.core.errors import InputError
from midchart.core.protocol import BEFORE, PRESETS, Protocol, parse


def test_the_default_is_corrected():
    assert parse() == Protocol() == PRESETS["corrected"]
    assert parse({}) == Protocol()


def test_the_published_preset_enables_every_fault_and_nothing_else():
    assert set(parse("published").differences()) == {
        "unit",
        "scored_text",
        "unmatched",
        "ties",
        "bm25_idf",
        "recency_rule",
        "line_time",
        "locate",
        "locate_threshold",
        "full_side",
        "full_characters",
        "truncation",
        "map_reduce",
        "llmlingua_characters",
        "llmlingua_threshold",
        "intervals",
        "position",
        "evidence_join",
        "response_characters",
        "judge_prompt",
        "hash",
        "hash_salt",
        "gate_text",
        "gate_positives",
        "gate_negatives",
    }


def test_a_choice_that_runs_once_lacked_is_that_of_the_published_run():
    published, corrected = PRESETS["published"].as_dict(), PRESETS["corrected"].as_dict()
    assert {name: published[name] for name in BEFORE} == BEFORE
    assert all(
        f"{name}={value!r}" in repr(Protocol())
        for name, value in corrected.items()
        if name in BEFORE
    ), "in every row key"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("publishd", "Valid: corrected, published"),
        ({"unti": "event"}, "Did you mean unit"),
        ({"unit": "word"}, "'unit' of the protocol 'word'. Valid: event, sentence"),
        ({"k": -1}, "'k' of the protocol is -1; it should be greater than or equal to 0"),
        ({"k": True}, "a valid integer"),
        ({"k": 2.0}, "a valid integer"),
        ({"hash_salt": -1}, "equal to 0"),
        ({"prediction_time": "before"}, "Valid: inclusive, strict"),
    ],
)
def test_invalid_fields_are_named(table, says):
    with pytest.raises(InputError) as error:
        parse(table)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
