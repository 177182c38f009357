"""LongHealth, plain notes, and the open samples beside the checkout if present."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from midchart.core.loaders.benchmarks import location_window, narrowed, opening_date
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "longhealth"


@pytest.mark.skipif(not SAMPLE.exists(), reason="the open sample is not beside this checkout")
def test_longhealths_patient():
    cohort = open_cohort(SAMPLE)
    checked = check_cohort(cohort)
    assert (checked["records"], checked["events"], checked["instructions"], checked["gold"]) == (
        1,
        10,
        20,
        20,
    )
    assert (checked["unlocated"], checked["skipped"], len(checked["positions"])) == (0, [], 20)
    record = cohort.records["patient_03"]
    assert [e.name for e in record.events] == [f"text_{i}" for i in range(10)]
    assert record.events[0].time == datetime(2015, 10, 3)
    assert record.events[4].time is None, "its only dates are of other things"
    assert any("LongHealth:" in value for _, value in record.facts), "the canary is kept"
    assert not any("LongHealth:" in e.text for e in record.events)
    first = cohort.gold["patient_03-q0"]
    assert cohort.instructions[0].question.startswith("Where was osteolysis")
    assert first.answer == "B and C"
    assert "Osteolysis detected in the seventh" in first.snippets[0]
    assert not first.exact and first.order == 0.0
    scan = cohort.gold["patient_03-q4"]
    assert "Omnipaque 240" in scan.snippets[0], "the stated location ends a character early"


@pytest.mark.parametrize(
    ("text", "date"),
    [
        (
            "Dear,\n\nMr. X, born 08/08/1956, inpatient from\n10/03/2015 to 10/06/2015.",
            (2015, 10, 3),
        ),
        ("Dear,\n\nhospitalized from\nDecember 14 to 21st, 2018.", (2018, 12, 14)),
        ("Dear,\n\nseen June 15, 2018.\n\nDone 01/01/2001", (2018, 6, 15)),
        ("Dear,\n\nabout Mr. X born on 08/08/1956.\n\nMRI of June 20, 2018", None),
        ("Dear,\n\nseen 02/31/2018.", None),
        ("", None),
    ],
)
def test_a_letters_own_date(text: str, date: tuple[int, int, int] | None):
    assert opening_date(text) == (datetime(*date) if date else None)


def test_a_location_is_widened_to_whole_lines():
    text = "".join(f"line {i:03d}\n" for i in range(100))
    start, end = location_window(text, 0.5, 0.501)
    assert text[start:end].splitlines() == [f"line {i:03d}" for i in range(47, 54)]
    assert location_window("one line", 0.0, 1.0) == (0, 8)


def test_a_location_is_narrowed_to_the_sentences_that_share_most_with_the_correct_option():
    text = (
        "Dear colleague, thank you.\nHe was given cisplatin from 2013 on.\n"
        "Cisplatin was stopped on 3/4/2014 because of hearing loss.\nHe lives alone."
    )
    span = (0, len(text))
    start, end = narrowed(text, span, "Why was cisplatin stopped?", "Because of hearing loss")
    assert text[start:end] == "Cisplatin was stopped on 3/4/2014 because of hearing loss."
    start, end = narrowed(text, span, "Since when?", "2013")
    assert text[start:end] == "He was given cisplatin from 2013 on."
    assert narrowed(text, span, "Which dose?", "Unknown agent") == span
    assert narrowed(text, (0, 20), "Why was cisplatin stopped?", "Hearing loss") == (0, 20)
