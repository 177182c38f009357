"""Options of judges that ask a language model, prices of Claude, and what a call costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

from pydantic import Field

from midchart.core import config as settings
from midchart.core.config import Secret
from midchart.core.egress import Address, key_at, read_address
from midchart.core.errors import InputError, MissingKey
from midchart.core.options import Options

_PRICE_DATE = "2026-11-21"
_BATCH = 0.5
_CACHE_WRITE, _CACHE_READ = 1.25, 0.1


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens read and written.

    ``cached_from``: least tokens of a prompt's start that can be cached (0: not known, never
    cached). ``temperature``: whether the model takes one.
    """

    read: float
    written: float
    cached_from: int = 0
    temperature: bool = False

    def of(
        self, read: int, written: int, cached: int = 0, stored: int = 0, batch: bool = False
    ) -> float:
        """Dollars for a call: tokens read, written, read from the cache, stored in it."""
        cost = (
            (read + _CACHE_READ * cached + _CACHE_WRITE * stored) * self.read
            + written * self.written
        ) / 1e6
        return cost * _BATCH if batch else cost


PRICES: dict[str, Price] = {
    "claude-haiku-4-5": Price(1.0, 5.0, 4096, True),
    "claude-sonnet-4-5": Price(3.0, 15.0, 1024, True),
    # The documentation says 1,024 for this one; caches were seen from 2,048 on.
    "claude-sonnet-4-6": Price(3.0, 15.0, 2048, True),
    "claude-opus-4-5": Price(5.0, 25.0, 4096, True),
    "claude-opus-4-6": Price(5.0, 25.0, 4096, True),
    "claude-opus-5": Price(5.0, 25.0, 512),
    "claude-sonnet-5-5": Price(2.0, 10.0, 1024),
    "claude-opus-5-5": Price(4.0, 20.0, 512),
}
"""By model id without its date. Haiku 5.5 is left out: its price depends on the prompt's length,
so it takes the options."""


def price_of(model: str, price_in: float = 0.0, price_out: float = 0.0) -> Price | None:
    """The price of a model by the options, else by the table; None where neither has one.

    Raises InputError for one price without the other, or a negative one.
    """
    known = next((p for name, p in PRICES.items() if _is(model, name)), None)
    if not price_in and not price_out:
        return known
    if not (0 < price_in < 1e6 and 0 < price_out < 1e6):
        raise InputError(
            "'price_in' and 'price_out' are US dollars per million tokens, both above 0"
        )
    return replace(known or Price(0.0, 0.0), read=float(price_in), written=float(price_out))


def _is(model: str, name: str) -> bool:
    """Whether ``model`` is ``name`` or ``name`` with a date."""
    rest = model.removeprefix(name)
    return rest != model and (
        not rest or (rest[0] == "-" and len(rest) == 9 and rest[1:].isdigit())
    )


