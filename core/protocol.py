"""Every choice that changes a result, as one frozen dataclass with two presets.

``corrected`` is what a careful group would do and the default. ``published`` is what the paper's
run really did, each fault a switch of its own, so that one can be turned on at a time (PROTOCOL,
throughout).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_type_hints

from core.errors import ProtocolError
from core.types import Budget


@dataclass(frozen=True, slots=True)
class Protocol:
    """The choices of a run.

    unit: what is selected, a "sentence" (notes cut) or an "event" (a whole note is one).
    sentence_tokens: about the longest piece of a note, in tokens; a sentence up to half as long
        again is not cut.
    k: units an arm keeps. recency: the latest events that the recency buffer may show.
    recency_rule: how the buffer is filled. "share": with whole units of those events, newest event
        first, up to ``recency_percent`` of the token budget (``recency_tokens`` tokens where there
        is none), and only in what the arm's own picks leave of the budget. "events_first": with
        those events whole, before the picks (published; in a record of few long notes the buffer
        is then most of the selection, whatever the arm).
    budget_tokens: the same token budget for every arm, recency included; 0 means none.
    order: how kept sentences stand in the prompt, by "time" or by "relevance".
    interval_events: events that only start or end an interval are "named" or "dropped".
    position: position of the evidence used for bands, "order" (event index), "time" (elapsed
        share) or "token" (share of the record's tokens before the evidence; the only one that means
        anything in a record of few long notes). "auto": "token" where the cohort's median record
        has under 20 events, else "order"; a run's plan holds which of the two
        (:func:`core.loaders.position.resolve_position`).
    locate: how well a snippet of evidence and an event match, by the "window" that holds most of
        the snippet, or by the score of the "paper". locate_threshold: the least such score.
    context_tokens: most tokens of a prompt's context; 0 means what the reader's window leaves.
    answer_tokens: tokens reserved for the answer.
    full_side: which side of a record too long for the window ``full`` keeps.
    truncation: "context" budgets the context first, so the question always survives; "right"
        cuts the finished prompt on the right, question and all (a published fault).
    right_tokens, right_tokens_full: where "right" cuts, for all arms and for ``full``.
    full_characters: characters of its context that ``full`` shows, from the record's start; 0
        means all (published: 32,000).
    map_reduce: summaries that a prompt cannot hold are "folded" into summaries of summaries, or
        left "flat" for the prompt to cut (published; it loses the question at 50 chunks).
    llmlingua_characters: characters of the record's text that ``llmlingua2`` reads; 0 means all
        (published: 80,000, so the end of long records was never seen).
    llmlingua_threshold: words are kept by one threshold for the whole "record", or each "chunk"
        of 512 tokens keeps the same share (as the published run's package does).
    evidence_join: evidence joined to answers by "id", or by a "question_100": the first 100
        characters of the question (a published fault; what finds no partner is judged on "nan").
    response_characters: characters of an answer the judge sees; 0 means all (published: 200).
    resamples, seed: bootstrap resamples and the seed of all randomness.
    intervals: bootstrap intervals of a share are "widened" to hold the score interval of the same
        counts and left out for fewer than 5 clusters, or plain "percentile" intervals (published;
        they have no width where none or all are right).
    hash: of the gate's n-grams; "salted" is the published fault: the gate is trained under one
        salt and scores under another, as Python's own hash is salted anew in each process.
    hash_salt: the salt of the scoring process under "salted"; training has salt 0.
    gate_text: how much of a text the gate reads.
    gate_positives: sentences sharing a content word with the answer, or the "first_3" that hold
        a longer word of it as a substring. gate_negatives: "random" others or the "earliest".
    prediction_time: EHRSHOT events used are strictly before it, or up to and including it.
    """

    preset: str = "corrected"
    unit: Literal["sentence", "event"] = "sentence"
    sentence_tokens: int = 64
    k: int = 20
    recency: int = 5
    recency_rule: Literal["share", "events_first"] = "share"
    recency_percent: int = 10
    recency_tokens: int = 128
    budget_tokens: int = 0
    order: Literal["time", "relevance"] = "time"
    interval_events: Literal["named", "dropped"] = "named"
    position: Literal["auto", "order", "time", "token"] = "auto"
    locate: Literal["window", "paper"] = "window"
    locate_threshold: float = 0.8
    context_tokens: int = 0
    answer_tokens: int = 128
    full_side: Literal["earliest", "latest"] = "latest"
    truncation: Literal["context", "right"] = "context"
    right_tokens: int = 4096
    right_tokens_full: int = 16384
    full_characters: int = 0
    map_reduce: Literal["folded", "flat"] = "folded"
    llmlingua_characters: int = 0
    llmlingua_threshold: Literal["record", "chunk"] = "record"
    evidence_join: Literal["id", "question_100"] = "id"
    response_characters: int = 0
    resamples: int = 5000
    seed: int = 42
    intervals: Literal["widened", "percentile"] = "widened"
    hash: Literal["blake2", "crc32", "salted"] = "blake2"
    hash_salt: int = 0
    gate_text: Literal["whole", "500_characters_128_ngrams"] = "whole"
    gate_positives: Literal["all", "first_3"] = "all"
    gate_negatives: Literal["random", "earliest"] = "random"
    prediction_time: Literal["strict", "inclusive"] = "strict"

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
        mine = self.as_dict()
        return {k: (base[k], mine[k]) for k in mine if k != "preset" and base[k] != mine[k]}


PRESETS: Mapping[str, Protocol] = {
    "corrected": Protocol(),
    "published": Protocol(
        preset="published",
        unit="event",
        recency_rule="events_first",
        position="order",
        locate="paper",
        locate_threshold=0.2,
        truncation="right",
        full_side="earliest",
        full_characters=32_000,
        map_reduce="flat",
        llmlingua_characters=80_000,
        llmlingua_threshold="chunk",
        context_tokens=0,
        evidence_join="question_100",
        response_characters=200,
        intervals="percentile",
        hash="salted",
        hash_salt=1,
        gate_text="500_characters_128_ngrams",
        gate_positives="first_3",
        gate_negatives="earliest",
    ),
}

MINIMUM: Mapping[str, float] = {
    "locate_threshold": 0.0,
    "sentence_tokens": 4,
    "k": 0,
    "recency": 0,
    "recency_percent": 0,
    "recency_tokens": 0,
    "budget_tokens": 0,
    "context_tokens": 0,
    "answer_tokens": 1,
    "right_tokens": 1,
    "right_tokens_full": 1,
    "full_characters": 0,
    "llmlingua_characters": 0,
    "response_characters": 0,
    "resamples": 100,
    "seed": 0,
    "hash_salt": 0,
}


MAXIMUM: Mapping[str, float] = {"locate_threshold": 1.0}


def _checked(name: str, value: Any, hint: Any) -> Any:
    choices = get_args(hint)
    if choices:
        if value not in choices:
            valid = ", ".join(map(str, choices))
            raise ProtocolError(f"protocol field {name!r} is {value!r}. Valid: {valid}")
        return value
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint:
        raise ProtocolError(f"protocol field {name!r} is {value!r}; it takes a {hint.__name__}")
    if name in MINIMUM and not value >= MINIMUM[name]:
        raise ProtocolError(f"protocol field {name!r} is {value}; the least is {MINIMUM[name]}")
    if name in MAXIMUM and not value <= MAXIMUM[name]:
        raise ProtocolError(f"protocol field {name!r} is {value}; the most is {MAXIMUM[name]}")
    return value


def parse(choice: str | Mapping[str, Any] = "corrected") -> Protocol:
    """A protocol from a preset's name or a table ``{preset = "corrected", unit = "event"}``.

    Raises ProtocolError for an unknown preset or field, or a wrong value.
    """
    table: Mapping[str, Any] = {"preset": choice} if isinstance(choice, str) else choice
    preset = table.get("preset", "corrected")
    if preset not in PRESETS:
        raise ProtocolError(f"unknown protocol {preset!r}. Valid: {', '.join(PRESETS)}")
    base = PRESETS[preset]
    hints = get_type_hints(Protocol)
    changes: dict[str, Any] = {}
    for name, value in table.items():
        if name == "preset":
            continue
        if name not in hints:
            near = get_close_matches(name, hints, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise ProtocolError(
                f"unknown protocol field {name!r}.{hint} Valid: {', '.join(sorted(hints))}"
            )
        changes[name] = _checked(name, value, hints[name])
    return dataclasses.replace(base, **changes)
