"""The chance level of recall: exact, at equal tokens, and 1 where the whole record is selected."""

from __future__ import annotations

import math
from datetime import datetime
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.arms import ARMS
from midchart.core.arms.hits import question_of
from midchart.core.protocol import parse
from midchart.core.results.items import rows
from midchart.core.results.report import report
from midchart.core.text import count_tokens, sentences
from midchart.core.text.evidence import chance_of_all, chance_of_hit
from midchart.core.text.prompt import build_prompt
from midchart.core.types import (
    Budget,
    Cohort,
    Event,
    Gold,
    Instruction,
    Kept,
    Manifest,
    Record,
    Selection,
    Span,
)
from tests.support.run_helpers import finished_run, members_place, write_cohort

TEXTS = [
    "Takes metformin",
    "Seen in clinic today",
    "Weight stable",
    "Metformin was stopped in May after a long talk with the patient",
    "No fever",
    "Well",
    "Blood pressure 120/80",
    "Family history of diabetes in the mother and in two sisters",
]
RECORD = Record(
    "p",
    tuple(Event(i, datetime(2020, 1, 1 + i), "note", text=t) for i, t in enumerate(TEXTS)),
    "chance",
)
PROTOCOL = parse({"preset": "corrected", "recency": 0, "position": "order"})
EVENT = 3


def asked(cutoff: datetime | None = None):
    instruction = Instruction("i", "p", "Metformin?", cutoff=cutoff)
    span = Span(EVENT, 0, 9)
    gold = Gold("i", "metformin", ("Metformin",), (span,), 0.5, 0.5)
    cohort = Cohort("", "", Manifest(""), {"p": RECORD}, (instruction,), {"i": gold})
    return question_of(cohort, instruction, PROTOCOL)


@pytest.mark.parametrize(("n", "hits"), [(1, 1), (6, 2), (7, 0), (5, 5), (8, 3)])
def test_the_chance_is_the_share_of_all_subsets_that_hold_a_hit(n, hits):
    for draws in range(n + 1):
        subsets = list(combinations(range(n), draws))
        expected = sum(any(i < hits for i in one) for one in subsets) / len(subsets)
        assert chance_of_hit(n, hits, draws) == pytest.approx(expected, abs=1e-12)
    between = (chance_of_hit(n, hits, 0) + chance_of_hit(n, hits, 1)) / 2
    assert chance_of_hit(n, hits, 0.5) == pytest.approx(between)


@st.composite
def pieces_of_evidence(draw: st.DrawFn) -> tuple[int, list[set[int]]]:
    """Candidates, and pieces as sets of them, which may overlap."""
    n = draw(st.integers(1, 8))
    piece = st.sets(st.integers(0, n - 1), min_size=1, max_size=3)
    return n, draw(st.lists(piece, min_size=1, max_size=4))


@given(pieces_of_evidence())
def test_the_chance_of_all_pieces_is_the_share_of_all_subsets_that_hold_each_piece(case):
    n, pieces = case
    union = len(set().union(*pieces))
    for draws in range(n + 1):
        subsets = [set(one) for one in combinations(range(n), draws)]
        expected = sum(all(piece <= one for piece in pieces) for one in subsets) / len(subsets)
        chance = chance_of_all(n, union, draws)
        assert chance == pytest.approx(expected, abs=1e-12)
        assert chance <= chance_of_hit(n, union, draws) + 1e-12
        # By inclusion and exclusion over the sentences that are missed.
        signed = sum(
            (-1) ** missed * math.comb(union, missed) * math.comb(n - missed, draws)
            for missed in range(min(union, n - draws) + 1)
        )
        assert chance == pytest.approx(signed / math.comb(n, draws), abs=1e-9)
    halfway = (chance_of_all(n, union, n - 1) + chance_of_all(n, union, n)) / 2
    assert chance_of_all(n, union, n - 0.5) == pytest.approx(halfway)


def pieces_asked(*places: tuple[int, str]):
    """The question of a record whose evidence is these texts of these events."""
    spans = tuple(Span(e, TEXTS[e].index(t), TEXTS[e].index(t) + len(t)) for e, t in places)
    instruction = Instruction("i", "p", "Metformin?")
    gold = Gold("i", "metformin", tuple(t for _, t in places), spans, 0.5, 0.5)
    cohort = Cohort("", "", Manifest(""), {"p": RECORD}, (instruction,), {"i": gold})
    return question_of(cohort, instruction, PROTOCOL)


def selection_of(*events: int, recency: tuple[int, ...] = ()) -> Selection:
    units = [s for s in sentences(RECORD, PROTOCOL) if s.span.event in events]
    chosen = [Kept(unit, 1.0, "recency" if unit.span.event in recency else "arm") for unit in units]
    return Selection("p", "i", "x", tuple(chosen), sum(unit.tokens for unit in units))


