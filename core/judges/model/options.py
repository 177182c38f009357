"""The options that judges with a language model share, checked without a connection.

A judge's constructor names its options and what each is where a spec leaves it out; here they are
read from it, so that no default is written twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

from core import config as settings
from core.config import Secret
from core.egress import read_address
from core.errors import InputError, MissingKey
from core.judges.model.claude_api import DATE, Asking, Price, about, price_of
from core.judges.model.judge import BLIND, SIGHTED

CLAUDE = "https://api.anthropic.com"
HAIKU = "claude-haiku-4-5-20251001"
CLAUDE_KEY, SERVED_KEY = "ANTHROPIC_API_KEY", "MIDCHART_SERVED_KEY"
MAX_TOKENS = 16
"""Enough for one word, and for a few more to see what was said in its place."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a judge is set to; what only some judges take is off where it is left out."""

    model: str
    concurrency: int
    timeout: float
    retries: int
    max_tokens: int
    repeats: int
    url: str = ""
    base_url: str = CLAUDE
    batch: bool = False
    poll: float = 30.0
    budget_usd: float = 0.0
    price_in: float = 0.0
    price_out: float = 0.0

    @property
    def price(self) -> Price | None:
        """What the model costs, where that is known."""
        return price_of(self.model, self.price_in, self.price_out)


def of(judge: Callable[..., Any], given: Mapping[str, Any]) -> Options:
    """The options of a judge: those given, and its constructor's own for the rest."""
    usual = {name: one.default for name, one in inspect.signature(judge).parameters.items()}
    every = {**usual, **given}
    return Options(**{one.name: every[one.name] for one in fields(Options) if one.name in every})


def claude_key(local: bool) -> Secret | None:
    """The key of the Claude API; a gateway on this machine (``local``) may need none.

    Raises MissingKey.
    """
    key = settings.secret(CLAUDE_KEY)
    if key is None and not local:
        raise MissingKey(
            f"{CLAUDE_KEY} is not set; put it in the environment or in .streamlit/secrets.toml"
        )
    return key


def served_key() -> Secret | None:
    """The key of an on-site server, where it wants one."""
    return settings.secret(SERVED_KEY)


def check_numbers(judge: str, chosen: Options) -> None:
    """Raise InputError for a number out of its range."""
    for name, value, least, most in (
        ("concurrency", chosen.concurrency, 1, 256),
        ("retries", chosen.retries, 0, 100),
        ("max_tokens", chosen.max_tokens, 1, 64_000),
        ("repeats", chosen.repeats, 1, 100),
    ):
        if type(value) is not int or not least <= value <= most:
            raise InputError(
                f"{name!r} of the judge {judge!r} is a whole number from {least} to {most:,}"
            )
    if not 0 < chosen.timeout < 86_400:
        raise InputError(f"'timeout' of the judge {judge!r} is a number of seconds above 0")


def check_claude(judge: str, chosen: Options) -> None:
    """Raise InputError or MissingKey for options with which Claude cannot be asked."""
    if not chosen.model:
        raise InputError(f"'model' of the judge {judge!r} is empty; the default is {HAIKU}")
    address = read_address(chosen.base_url, "base_url")
    price = chosen.price
    if chosen.budget_usd < 0 or not chosen.budget_usd < 1e9:
        raise InputError(f"'budget_usd' of the judge {judge!r} is US dollars, 0 for no limit")
    if not 1 <= chosen.poll < 86_400:
        raise InputError(f"'poll' of the judge {judge!r} is a number of seconds from 1")
    for name, dollars in (("price_in", chosen.price_in), ("price_out", chosen.price_out)):
        if not 0 <= dollars < 1e6:
            raise InputError(f"{name!r} of the judge {judge!r} is US dollars per million tokens")
    if chosen.budget_usd and price is None:
        raise InputError(
            f"no price of {chosen.model} is known, so a budget cannot be kept: give the judge "
            f"{judge!r} 'price_in' and 'price_out', US dollars per million tokens"
        )
    claude_key(address.local)


def asking(
    model: str, max_tokens: int, timeout: float, price_in: float, price_out: float, stream: bool
) -> Asking:
    """How Claude is asked, by these options."""
    return Asking(model, max_tokens, timeout, price_of(model, price_in, price_out), stream)


def check_served(judge: str, chosen: Options) -> None:
    """Raise InputError where an on-site model cannot be found by these options."""
    if not chosen.url:
        raise InputError(
            f"the judge {judge!r} needs 'url', its server's address, like http://127.0.0.1:8000/v1"
        )
    read_address(chosen.url)
    if not chosen.model:
        raise InputError(f"the judge {judge!r} needs 'model', the model's name on its server")


def check_no_claude(judge: str, chosen: Options) -> None:
    """Raise InputError for options of Claude given beside an on-site server."""
    given = {
        "model": chosen.model == HAIKU,
        "batch": chosen.batch,
        "budget_usd": bool(chosen.budget_usd),
        "base_url": chosen.base_url != CLAUDE,
    }
    wrong = [name for name, is_claudes in given.items() if is_claudes]
    if wrong == ["model"]:
        raise InputError(f"the judge {judge!r} with 'url' needs 'model', its name on that server")
    if wrong:
        raise InputError(
            f"{', '.join(wrong)} of the judge {judge!r} belong to Claude; leave them out with 'url'"
        )


def book(folder: Path | None, label: str) -> Path | None:
    """The file in which a judge of a run keeps what it spent and asked for; None outside a run."""
    if folder is None:
        return None
    return folder / "judging" / f"{blake2b(label.encode(), digest_size=8).hexdigest()}.jsonl"


# What a language model as a judge will read, write and cost, told before it is asked.


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
