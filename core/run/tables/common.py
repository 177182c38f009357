"""What all tables of a report share: bands, names of arm entries, intervals of a share.

Intervals' draws are seeded by the protocol's seed and the row's own name, so a row's interval
depends on nothing but its counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from math import isnan
from typing import Any

import numpy as np

from core.run.entries import ArmEntry
from core.run.evidence import UNLOCATED
from core.run.plan import Plan
from core.stats import bootstrap_proportion, wilson_interval
from core.types import BANDS

Table = list[dict[str, Any]]
ALL_BANDS = (*(name for name, _, _ in BANDS), "middle", "edge", "overall")
WIDE_BANDS = ("overall", "middle", "edge")


def bands_of(row: Mapping[str, Any]) -> list[str]:
    """The bands in which a row with ``band`` and ``middle`` counts."""
    if row["band"] == UNLOCATED:
        return ["overall"]
    return [row["band"], "middle" if row["middle"] else "edge", "overall"]


def generator(plan: Plan, *name: object) -> np.random.Generator:
    """A generator of a row's own, by the protocol's seed and the row's name."""
    own = blake2b("\0".join(map(str, name)).encode("utf-8", "surrogatepass"), digest_size=8)
    return np.random.default_rng([plan.protocol.seed, int.from_bytes(own.digest(), "big")])


def intervals(hits: int, n: int, plan: Plan, *name: object) -> dict[str, Any]:
    """Share with bootstrap and Wilson bounds; all null where n is 0.

    ``ci`` is the percentile bootstrap of rows; under ``protocol.intervals = "widened"`` it also
    holds Wilson's interval, so that it has a width where none or all are right.
    """
    if n == 0:
        return dict.fromkeys(("share", "ci_low", "ci_high", "wilson_low", "wilson_high"))
    drawn = bootstrap_proportion(hits, n, plan.protocol.resamples, generator(plan, *name))
    wilson = wilson_interval(hits, n)
    low, high = drawn.low, drawn.high
    if plan.protocol.intervals == "widened":
        low, high = min(low, wilson.low), max(high, wilson.high)
    return {
        "share": drawn.estimate,
        "ci_low": low,
        "ci_high": high,
        "wilson_low": wilson.low,
        "wilson_high": wilson.high,
    }


def entry_columns(entry: ArmEntry) -> dict[str, Any]:
    """How a row names its arm entry; ``label`` tells apart what arm and k do not."""
    return {
        "arm": entry.name,
        "k": entry.shown_k,
        "label": entry.label,
        "budget": entry.shown_budget,
    }


def cells(plan: Plan) -> Iterator[tuple[ArmEntry, str, str]]:
    """Every arm entry × reader × judge of a run, in the order of its spec."""
    for entry in plan.arms:
        for reader in plan.readers:
            for judge in plan.judges:
                yield entry, reader, judge


def known(value: float) -> float | None:
    """A number, or None for one that is not defined (nan)."""
    return None if isnan(value) else float(value)


def literal(text: str) -> str:
    """A text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"
