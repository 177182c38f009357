"""Every choice that changes a result, as one frozen dataclass with two presets.

``corrected`` is the default. ``published`` is what the paper's run did, one field a fault, so
that each can be turned on alone (docs/methods.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from midchart.core.errors import SpecError, UnknownName
from midchart.core.options import CONFIG, Count, Whole, refusal
from midchart.core.types import Budget

LATER: Mapping[str, str] = {"line_time": "day", "question_place": "after", "second_read": "none"}
"""What runs without these fields did, whatever their preset; these values are in no row key."""
BEFORE: Mapping[str, str] = {
    "scored_text": "plain",
    "unmatched": "kept",
    "ties": "earliest",
    "bm25_idf": "rank_bm25",
}
"""The same of fields that are in every row key."""


@dataclass(frozen=True, slots=True, config=CONFIG)
class Protocol:
    """The choices of a run; names and values of its fields are part of row keys, except
    ``judge_prompt``, which no answer depends on, and the values of :data:`LATER`."""

    preset: str = "corrected"
    """The preset that the other fields change."""
    unit: Literal["sentence", "event"] = "sentence"
    """What is selected: sentences (notes are split) or events (a whole note is one)."""
    sentence_tokens: Annotated[int, Field(ge=4)] = 64
    """Target length of a piece of a note, in tokens; a sentence up to 1.5 times as long is not
    split."""
    scored_text: Literal["titled", "plain"] = "titled"
    """What arms score: a unit's text with the titles above it (note, heading, table header), or its
    text alone (published)."""
    k: Whole = 20
    """Most units that an arm keeps."""
    unmatched: Literal["dropped", "kept"] = "dropped"
    """Units that an arm has no reason to keep, as they share no word with the question and are not
    similar to it: never kept, or used to fill up to k (published)."""
    ties: Literal["drawn", "earliest"] = "drawn"
    """Order of units with equal scores: drawn from the seed, the record and the question, or the
    earliest first (published)."""
    bm25_idf: Literal["non_negative", "rank_bm25"] = "non_negative"
    """Weight of a word in n of N units: ln(1 + (N - n + 0.5) / (n + 0.5)) (Robertson and Zaragoza
    2009, as in Lucene), or that of the package rank_bm25 (published), which is 0 for a word in half
    of the units."""
    recency: Whole = 5
    """Latest events that the recency buffer may show."""
    recency_rule: Literal["share", "events_first"] = "share"
    """How the recency buffer is filled. "share": whole units of its events, newest event first,
    within recency_percent or recency_tokens and only in what the arm's picks leave of the budget.
    "events_first" (published): its events whole, before the picks."""
    recency_percent: Whole = 10
    """Share of the token budget for the recency buffer, in per cent."""
    recency_tokens: Whole = 128
    """Tokens of the recency buffer where there is no token budget."""
    budget_tokens: Whole = 0
    """Token budget of every arm, recency buffer included; 0: none."""
    order: Literal["time", "relevance", "edges", "end"] = "time"
    """Order of the kept sentences in the prompt: by time, best first, best at both ends
    (alternating, the best one first), or best last."""
    line_time: Literal["day", "time"] = "day"
    """What a line of the prompt begins with: the day of its entry, or its time of day as well
    where the entry has one (published). The small reader was trained on days alone: with times it
    gives 5 instead of 56 right answers to the demo's 120 questions from the evidence alone, from
    prompts a fifth longer (docs/line_time.toml)."""
    question_place: Literal["after", "both"] = "after"
    """The question is after the context, or before and after it."""
    second_read: Literal["none", "reversed"] = "none"
    """"reversed": every prompt is read again with the lines of its context in the other order, and
    where the two answers differ in their words, the answer is "Not documented."."""
    interval_events: Literal["named", "dropped"] = "named"
    """Events that only start or end an interval are named or dropped."""
    position: Literal["auto", "order", "time", "token"] = "auto"
    """Position of the evidence used for bands: event index, elapsed time, or share of the record's
    tokens before it (the only meaningful one in a record of few long notes). "auto": "token" where
    the cohort's median record has under 20 events, else "order"."""
    locate: Literal["window", "paper"] = "window"
    """Match of an evidence snippet and an event: by the window that holds most of the snippet, or
    by the paper's score."""
    locate_threshold: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Smallest score of a match."""
    context_tokens: Whole = 0
    """Largest context of a prompt, in tokens; 0: what the reader's window leaves."""
    answer_tokens: Count = 128
    """Tokens reserved for the answer."""
    full_side: Literal["earliest", "latest"] = "latest"
    """Side that the arm full keeps of a record too long for the window."""
    truncation: Literal["context", "right"] = "context"
    """"context": the context is cut first, so the question survives. "right" (published): the
    finished prompt is cut on the right, question included."""
    right_tokens: Count = 4096
    """Tokens at which truncation "right" cuts."""
    right_tokens_full: Count = 16384
    """The same for the arm full."""
    full_characters: Whole = 0
    """Characters from the record's start that the arm full shows; 0: all (published: 32,000)."""
    map_reduce: Literal["folded", "flat"] = "folded"
    """Summaries that do not fit are summarised again, or left for the prompt to cut (published; it
    loses the question at 50 chunks)."""
    llmlingua_characters: Whole = 0
    """Characters of the record that llmlingua2 reads; 0: all (published: 80,000)."""
    llmlingua_threshold: Literal["record", "chunk"] = "record"
    """One threshold for words of the whole record, or the same share of each 512-token chunk (as
    in the package of the published run)."""
    evidence_join: Literal["id", "question_100"] = "id"
    """Evidence is joined to answers by id, or by the question's first 100 characters (published;
    without a match the answer is judged on "nan")."""
    response_characters: Whole = 0
    """Characters of an answer that the judge sees; 0: all (published: 200)."""
    judge_prompt: Literal["fenced", "plain"] = dataclasses.field(default="fenced", repr=False)
    """Prompt of a judge that is a language model: "fenced" marks question, evidence and answer as
    data, "plain" (published) inserts them into its sentences."""
    resamples: Annotated[int, Field(ge=100)] = 5000
    """Bootstrap resamples."""
    seed: Whole = 42
    """Seed of all randomness."""
    intervals: Literal["widened", "percentile"] = "widened"
    """Bootstrap intervals of a share: "widened" to hold the score interval of the same counts and
    omitted below 5 clusters, or plain percentiles (published)."""
    hash: Literal["blake2", "crc32", "salted"] = "blake2"
    """Hash of the gate's n-grams; "salted" (published): trained under one salt, scored under
    another."""
    hash_salt: Whole = 0
    """Salt of the scoring process under "salted"; training has salt 0."""
    gate_text: Literal["whole", "500_characters_128_ngrams"] = "whole"
    """How much of a text the gate reads."""
    gate_positives: Literal["all", "first_3", "evidence"] = "all"
    """Positive sentences of gate training: all that share a content word with the answer, the
    first three that contain a longer word of it as a substring (published), or those that hold the
    located evidence."""
    gate_negatives: Literal["random", "earliest"] = "random"
    """Negative sentences of gate training: random ones or the earliest."""
    prediction_time: Literal["strict", "inclusive"] = "strict"
    """EHRSHOT events used are strictly before the prediction time, or up to and including it."""

    def __repr__(self) -> str:
        values = ((one, getattr(self, one.name)) for one in dataclasses.fields(self) if one.repr)
        shown = [f"{one.name}={value!r}" for one, value in values if value != LATER.get(one.name)]
        return f"Protocol({', '.join(shown)})"

    def budget(self, k: int | None = None) -> Budget:
        """What an arm may keep under this protocol (``k`` overrides the protocol's own)."""
        return Budget(self.k if k is None else k, self.recency, self.budget_tokens or None)

    def buffer_tokens(self, tokens: int | None) -> int | None:
        """Most tokens of the recency buffer under a budget of ``tokens``; None: no limit."""
        if self.recency_rule == "events_first":
            return None
        return self.recency_tokens if tokens is None else tokens * self.recency_percent // 100

    def as_dict(self) -> dict[str, Any]:
        """All fields by name."""
        return dataclasses.asdict(self)

    def differences(self) -> dict[str, tuple[Any, Any]]:
        """Fields that differ from the corrected preset: name → (corrected, here)."""
        base = Protocol().as_dict()
        values = self.as_dict()
        return {k: (base[k], values[k]) for k in values if k != "preset" and base[k] != values[k]}


