"""What a language model as a judge will read, write and cost, told before it is asked."""

from __future__ import annotations

from dataclasses import dataclass

from core.judges.model.claude_api import about
from core.judges.model.options import Options
from core.judges.model.prices import DATE, Price
from core.judges.model.yes_no import BLIND, SIGHTED

WORD = 4
"""Tokens of a verdict of one word with what surrounds it."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one call: tokens read and written, dollars (None: no price is known), and in words what
    the prompt cache can do and what the price rests on."""

    read_tokens: int
    written_tokens: int
    cost_usd: float | None
    caching: str
    price: str


def forecast(
    question: float,
    evidence: float,
    response: float,
    sighted: bool,
    chosen: Options,
    price: Price | None,
) -> Forecast:
    """A call about a question, evidence and response of so many characters."""
    model, batch = chosen.model, chosen.batch
    frame = len(SIGHTED if sighted else BLIND)
    shared = about(round(question + (evidence if sighted else 0) + frame))
    read = shared + about(round(response))
    written = min(WORD, chosen.max_tokens)
    if price is None:
        return Forecast(read, written, None, "not used", f"no price of {model} is known")
    cost = price.of(read, written, batch=batch)
    return Forecast(
        read, written, cost, _caching(price, shared, sighted, batch, model), _basis(batch)
    )


def _caching(price: Price, shared: int, sighted: bool, batch: bool, model: str) -> str:
    if batch:
        return "off: a batch is half the price already, and its prompts are not asked in order"
    if not sighted:
        return "off: blind prompts share no start worth keeping"
    if not price.cached_from:
        return f"off: from which length on {model} caches is not known"
    if shared < price.cached_from:
        return (
            f"off: prompts on one question share about {shared:,} tokens, and {model} caches from "
            f"{price.cached_from:,} on"
        )
    return f"on: prompts on one question share about {shared:,} tokens"


def _basis(batch: bool) -> str:
    return f"prices of {DATE}" + (", halved for a batch" if batch else "")
