"""Kinds of failure: each rule by an example, and properties that hold for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.judges.rules import FAILURE_KINDS, failure_kind

QUESTION = "What treatment was chosen for the rash?"
REFERENCE = "clobetasol 0.05 % ointment (July 2008)"
CONTEXT = [
    "[2008-07-01] Skin: dermatology has moved him to clobetasol 0.05 % ointment.",
    "[2007-02-11] Scalp: ketoconazole shampoo twice weekly.",
]


def kind(answer: str, **options: object) -> str:
    return failure_kind(QUESTION, answer, REFERENCE, CONTEXT, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("", "empty"),
        (" … ", "empty"),
        ("The record does not mention a treatment.", "refusal"),
        ("[2007-02-11] Scalp: ketoconazole shampoo\n[2009-01-01] Weight: 80 kg", "continuation"),
        ("QUESTION: What else?", "continuation"),
        ("It is possible that clobetasol was chosen.", "hedged"),
        ("clobetasol 0.1 % ointment (July 2008)", "wrong value"),
        ("Ketoconazole shampoo.", "wrong entity"),
        ("Methotrexate by injection.", "unsupported"),
        ("An ointment.", "omission"),
        ("Yes", "other"),
        ("Clobetasol 0.05 % ointment, July 2008.", "other"),
    ],
)
def test_each_kind_has_its_rule(answer: str, expected: str):
    assert kind(answer) == expected


def test_a_reader_that_names_its_line_quotes_and_does_not_continue():
    line = CONTEXT[1]
    assert kind(line) == "continuation"
    assert kind(line, quotes=True) == "wrong entity"


def test_a_lost_question_is_recognised_by_the_topic_of_the_answer():
    carried_on = "mg daily. Return to clinic in six weeks."
    assert kind(carried_on, question_survived=False) == "continuation"
    assert kind(carried_on) != "continuation"
    # By chance on the subject: without the question it is no continuation that can be told.
    assert kind("The rash cleared by itself.", question_survived=False) != "continuation"


def test_years_are_not_values():
    assert failure_kind("When?", "It was 2011.", "In 2008", []) != "wrong value"


@given(st.text(max_size=200), st.text(max_size=80), st.booleans(), st.booleans())
def test_any_text_has_exactly_one_failure_kind(
    answer: str, reference: str, survived: bool, quotes: bool
):
    kind_found = failure_kind(QUESTION, answer, reference, CONTEXT, survived, quotes)
    assert kind_found in FAILURE_KINDS
    assert kind_found == failure_kind(QUESTION, answer, reference, iter(CONTEXT), survived, quotes)