PRESETS: Mapping[str, Protocol] = {
    "corrected": Protocol(),
    "published": Protocol(
        preset="published",
        unit="event",
        scored_text="plain",
        unmatched="kept",
        ties="earliest",
        bm25_idf="rank_bm25",
        recency_rule="events_first",
        line_time="time",
        position="order",
        locate="paper",
        locate_threshold=0.2,
        truncation="right",
        full_side="earliest",
        full_characters=32_000,
        map_reduce="flat",
        llmlingua_characters=80_000,
        llmlingua_threshold="chunk",
        evidence_join="question_100",
        response_characters=200,
        judge_prompt="plain",
        intervals="percentile",
        hash="salted",
        hash_salt=1,
        gate_text="500_characters_128_ngrams",
        gate_positives="first_3",
        gate_negatives="earliest",
    ),
}


def parse(choice: Any = "corrected") -> Protocol:
    """A protocol from a preset's name or a table ``{preset = "corrected", unit = "event"}``.

    Raises UnknownName for an unknown preset or field, SpecError for a wrong value.
    """
    if isinstance(choice, str):
        choice = {"preset": choice}
    if not isinstance(choice, Mapping):
        raise SpecError(f"'protocol' is {choice!r}; it takes a preset's name or a table")
    changes = dict(cast("Mapping[str, Any]", choice))
    preset = str(changes.pop("preset", "corrected"))
    if preset not in PRESETS:
        raise UnknownName("protocol", preset, PRESETS)
    try:
        return dataclasses.replace(PRESETS[preset], **changes)
    except ValidationError as error:
        raise refusal(error, Protocol, "the protocol") from None
