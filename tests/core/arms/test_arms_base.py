"""Rules of all arms: top k, cutoff, recency buffer, token budgets, order; the controls; BM25.

The cached BM25 index equals rank_bm25 bit for bit and explains its scores exactly.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from midchart.core.arms import ARMS
from midchart.core.arms.base import generator, top_k
from midchart.core.arms.bm25_filtered import dropped
from midchart.core.bm25 import BM25Index
from midchart.core.errors import InputError
from midchart.core.protocol import Protocol
from midchart.core.text import allowed
from midchart.core.types import Budget, Event, Instruction, Record, Sentence, Span
from tests.reference import bm25 as plain_bm25
from tests.support.charts import START, chart


def ask(arm: str, record: Record, question: str = "fever", protocol=None, **budget):
    built = ARMS.build(arm, protocol or Protocol())
    return built.select(record, Instruction("i1", "p1", question), Budget(**budget))


def ids(selection) -> list[str]:
    return [line.sentence.id for line in selection.kept]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, float("-inf")]), max_size=60),
    st.integers(0, 70),
)
def test_top_k_is_a_stable_sort_of_everything(scores, k):
    plain = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]
    assert top_k(np.array(scores, dtype=float), k).tolist() == plain
    drawn = np.random.default_rng(len(scores)).random(len(scores))
    plain = plain_bm25.best(scores, k, drawn=drawn.tolist())
    assert top_k(np.array(scores, dtype=float), k, lambda: drawn).tolist() == plain


def test_the_recency_buffer_holds_whole_events_and_skips_empty_ones():
    record = Record(
        "p1",
        (
            Event(0, START, "note", text="Old line one.\nOld line two."),
            Event(1, START, "note", text="First line.\nSecond line."),
            Event(2, START, "measurement", name="Glucose", text="120"),
            Event(3, START, "note", text=" \n "),
        ),
        "buffer",
    )
    selection = ask("recency", record, recency=2)
    assert ids(selection) == ["e1.0", "e1.1", "e2"]
    assert {k.kept_by for k in selection.kept} == {"recency"}


def test_events_after_the_cutoff_do_not_affect_scores():
    before = chart("fever", "cough", "pain", digest="before")
    after = chart("fever", "cough", "pain", "fever fever", "fever", digest="after")
    cut = Instruction("i1", "p1", "fever", cutoff=START + timedelta(days=2))
    arm = ARMS.build("bm25", Protocol())
    seen = arm.select(after, cut, Budget())
    assert seen.kept == arm.select(before, replace(cut, cutoff=None), Budget()).kept
    assert ("after the cutoff", "2") in seen.trace


def test_undated_sentences_count_only_before_the_first_late_one():
    def sentence(event: int, time: datetime | None) -> Sentence:
        return Sentence(f"e{event}", Span(event, 0, 1), time, "note", "x", 1)

    static, early, between, late, unknown = (
        sentence(0, None), sentence(1, START), sentence(2, None),
        sentence(3, START + timedelta(days=2)), sentence(4, None),
    )  # fmt: skip
    permitted = allowed([static, early, between, late, unknown], START)
    assert permitted == [static, early, between]


def test_selected_sentences_come_first_and_the_buffer_gets_a_share_of_the_rest():
    record = chart("fever now", "nothing", "one two three", "four five", "six seven eight")
    half = Protocol(recency_percent=50)

    def selected_texts(tokens: int, arm: str = "bm25") -> list[str]:
        selection = ask(arm, record, protocol=half, k=1, recency=3, tokens=tokens)
        assert selection.tokens <= tokens
        return [k.sentence.id for k in selection.kept if k.kept_by != "filler"]

    # Half of 12 tokens is 6: e4 (3), e3 (2), and no room for e2 (3). The pick (2) comes first.
    assert selected_texts(12) == ["e0", "e3", "e4"] and selected_texts(12, "recency") == [
        "e3",
        "e4",
    ]
    # Of 6 tokens the share is 3, of 4 the pick leaves 2: e4 is in the share, yet cut.
    assert selected_texts(6) == ["e0", "e4"]
    assert selected_texts(4) == ["e0", "e3"], "the share of 2 tokens holds e3, not e4"
    assert selected_texts(3) == ["e0"], "a share of 1 token holds nothing"
    all_kept = replace(half, unmatched="kept", ties="earliest")
    greedy = ask("bm25", record, protocol=all_kept, k=5, recency=3, tokens=12)
    assert [(k.sentence.id, k.kept_by) for k in greedy.kept] == [
        ("e0", "arm"), ("e1", "arm"), ("e2", "arm"), ("e3", "both"), ("e4", "both"),
    ]  # fmt: skip


def test_what_is_left_of_a_token_budget_is_filled_by_one_draw_for_all_arms():
    record = chart("fever now", *(f"line {i} of ten" for i in range(10)), "glucose 120")

    def filler(question: str, **options) -> list[str]:
        selection = ask("bm25", record, question=question, k=1, recency=0, **options)
        return [k.sentence.id for k in selection.kept if k.kept_by == "filler"]

    drawn = filler("fever", tokens=18)
    assert len(drawn) == 4 and drawn == filler("fever", tokens=18)
    assert filler("fever", tokens=18, protocol=Protocol(seed=1)) != drawn
    assert filler("fever") == [], "nothing is filled without a budget"
    assert filler("fever", tokens=18, protocol=Protocol(unmatched="kept")) == []
    everywhere = [filler("fever", tokens=18, protocol=Protocol(seed=s)) for s in range(40)]
    assert {id for ids_ in everywhere for id in ids_} == {f"e{i}" for i in range(1, 12)}


@pytest.mark.parametrize(("side", "left"), [("earliest", ["e0", "e1"]), ("latest", ["e2", "e3"])])
def test_full_selects_one_contiguous_range_from_the_side_the_protocol_names(side, left):
    record = chart("a b", "c d", "e f", "g h")
    protocol = Protocol(full_side=side)
    selection = ask("full", record, protocol=protocol, k=1, recency=1, tokens=5)
    assert ids(selection) == left and selection.cut == 2
    assert ("side kept", side) in selection.trace


def test_random_depends_only_on_seed_record_and_question_and_is_nested_in_k():
    record = chart(*(f"line {i}" for i in range(200)))
    few, many = ask("random", record, k=5, recency=0), ask("random", record, k=20, recency=0)
    assert set(ids(few)) < set(ids(many))
    assert ids(ask("random", record, "other words", k=5, recency=0)) == ids(few)
    reseeded = ask("random", record, protocol=Protocol(seed=7), k=20, recency=0)
    assert ids(reseeded) != ids(many)
    other = ARMS.build("random", Protocol()).select(
        record, Instruction("i2", "p1", "fever"), Budget(20, 0)
    )
    assert ids(other) != ids(many)


def test_random_is_uniform():
    """20 of 100 by lot, 400 questions: each line is drawn 80 times on average, SD 8."""
    record = chart(*(f"line {i}" for i in range(100)))
    arm = ARMS.build("random", Protocol())
    drawn = np.zeros(100)
    for i in range(400):
        for line in arm.select(record, Instruction(f"q{i}", "p1", ""), Budget(20, 0)).kept:
            drawn[line.sentence.span.event] += 1
    assert drawn.sum() == 8000 and abs(drawn - 80).max() < 5 * 8


def test_shortest_selects_lines_of_few_tokens_and_earlier_ones_first():
    record = chart("one two three", "one", "one two", "two", "three")
    assert ids(ask("shortest", record, k=3, recency=0)) == ["e1", "e3", "e4"]


def test_oracle_selects_the_evidence_and_fails_with_a_reason_without_it():
    record = chart("fever was noted", "nothing", "fever again", "later")

    def pinned(instruction):
        return {"i1": (Span(0, 0, 5), Span(2, 0, 5)), "late": (Span(9, 0, 3),)}.get(
            instruction.id, ()
        )

    arm = ARMS.build("oracle", Protocol(), pinned=pinned)
    selection = arm.select(record, Instruction("i1", "p1", "?"), Budget(20, 1))
    assert [(k.sentence.id, k.score, k.kept_by) for k in selection.kept] == [
        ("e0", 5.0, "arm"), ("e2", 5.0, "arm"), ("e3", None, "recency"),
    ]  # fmt: skip
    with pytest.raises(InputError, match="'i2' has no located evidence"):
        arm.select(record, Instruction("i2", "p1", "?"), Budget())
    with pytest.raises(InputError, match="'late' is outside the permitted sentences"):
        arm.select(record, Instruction("late", "p1", "?"), Budget())
    with pytest.raises(InputError, match="oracle"):
        ARMS.build("oracle", Protocol())


def test_oracle_fills_up_with_bm25_and_can_leave_the_evidence_out():
    record = chart("fever was noted", "fever plan", "fever again", "plan", "later")
    asked = Instruction("i1", "p1", "What is the plan for fever?")

    def ids_of(**options: bool):
        arm = ARMS.build(
            "oracle", Protocol(), pinned=lambda _: (Span(2, 0, 5), Span(4, 0, 5)), **options
        )
        selection = arm.select(record, asked, Budget(4, 1))
        assert selection.tokens == sum(one.sentence.tokens for one in selection.kept)
        return [one.sentence.id for one in selection.kept]

    assert ids_of() == ["e2", "e4"]
    assert ids_of(fill=True) == ["e1", "e2", "e3", "e4"]
    assert ids_of(fill=True, evidence=False) == ["e1", "e3"]
    assert ids_of(evidence=False) == []


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("HR 8", True), ("HR 80", True), ("Hr 80", False), ("ALLERGIES AND MEDICATIONS", True),
        ("A" * 40, True), ("A" * 41, False), ("12345", False), ("Plan: rest", True),
        ("PLAN", True), ("Planned for May", False), ("follow-up in two weeks", True),
        ("Review of systems negative", True), ("Chief complaint: pain", True),
        ("questions were answered", False), ("  Assessment", True), ("Disposition home", True),
        ("The plan is rest", False), ("Objectively well", False),
    ],
)  # fmt: skip
def test_the_filter_drops_lines_without_clinical_content(text, gone):
    assert dropped(text) is gone


word = st.sampled_from(["a", "b", "c", "d", "e", "fever", "glucose"])
corpora = st.lists(st.lists(word, max_size=9), max_size=12)
queries = st.lists(st.one_of(word, st.just("unseen")), max_size=6)


@settings(deadline=None)
@given(corpora, queries)
@example([], ["a"])  # an empty corpus
@example([[], []], ["a"])  # documents without a word
@example([["a"], ["a"], ["a"]], ["a"])  # every idf below zero, and so the floor
@example([["a"], ["a", "b"], ["a", "c"], []], ["a", "b", "a"])  # over half, asked twice
def test_scores_equal_rank_bm25_bit_for_bit(corpus, query):
    fast = BM25Index(corpus).scores(query)
    if any(corpus):
        plain = BM25Okapi(corpus).get_scores(query)
        assert fast.shape == plain.shape and bool((fast == plain).all())
    else:  # rank_bm25 divides by zero
        assert fast.tolist() == [0.0] * len(corpus)


@settings(deadline=None)
@given(corpora, queries)
@example([["a"], ["b"]], ["a"])  # a word in half of the documents
@example([["a"], ["a", "b"], ["a", "c"], []], ["a", "b", "a"])
def test_non_negative_scores_equal_the_formula_and_are_above_zero_where_a_word_is_shared(
    corpus, query
):
    index = BM25Index(corpus, "non_negative")
    plain = plain_bm25.non_negative([" ".join(line) for line in corpus], " ".join(query))
    assert index.scores(query) == pytest.approx(plain, rel=1e-12)
    shared = [bool(set(line) & set(query)) for line in corpus]
    assert (index.scores(query) > 0).tolist() == index.holding(query).tolist() == shared


@settings(deadline=None)
@given(corpora, queries, st.integers(0, 14), st.integers(0, 3))
def test_a_selection_is_that_of_the_plain_formula_the_reasons_and_the_draw(corpus, query, k, seed):
    lines = [" ".join(line) for line in corpus]
    record = chart(*lines)
    arm = ARMS.build("bm25_ranked", Protocol(seed=seed))
    asked = Instruction("i1", "p1", " ".join(query))
    selected = arm.select(record, asked, Budget(k, 0)).kept
    texts = [line for line in lines if line]
    parts = ("ties", str(seed), record.digest, asked.question)
    drawn = generator(*parts).random(len(texts))
    plain = [round(score, 9) for score in plain_bm25.non_negative(texts, asked.question)]
    reasons = [bool(set(text.split()) & set(query)) for text in texts]
    best = plain_bm25.best(plain, k, reasons, drawn.tolist())
    assert [k.sentence.text for k in selected] == [texts[i] for i in best]
    order = [f"e{i}" for i, line in enumerate(lines) if line]
    assert [k.sentence.id for k in selected] == [order[i] for i in best]


@settings(deadline=None)
@given(corpora, queries, st.sampled_from(["rank_bm25", "non_negative"]))
def test_term_contributions_sum_exactly_to_the_score(corpus, query, idf):
    index = BM25Index(corpus, idf)
    scores = index.scores(query)
    for document, score in enumerate(scores):
        total = 0.0
        for _, part in index.explain(query, document):
            total += part
        assert total == score
