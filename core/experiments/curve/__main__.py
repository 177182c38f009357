"""The power of a curve's tests, as the tables of ``docs/power.md``: ``python -m
core.experiments.curve``.

Takes some minutes; the numbers are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from core.experiments.curve.power import (
    TESTS,
    Chance,
    Design,
    Found,
    chance,
    even_design,
    power,
    published_design,
)

DIFFERENCES = (0.0, -0.025, -0.05, -0.075, -0.10, -0.125, -0.15, -0.20)
"""Middle minus edge."""
LIKENESS = 0.42
"""Of the answers to one question: what makes the null of published-like data as wide as the
intervals published with the paper's curve say (docs/power.md)."""


def demo(_: np.random.Generator) -> Design:
    """120 questions, evenly spread, as in the demo cohort."""
    return even_design(120)


LIKENESSES = (0.0, 0.2, 0.3, LIKENESS, 0.5, 0.6)
ACCURACY, GAP = 0.446, 0.219
"""Of the published data: right over all answers, and best less worst decile."""

DESIGNS: Sequence[tuple[str, Callable[[np.random.Generator], Design], float, float]] = (
    ("The demo: 120 questions, 6 models, answers independent", demo, 0.543, 0.0),
    (f"The demo's size, answers to a question alike ({LIKENESS})", demo, 0.543, LIKENESS),
    (f"Published: 270 questions, 366 places, 6 models, alike ({LIKENESS})",
     published_design, ACCURACY, LIKENESS),
)  # fmt: skip


def table(title: str, rows: Sequence[Found]) -> str:
    """A design's power in Markdown."""
    lines = [
        f"## {title}",
        "",
        "| middle − edge, points | " + " | ".join(TESTS) + " | gap seen | gap expected by chance |",
        "|---" * (len(TESTS) + 3) + "|",
    ]
    for row in rows:
        cells = [f"{100 * row.difference:+.1f}" if row.difference else "0 (false alarms)"]
        for test in TESTS:
            share, low, high = row.share(test)
            cells.append(f"{100 * share:.0f} % [{100 * low:.0f}–{100 * high:.0f}]")
        cells += [f"{100 * row.gap:.1f}", f"{100 * row.null_gap:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def chances(rows: Sequence[Chance]) -> str:
    """What chance alone makes of the published counts, in Markdown."""
    lines = [
        "## Published counts without any effect of position",
        "",
        f"| answers alike | mean gap | gap of {100 * GAP:.1f} or more | bend, standard error "
        "| mean width of an interval |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.likeness:.2f} | {100 * row.gap:.1f} | {100 * row.as_large:.0f} % | "
        f"{row.bend_error:.2f} | {100 * row.width:.1f} |"
        for row in rows
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Print the tables; progress goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m core.experiments.curve", description=__doc__)
    parser.add_argument("--datasets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=42)
    call = parser.parse_args()
    nothing: list[Chance] = []
    for number, likeness in enumerate(LIKENESSES):
        rng = np.random.default_rng([call.seed, 100 + number])
        nothing.append(chance(published_design, ACCURACY, GAP, likeness, call.datasets, rng))
    print(chances(nothing), flush=True)
    for title, design, accuracy, likeness in DESIGNS:
        rows: list[Found] = []
        for number, difference in enumerate(DIFFERENCES):
            print(f"{title}: {difference:+.3f}", file=sys.stderr)
            rng = np.random.default_rng([call.seed, number])
            rows.append(power(design, accuracy, difference, likeness, call.datasets, rng))
        print(table(title, rows), flush=True)


if __name__ == "__main__":
    main()
