"""An answer as the claim of its reader: what of the chart it rests on, whatever a judge says of it.

A reader's word is never the chart's. Of every answer it is known whether it quotes the evidence,
quotes something else, declines, or has no sentence that supports it; next to it stand the sentences
that were ranked best.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from midchart.core.judges.rules import is_refusal
from midchart.core.text import words
from midchart.core.text.prompt import is_heading
from midchart.core.types import Kept, Sentence

EVIDENCE = "quotes the evidence"
CHART = "quotes the chart"  # where no evidence is marked
OTHER = "quotes something else"
HEADING = "quotes a heading alone"
DECLINES = "found no answer"
UNSUPPORTED = "says what no sentence it got supports"
ANSWERS = (EVIDENCE, CHART, OTHER, UNSUPPORTED)
"""States in which a reader says something of the question."""


class Claim(NamedTuple):
    """What an answer rests on: its state, and its source sentence ("" without one). ``stated``: the
    reader names it, else it is the sentence of the prompt that shares most words."""

    state: str
    source: str = ""
    stated: bool = True


def claim_of(
    text: str,
    sources: Iterable[str],
    prompt: Mapping[str, str],
    evidence: Collection[str],
    refused: bool = False,
) -> Claim:
    """The claim of an answer.

    ``sources``: ids of the sentences that the reader names; ``prompt``: id → text of those that it
    got; ``evidence``: ids of the sentences that hold evidence, none where it is not marked;
    ``refused``: a judge takes it for a refusal.
    """
    if refused or not text.strip() or is_refusal(text):
        return Claim(DECLINES)
    named = [id for id in sources if id in prompt]
    source, stated = next((id for id in named if id in evidence), named[0] if named else ""), True
    if not source:
        answered = set(words(text))
        shared = {id: len(answered & set(words(line))) for id, line in prompt.items()}
        nearest = max(shared, key=shared.__getitem__, default="")
        if not nearest or 2 * shared[nearest] <= len(answered):
            return Claim(UNSUPPORTED)
        source, stated = nearest, False
    if source in evidence:
        return Claim(EVIDENCE, source, stated)
    if is_heading(prompt[source]):
        return Claim(HEADING, source, stated)
    return Claim(OTHER if evidence else CHART, source, stated)


def best_ranked(selected: Iterable[Kept], most: int) -> Sequence[Sentence]:
    """The sentences that an arm ranked best of those it kept, best first; headings and what is only
    recent are left out."""
    scored = [one for one in selected if one.score is not None and one.kept_by != "recency"]
    scored.sort(key=lambda one: -(one.score or 0.0))
    return [one.sentence for one in scored if not is_heading(one.sentence.text)][:most]