@pytest.mark.parametrize(
    ("events", "any_piece", "all_pieces"),
    [((), False, False), ((1, 2), False, False), ((0,), True, False), ((0, 3), True, False),
     ((0, 3, 6), True, True), ((0, 1, 2, 3, 6), True, True)],
)  # fmt: skip
def test_all_pieces_are_kept_where_each_is_and_any_where_one_is(events, any_piece, all_pieces):
    """Three pieces in the sentences of the events 0, 3 and 6, two pieces in one of them."""
    question = pieces_asked((0, "metformin"), (3, "Metformin"), (3, "in May"), (6, "120/80"))
    selection = selection_of(*events)
    hits = question.hits(selection)
    assert (hits["evidence"], hits["evidence_all"]) == (any_piece, all_pieces)
    draws = 8 * selection.tokens / sum(s.tokens for s in sentences(RECORD, PROTOCOL))
    assert hits["evidence_all_chance"] == pytest.approx(chance_of_all(8, 3, draws))
    assert hits["evidence_chance"] == pytest.approx(chance_of_hit(8, 3, draws))
    prompt = build_prompt("Metformin?", selection, PROTOCOL, 4_000, count_tokens)
    prompted = question.prompted(prompt, selection)
    assert prompted["evidence_in_prompt"] == any_piece
    assert prompted["evidence_all_in_prompt"] == all_pieces


def test_it_is_the_mean_recall_of_the_arm_random_at_equal_tokens():
    """``random`` itself, under 500 seeds: its mean recall, and the chance at its mean tokens."""
    question, chance = asked(), asked().chance
    for k in (1, 2, 5):
        random_recalls = []
        for seed in range(500):
            arm = ARMS.build("random", parse({"recency": 0, "seed": seed}))
            selection = arm.select(RECORD, question.instruction, Budget(k, 0))
            hits = question.hits(selection)
            random_recalls.append((hits["lexical"], hits["evidence"], selection.tokens))
        lexical, evidence, tokens = np.mean(random_recalls, axis=0)
        assert chance.lexical(tokens) == pytest.approx(lexical, abs=0.07)
        assert chance.any_piece(tokens) == pytest.approx(evidence, abs=0.07)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with members_place(tmp_path_factory.mktemp("chance")) as folder:
        cohort = write_cohort(folder / "data" / "cohorts" / "tiny", events=60)
        spec = {
            "kind": "answers", "data": str(cohort), "readers": ["test_echo"],
            "arms": ["full", {"name": "bm25", "k": 9}, {"name": "bm25", "k": 1}, "recency"],
        }  # fmt: skip
        run_id = finished_run(spec)
        yield {"rows": rows(run_id, "answers"), "tables": report(run_id)["tables"]}


def test_every_recall_has_its_chance_and_the_share_of_evidence(run):
    columns = {
        "any piece in prompt": ("evidence_in_prompt", "evidence_share_in_prompt"),
        "all pieces in prompt": ("evidence_all_in_prompt", "evidence_share_in_prompt"),
        "any piece": ("evidence", "evidence_share"),
        "all pieces": ("evidence_all", "evidence_share"),
        "lexical": ("lexical", "evidence_share"),
    }
    seen = set()
    for row in run["tables"]["recall"]:
        hit, share = columns[row["criterion"]]
        of_label = [r for r in run["rows"] if r["label"] == row["label"] and r[hit] is not None]
        if row["band"] in ("middle", "edge"):
            of_label = [r for r in of_label if r["middle"] is (row["band"] == "middle")]
        elif row["band"] != "overall":
            of_label = [r for r in of_label if r["band"] == row["band"]]
        assert row["n"] == len(of_label)
        if not of_label:
            assert row["chance"] is row["evidence_share"] is row["picked_chance"] is None
            continue
        seen.add((row["label"], row["criterion"]))
        assert row["chance"] == pytest.approx(np.mean([r[f"{hit}_chance"] for r in of_label]))
        picked = np.mean([r[f"{hit}_picked_chance"] for r in of_label])
        assert row["picked_chance"] == pytest.approx(picked)
        assert row["evidence_share"] == pytest.approx(np.mean([r[share] for r in of_label]))
    assert len(seen) == 4 * 5
    overall = {
        (r["label"], r["criterion"]): r for r in run["tables"]["recall"] if r["band"] == "overall"
    }
    assert overall["full", "any piece"]["chance"] == 1.0
    assert (
        0
        < overall["bm25 k=1", "any piece"]["chance"]
        < overall["bm25 k=9", "any piece"]["chance"]
        < 1
    )
    assert overall["recency", "any piece"]["picked_chance"] == 0.0
    swept = [r for r in run["tables"]["recall_sweep"] if r["criterion"] == "any piece"]
    assert [r["chance"] for r in swept] == [
        overall[label, "any piece"]["chance"] for label in ("bm25 k=1", "bm25 k=9")
    ]
