"""The power of a curve's tests, as the tables of ``docs/power.md``: ``python -m core.curve``.

Takes some minutes; the numbers are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from core.curve.power import TESTS, Found, power
from core.curve.simulate import Design, even_design, published_design

DIFFERENCES = (0.0, -0.025, -0.05, -0.075, -0.10, -0.125, -0.15, -0.20)
"""Middle minus edge."""
LIKENESS = 0.42
"""Of the answers to one question: what makes the null of published-like data as wide as the
intervals published with the paper's curve say (docs/power.md)."""


def demo(_: np.random.Generator) -> Design:
    """120 questions, evenly spread, as in the demo cohort."""
    return even_design(120)


DESIGNS: Sequence[tuple[str, Callable[[np.random.Generator], Design], float, float]] = (
    ("The demo: 120 questions, 6 models, answers independent", demo, 0.543, 0.0),
    (f"The demo's size, answers to a question alike ({LIKENESS})", demo, 0.543, LIKENESS),
    (f"Published: 270 questions, 366 places, 6 models, alike ({LIKENESS})",
     published_design, 0.446, LIKENESS),
)  # fmt: skip


def table(title: str, rows: Sequence[Found]) -> str:
    """A design's power in Markdown."""
    lines = [
        f"### {title}",
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


def main() -> None:
    """Print the tables; progress goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m core.curve", description=__doc__)
    parser.add_argument("--datasets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=42)
    call = parser.parse_args()
    for title, design, accuracy, likeness in DESIGNS:
        rows: list[Found] = []
        for number, difference in enumerate(DIFFERENCES):
            print(f"{title}: {difference:+.3f}", file=sys.stderr)
            rng = np.random.default_rng([call.seed, number])
            rows.append(power(design, accuracy, difference, likeness, call.datasets, rng))
        print(table(title, rows), flush=True)


if __name__ == "__main__":
    main()
