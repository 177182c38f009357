"""Simulated patients: laboratory values follow diseases and drugs, courses are coherent."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.extras.lab.synthetic.cohort import make_one
from midchart.extras.lab.synthetic.medicine import (
    Stop,
    analytes,
    diseases,
    drugs,
    episodes,
    written,
)
from midchart.extras.lab.synthetic.notes import render
from midchart.extras.lab.synthetic.patient import (
    Block,
    Course,
    DrugStep,
    Episode,
    Note,
    NotePiece,
    Patient,
)
from midchart.extras.lab.synthetic.trajectory import creatinine, draw_base, measure, true_egfr

START = datetime(2010, 1, 4)


def patient(diseases: dict[str, int], *courses: Course, sex: str = "MALE") -> Patient:
    """A 60-year-old with conditions that began so many days after the start."""
    p = Patient(
        "1", sex, "Test", datetime(1950, 3, 2), "White", "", "", START,
        START + timedelta(days=3650), {k: START + timedelta(days=d) for k, d in diseases.items()},
        list(courses),
    )  # fmt: skip
    draw_base(np.random.Generator(np.random.PCG64(3)), p)
    return p


def course(
    drug: str, begin: int, end: int | None = None, dose: int = 0, cause: Stop | None = None
) -> Course:
    steps = [DrugStep(START + timedelta(days=begin), "start", drug, dose, -1, "y")]
    if end is not None:
        steps.append(
            DrugStep(START + timedelta(days=end), "stop", drug, dose, dose, "x", "", cause)
        )
    return Course(drug, "", steps)


def mean(p: Patient, key: str, day: float) -> float:
    rng = np.random.Generator(np.random.PCG64(9))
    when = START + timedelta(days=day)
    return float(np.mean([measure(p, key, when, rng) for _ in range(60)]))


def test_filtration_falls_with_the_years_of_kidney_disease():
    p = patient({"ckd": 0})
    values = [true_egfr(p, START + timedelta(days=365 * y)) for y in range(1, 9)]
    assert all(a > b for a, b in pairwise(values))
    assert values[0] - values[-1] > 12  # at least 2.2 a year by construction, over 7 years


def test_creatinine_and_filtration_agree_by_the_published_equation():
    p = patient({})
    # MDRD: 175 × 1.5^−1.154 × 60^−.203 for a man of 60 (no race term).
    by_hand = 175 * 1.5**-1.154 * 60**-0.203
    assert creatinine(p, by_hand, datetime(2010, 6, 1)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("drug", "disease", "analyte", "least"),
    [
        ("spironolactone", "hfref", "k", 0.25),
        ("lisinopril", "htn", "k", 0.15),
        ("warfarin", "af", "inr", 0.7),
    ],
)
def test_drugs_raise_what_they_raise(drug: str, disease: str, analyte: str, least: float):
    p = patient({disease: 0}, course(drug, 100, 900))
    before, on, after = (mean(p, analyte, d) for d in (90, 400, 1100))
    assert on - before > least
    assert abs(after - before) < least / 2


@pytest.mark.parametrize(
    ("drug", "disease", "analyte", "least"),
    [
        ("metformin", "t2dm", "a1c", 0.6),
        ("insulin glargine", "t2dm", "a1c", 0.7),
        ("atorvastatin", "cad", "ldl", 20),
        ("levothyroxine", "hypothyroid", "tsh", 4),
        ("methotrexate", "ra", "crp", 8),
        ("amlodipine", "htn", "sbp", 4),
        ("metoprolol succinate", "af", "hr", 5),
    ],
)
def test_drugs_lower_what_they_lower(drug: str, disease: str, analyte: str, least: float):
    p = patient({disease: -200}, course(drug, 200, dose=1))
    assert mean(p, analyte, 190) - mean(p, analyte, 700) > least


def test_an_acute_illness_pushes_values_and_lets_go():
    p = patient({})
    start = START + timedelta(days=500)
    p.episodes.append(Episode(episodes()["aki"], start, start + timedelta(days=4), 1.0))
    base, peak, later = (mean(p, "cr", d) for d in (490, 500.2, 540))
    assert peak > 1.8 * base and later < 1.1 * base


def test_a_side_effect_that_ends_a_drug_is_seen_in_the_lab():
    plan = next(plan for plan in diseases()["hfref"].plans if plan.drug == "spironolactone")
    cause = next(stop for stop in plan.stops if "potassium" in stop.why)
    p = patient({"hfref": 0}, course("spironolactone", 100, 800, 1, cause))
    assert mean(p, "k", 799.5) > mean(p, "k", 700) + 0.8
    assert mean(p, "k", 860) < mean(p, "k", 700)


@given(st.sampled_from(sorted(analytes())), st.floats(-1e4, 1e5, allow_nan=False))
def test_no_value_is_written_outside_what_a_person_can_have(key: str, value: float):
    a = analytes()[key]
    assert a.low - 0.006 <= float(written(key, value)) <= a.high + 0.5


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 400), st.integers(0, 3000))
def test_every_life_is_coherent(index: int, seed: int):
    life = make_one(index, seed=seed)
    p = life.patient
    assert len(life.asked) == 3
    assert 18 <= p.age(p.first) < 95
    if p.sex == "MALE":
        assert not {"breast", "gdm"} & set(p.diseases)
    for c in p.courses:
        steps = [s.when for s in c.steps]
        assert steps == sorted(steps) and c.steps[0].action == "start"
        assert all(0 <= s.dose < len(drugs()[c.drug].steps) for s in c.steps)
        assert all(s.action != "stop" for s in c.steps[:-1])
        for step in c.steps:
            if step.cause and step.cause.egfr_below and step.why == step.cause.why:
                assert true_egfr(p, step.when) < 40
    statins = [c for c in p.courses if drugs()[c.drug].group == "statin"]
    for day in range(0, (p.last - p.first).days, 90):
        when = p.first + timedelta(days=day)
        assert sum(c.dose_at(when) is not None for c in statins) <= 1
    for one, two in pairwise(p.episodes):
        assert one.end < two.start


@given(
    st.lists(
        st.text(st.characters(codec="ascii", exclude_characters="\n"), min_size=1),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 3),
)
def test_rendering_remembers_where_marked_pieces_lie(texts: list[str], style: int):
    pieces = [NotePiece(text, f"p{i}") for i, text in enumerate(texts)]
    note = Note(
        "Progress Note",
        START,
        [Block("hpi", "HPI", pieces), Block("pmh", "PMH", [NotePiece("x")], "list")],
        style,
    )
    render(note)
    for piece in pieces:
        start, end = note.places[piece.id]
        assert note.text[start:end] == piece.text