def estimated_tokens(characters: int) -> int:
    """An estimate, rather high, of the tokens of so many characters of English."""
    return -(-characters * 2 // 7)


_CLAUDE = "https://api.anthropic.com"
HAIKU = "claude-haiku-4-5-20251001"
_CLAUDE_KEY, SERVED_KEY = "ANTHROPIC_API_KEY", "MIDCHART_SERVED_KEY"
Seconds = Annotated[float, Field(gt=0, lt=86_400)]
Dollars = Annotated[float, Field(ge=0, lt=1e6)]


class JudgeOptions(Options):
    """Options of every judge that asks a language model."""

    model: str = ""
    """The model's name at its service."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """Concurrent calls."""
    timeout: Seconds = 60.0
    """Seconds a call may take."""
    retries: Annotated[int, Field(ge=0, le=100)] = 5
    """Tries after the first, with backoff."""
    max_tokens: Annotated[int, Field(ge=1, le=64_000)] = 16
    """Most tokens of a verdict: one word, and a few more to see what was written instead."""
    repeats: Annotated[int, Field(ge=1, le=100)] = 1
    """Verdicts per answer."""

    @property
    def address(self) -> str:
        """The server that is called."""
        raise NotImplementedError

    @property
    def price(self) -> Price | None:
        """What the model costs; None where that is not known."""
        return None

    def require(self, judge: str) -> None:
        """Raise InputError or MissingKey where the model cannot be asked; opens no connection."""


class ServedJudgeOptions(JudgeOptions):
    """Options of an on-site model behind an OpenAI-compatible server."""

    url: str = ""
    """The server, for example http://127.0.0.1:8000/v1."""
    timeout: Seconds = 120.0
    """Seconds a call may take."""

    @property
    def address(self) -> str:
        return self.url

    def require(self, judge: str) -> None:
        if not self.url:
            raise InputError(
                f"the judge {judge!r} needs 'url', its server's address, like "
                "http://127.0.0.1:8000/v1"
            )
        read_address(self.url)
        if not self.model:
            raise InputError(f"the judge {judge!r} needs 'model', the model's name on its server")


class ClaudeOptions(JudgeOptions):
    """Options of Claude."""

    model: str = HAIKU
    """The model's id."""
    base_url: str = _CLAUDE
    """The API, or a gateway with the same interface."""
    stream: bool = False
    """Whether the reply is streamed."""
    batch: bool = False
    """Whether all requests form one batch: half the price, results within a day."""
    poll: Annotated[float, Field(ge=1, lt=86_400)] = 30.0
    """Seconds between two status requests of a batch."""
    budget_usd: Annotated[float, Field(ge=0, lt=1e9)] = 0.0
    """US dollars that this judge may spend in a run; 0 is no limit."""
    price_in: Dollars = 0.0
    """US dollars per million tokens read, where the built-in table does not apply."""
    price_out: Dollars = 0.0
    """US dollars per million tokens written, where the built-in table does not apply."""

    @property
    def address(self) -> str:
        return self.base_url

    @property
    def price(self) -> Price | None:
        """By the options, else by the built-in table."""
        return price_of(self.model, self.price_in, self.price_out)

    def require(self, judge: str) -> None:
        if not self.model:
            raise InputError(f"'model' of the judge {judge!r} is empty; the default is {HAIKU}")
        address = read_address(self.base_url, "base_url")
        if self.price is None and self.budget_usd:
            raise InputError(
                f"no price of {self.model} is known, so a budget cannot be kept: give the judge "
                f"{judge!r} 'price_in' and 'price_out', US dollars per million tokens"
            )
        claude_key(address)


class BlindOptions(ClaudeOptions):
    """Options of the blind judge: those of Claude, or of a served model where ``url`` is given."""

    url: str = ""
    """An on-site server; without one Claude is asked."""
    one_word: bool = False
    """Whether the prompt ends with the sighted prompt's demand for one word."""

    @property
    def address(self) -> str:
        return self.url or self.base_url

    @property
    def price(self) -> Price | None:
        return None if self.url else super().price

    def require(self, judge: str) -> None:
        if not self.url:
            return super().require(judge)
        read_address(self.url)
        if not self.model or self.model == HAIKU:
            raise InputError(
                f"the judge {judge!r} with 'url' needs 'model', its name on that server"
            )
        default = ClaudeOptions()
        names = ("base_url", "stream", "batch", "budget_usd")
        wrong = [name for name in names if getattr(self, name) != getattr(default, name)]
        if wrong:
            raise InputError(
                f"{', '.join(wrong)} of the judge {judge!r} belong to Claude; leave them out with "
                "'url'"
            )


def claude_key(address: Address) -> Secret | None:
    """The key of the Claude API where it belongs to an address; a gateway on this machine may need
    none, and one off it gets none that its owner did not give it.

    Raises MissingKey.
    """
    key = key_at(address, _CLAUDE_KEY)
    if key is None and address.host == settings.CLAUDE_HOST:
        raise MissingKey(
            f"{_CLAUDE_KEY} is not set; put it in the environment or in .streamlit/secrets.toml"
        )
    return key


def judge_log(folder: Path | None, label: str) -> Path | None:
    """The log of a judge's budget and batches in a run's folder; None outside a run."""
    if folder is None:
        return None
    return folder / "judging" / f"{blake2b(label.encode(), digest_size=8).hexdigest()}.jsonl"


_VERDICT_TOKENS = 4
"""Tokens of a verdict of one word and what surrounds it."""


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """Of one call: tokens read and written, dollars (None: no price is known), and in words what
    the prompt cache can do and the basis of the price."""

    read_tokens: int
    written_tokens: int
    cost_usd: float | None
    caching: str
    price: str


def estimate_call(
    options: JudgeOptions, shared: float, response: float, sighted: bool
) -> CallEstimate:
    """A call whose prompt has ``shared`` characters besides the response, and so many in it."""
    start, price, model = estimated_tokens(round(shared)), options.price, options.model
    read, written = (
        start + estimated_tokens(round(response)),
        min(_VERDICT_TOKENS, options.max_tokens),
    )
    if price is None:
        return CallEstimate(read, written, None, "not used", f"no price of {model} is known")
    batch: bool = getattr(options, "batch", False)
    if batch:
        caching = "off: a batch is half the price already, and its prompts are not asked in order"
    elif not sighted:
        caching = "off: blind prompts share no start worth keeping"
    elif not price.cached_from:
        caching = f"off: from which length on {model} caches is not known"
    elif start < price.cached_from:
        caching = (
            f"off: prompts on one question share about {start:,} tokens, and {model} caches from "
            f"{price.cached_from:,} on"
        )
    else:
        caching = f"on: prompts on one question share about {start:,} tokens"
    basis = f"prices of {_PRICE_DATE}" + (", halved for a batch" if batch else "")
    return CallEstimate(read, written, price.of(read, written, batch=batch), caching, basis)
