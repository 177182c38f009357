"""Prices of Claude, and what a call of any priced model costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from midchart.core.errors import InputError

PRICE_DATE = "2026-11-21"
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

    def of(self, read: int, written: int, cached: int = 0, stored: int = 0) -> float:
        """Dollars for a call: tokens read, written, read from the cache, stored in it."""
        tokens = read + _CACHE_READ * cached + _CACHE_WRITE * stored
        return (tokens * self.read + written * self.written) / 1e6


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


RETIRED: dict[str, tuple[date, str]] = {
    "claude-mythos-preview": (date(2026, 6, 30), "claude-mythos-5"),
    "claude-sonnet-4-5": (date(2026, 11, 30), "claude-sonnet-5-5"),
    "claude-opus-4-5": (date(2027, 1, 22), "claude-opus-5-5"),
}
"""The day from which Anthropic's API no longer answers for a model, and its successor."""


def require_current(model: str, today: date) -> None:
    """Raise InputError for a model that Anthropic has retired, with its successor."""
    for name, (day, successor) in RETIRED.items():
        if _is(model, name) and today >= day:
            raise InputError(
                f"{model} was retired by Anthropic on {day.isoformat()}; use its successor "
                f"{successor}, or another current model"
            )


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
