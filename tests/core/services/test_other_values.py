"""Passages with another value of the evidence's item: synthetic sentences, and real sample text."""

from __future__ import annotations

import zipfile
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from midchart.core import api

SAMPLES = Path(__file__).parents[4] / "shared" / "data"
DAY = datetime(2020, 1, 1)
FILLER = ("Lungs are clear.", "Sleeps well.", "No rash.", "Eats well.", "Walks without a cane.")


def record_of(*texts: str) -> api.Record:
    """A note a day, with filler between, so that no word is common to most sentences."""
    lines = [line for text in texts for line in (text, *FILLER)]
    events = tuple(
        api.Event(i, DAY + timedelta(days=i), "note", "", "Note", line + "\n")
        for i, line in enumerate(lines)
    )
    return api.Record("p", events, "-".join(texts))


def passages(record: api.Record, evidence: str, **more) -> list[api.OtherValue]:
    """The passages listed for the first entry that has the text ``evidence``."""
    for event in record.events:
        start = api.event_text(event).find(evidence)
        if start >= 0:
            span = api.Span(event.order, start, start + len(evidence))
            return list(api.other_values(record, [span], api.Protocol(), **more))
    raise AssertionError(evidence)


@pytest.mark.parametrize(
    ("evidence", "other"),
    [
        ("Ferritin 88 ng/mL.", "The ferritin was 47 ng/mL (06/17/2013)."),
        ("Metformin 500 mg twice daily.", "Takes metformin (GLUCOPHAGE) 1000 mg daily."),
        ("25-OH D on 07/28/2009, mail-in lab, 36 ng/mL.", "Home-kit 25-OH vitamin D: 28 ng/mL."),
        ("Left hip replacement on 03/04/2015.", "Left hip replacement: 03/04/2011."),
        ("Lantus 30 units nightly.", "insulin glargine (LANTUS) 38 units nightly"),
    ],
)
def test_another_value_or_date_of_the_same_item_is_listed_in_both_directions(evidence, other):
    record = record_of(evidence, other)
    assert [p.sentence.text for p in passages(record, evidence)] == [other]
    assert [p.sentence.text for p in passages(record, other)] == [evidence]


def test_the_newest_is_marked_by_the_date_that_a_sentence_states_and_copies_are_counted():
    old, new = "Ferritin 47 ng/mL on 06/17/2021.", "Ferritin 53 ng/mL."
    record = record_of("Ferritin 88 ng/mL.", old, new, new)
    listed = passages(record, "Ferritin 88 ng/mL.")
    assert [(p.sentence.text, p.copies, p.newest) for p in listed] == [
        (new, 2, False),
        (old, 1, True),
    ]
    assert listed[1].day == datetime(2021, 6, 17)
    assert not any(p.newest for p in passages(record, old)), "the evidence itself is the newest"
    before = DAY + timedelta(days=8)
    listed = passages(record, "Ferritin 88 ng/mL.", cutoff=before)
    assert [p.sentence.text for p in listed] == [old], "nothing after the question's cut-off"


def sample(name: str) -> Path:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip("the open samples are not beside this checkout")
    return path


@pytest.fixture(params=["synthea_fhir", "omop54"])
def readings(request, tmp_path: Path) -> tuple[api.Record, list[api.Event]]:
    """A real record, and its readings of the code with most values."""
    place = sample(request.param)
    if request.param == "omop54":
        with zipfile.ZipFile(place / "Synthea27Nj_5.4.zip") as archive:
            archive.extractall(tmp_path)
        place = tmp_path
    cohort = api.open_data(place)
    by_code: dict[tuple[str, str, str], list[api.Event]] = defaultdict(list)
    record = cohort.records[next(iter(cohort.records))]
    for event in record.events:
        if event.kind == "measurement":
            by_code[event.kind, event.code, event.name].append(event)
    events = max(by_code.values(), key=lambda events: len({event.text for event in events}))
    assert len({event.text for event in events}) > 3
    return record, events


def test_real_readings_of_one_code_are_exactly_the_other_values(readings):
    record, events = readings
    first = events[0]
    span = api.Span(first.order, 0, len(api.event_text(first)))
    listed = api.other_values(record, [span], api.Protocol())
    others = [event for event in events if event.text != first.text]
    assert {p.sentence.text for p in listed} == {api.event_text(event) for event in others}
    assert sum(p.copies for p in listed) == len(others)
    newest = {p.day for p in listed if p.newest}
    assert newest == {max(event.time for event in others if event.time)}
