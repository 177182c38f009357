"""What a million tokens of a Claude model cost, and from which length on a prompt is cached.

Prices of the Claude API in US dollars as of :data:`DATE` (platform.claude.com, Models & pricing);
the Message Batches API halves them, writing to the prompt cache costs 1.25 times the input price
and reading from it a tenth (a twentieth or less on the newest models; the tenth is kept, so no
estimate is too low). A model that is not here, or has another price for you, takes the options
``price_in`` and ``price_out``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.errors import InputError

DATE = "2026-11-21"
BATCH = 0.5
CACHE_WRITE, CACHE_READ = 1.25, 0.1


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens read and written.

    ``cached_from``: tokens from which on a prompt's start can be cached (0: not known, never
    cached). ``temperature``: whether the model takes one.
    """

    read: float
    written: float
    cached_from: int = 0
    temperature: bool = False

    def of(
        self, read: int, written: int, cached: int = 0, stored: int = 0, batch: bool = False
    ) -> float:
        """Dollars for a call: tokens read anew, written, read from the cache, stored in it."""
        whole = (
            (read + CACHE_READ * cached + CACHE_WRITE * stored) * self.read + written * self.written
        ) / 1e6
        return whole * BATCH if batch else whole


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
"""By model id without its date. Haiku 5.5 is not here: its price depends on the prompt's length,
so it takes the options."""


def price_of(model: str, price_in: float = 0.0, price_out: float = 0.0) -> Price | None:
    """The price of a model; the options go before the table; None where neither tells.

    Raises InputError for half a price or one below nought.
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
