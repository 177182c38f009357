"""Dense and MMR selection equal their references, with the real MiniLM."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from midchart.core.arms import ARMS
from midchart.core.arms.mmr import greedy
from midchart.core.protocol import Protocol
from midchart.core.stats.ranking import ranks
from midchart.core.types import Budget, Instruction
from tests.reference import dense as plain_dense
from tests.reference import mmr as plain_mmr
from tests.support.charts import chart

TEXTS = [
    f"{finding} {state}"
    for finding in ("Hemoglobin", "Chest pain", "Metformin 500 mg", "Blood pressure", "Fever")
    for state in ("recorded", "denied by patient", "started on Monday", "stable", "stable")
]
RECORD = chart(*TEXTS, kind="x", digest="semantic")
LANGUAGES = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
ASKED = Instruction("i1", "p1", "Which diabetes drug does the patient take?")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def test_dense_scores_equal_sentence_transformers():
    plain = plain_dense.scores(TEXTS, ASKED.question)
    lines = ARMS.build("dense", Protocol()).select(RECORD, ASKED, Budget(10**6, 0)).kept
    assert [k.score for k in lines] == pytest.approx(plain.tolist(), abs=2e-6)
    best = ARMS.build("dense", Protocol()).select(RECORD, ASKED, Budget(3, 0)).kept
    assert {k.sentence.text.split()[0] for k in best} == {"Metformin"}


def test_duplicate_lines_score_equally_and_the_earlier_comes_first_where_published():
    lines = ARMS.build("dense", Protocol()).select(RECORD, ASKED, Budget(10**6, 0)).kept
    score = {k.sentence.id: k.score for k in lines}
    assert all(score[f"e{i}"] == score[f"e{i + 1}"] for i in range(3, len(TEXTS), 5))
    best: dict[str, set[str]] = {}
    for ties in ("earliest", "drawn"):
        arms = [ARMS.build("dense", Protocol(ties=ties, seed=seed)) for seed in range(20)]
        asked = Instruction("i", "p1", "Metformin 500 mg stable")
        best[ties] = {
            k.sentence.id for a in arms for k in a.select(RECORD, asked, Budget(1, 0)).kept
        }
    assert best == {"earliest": {"e13"}, "drawn": {"e13", "e14"}}


def test_the_ranks_are_those_of_scipy():
    scores = np.random.default_rng(0).integers(-3, 3, (20, 50)) / 4.0
    for row in scores:
        assert (ranks(row) == rankdata(-row, method="min")).all()


def test_hybrid_ranks_sentences_without_a_question_word_by_embedding_alone():
    question = Instruction("i", "p1", "glucose-lowering tablets")
    assert not set(question.question.split()) & set(" ".join(TEXTS).split())
    selections = [
        ARMS.build(arm, Protocol()).select(RECORD, question, Budget(3, 0))
        for arm in ("hybrid", "dense")
    ]
    hybrid, dense = ([item.sentence.id for item in s.kept] for s in selections)
    assert hybrid == dense


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 45))
def test_mmr_selection_equals_the_reference(seed, n, k):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(max(1, n // 2), 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    row_of = rng.integers(0, len(rows), n)
    # Of its own direction: as near to two rows as their mean is, rounding alone would choose.
    question = rng.normal(size=16).astype(np.float32)
    relevance = (rows @ question).astype(np.float64)
    picks, values = greedy(relevance[row_of], rows[row_of], k)
    assert picks.tolist() == plain_mmr.greedy(relevance[row_of], rows[row_of], k)
    assert len(values) == min(k, n)
    drawn = rng.random(n)
    picks, _ = greedy(relevance[row_of], rows[row_of], k, draw=lambda: drawn)
    assert picks.tolist() == plain_mmr.greedy(relevance[row_of], rows[row_of], k, drawn=drawn)


@pytest.mark.parametrize("language", LANGUAGES)
def test_multilingual_finds_in_other_languages_what_hybrid_misses(language):
    chosen = LANGUAGES[language]
    record = chart(*chosen["chart"].splitlines(), kind="x", digest=language)
    hits = Counter()
    for question, evidence in chosen["questions"]:
        for arm in ("hybrid", "multilingual"):
            asked = Instruction("i", "p1", question)
            lines = ARMS.build(arm, Protocol()).select(record, asked, Budget(5, 0)).kept
            hits[arm] += any(evidence in k.sentence.text for k in lines)
    assert hits["multilingual"] >= 7 > 4 >= hits["hybrid"], hits
