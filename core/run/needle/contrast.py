"""Middle depths against edge depths, each needle with itself; and what that says in words.

A series is one needle in one record at one length with one number of distractors, seen at every
depth. The one contrast was chosen beforehand (PROTOCOL: middle is .3 to .7), over all lengths and
numbers of distractors; p is by permutation within patients, with Holm over the arms and readers
of a judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.evidence import is_middle
from core.run.needle.said import Row, of_cells
from core.run.plan import Plan
from core.run.tables.common import Table, generator, known
from core.stats import FEWEST_CLUSTERS, holm_adjust, within_contrast

ALPHA = 0.05
_TESTED = (
    "series", "moving", "patients", "middle", "edge", "difference", "ci_low", "ci_high", "p",
)  # fmt: skip


def contrasts(said: Sequence[Row], plan: Plan) -> Table:
    """Middle less edge for every arm entry × reader × judge; ``said`` as of needle_rows.

    ``moving`` counts series that are right at one depth and wrong at another, ``left_out`` those
    without a judged item on both sides; all is null where no series has both.
    ``in_prompt_middle`` and ``in_prompt_edge``: shares of prompts that held the needle.
    """
    rows: Table = [
        {
            **named,
            **_tested(own, plan, named["label"], named["reader"], named["judge"]),
            "in_prompt_middle": _in_prompt(own, True),
            "in_prompt_edge": _in_prompt(own, False),
        }
        for named, own in of_cells(said, plan)
    ]
    for judge in plan.judges:
        family = [row for row in rows if row["judge"] == judge and row["p"] is not None]
        for row, p in zip(family, holm_adjust([row["p"] for row in family]), strict=True):
            row["p_holm"] = float(p)
            row["tests"] = len(family)
    return rows


def _tested(own: Sequence[Row], plan: Plan, *name: str) -> Row:
    depths = sorted({row["depth"] for row in own})
    column = {depth: i for i, depth in enumerate(depths)}
    series: dict[tuple[Any, ...], list[float]] = {}
    for row in own:
        key = (row["record"], row["needle"], row["length"], row["distractors"])
        values = series.setdefault(key, [float("nan")] * len(depths))
        if row["correct"] is not None:
            values[column[row["depth"]]] = float(row["correct"])
    found = None
    if series:
        found = within_contrast(
            np.array(list(series.values())),
            [key[0] for key in series],
            [is_middle(depth / 100) for depth in depths],
            plan.protocol.resamples,
            generator(plan, "contrast", *name),
        )
    base: Row = {**dict.fromkeys(_TESTED), "p_holm": None, "tests": 0, "left_out": len(series)}
    if found is None:
        return base | {"series": 0, "moving": 0, "patients": 0}
    moving = sum(len({v for v in values if v == v}) > 1 for values in series.values())
    return base | {
        "series": found.rows,
        "moving": moving,
        "patients": found.clusters,
        "middle": found.inside,
        "edge": found.outside,
        "difference": found.difference,
        "ci_low": known(found.low),
        "ci_high": known(found.high),
        "p": found.p_value,
        "left_out": len(series) - found.rows,
    }


def _in_prompt(own: Sequence[Row], middle: bool) -> float | None:
    here = [
        float(row["evidence_in_prompt"])
        for row in own
        if row["evidence_in_prompt"] is not None and is_middle(row["depth"] / 100) == middle
    ]
    return sum(here) / len(here) if here else None


def verdicts(tests: Table) -> Table:
    """What each contrast says, in plain words."""
    names = ("arm", "k", "label", "budget", "reader", "judge")
    return [{**{name: row[name] for name in names}, "text": in_words(row)} for row in tests]


def in_words(row: Row) -> str:
    """One contrast in words that a clinician can read and a statistician cannot fault."""
    who = f"{row['label']} read by {row['reader']}, judged by {row['judge']}"
    if row["difference"] is None:
        return (
            f"{who}: middle and edge cannot be compared; no needle has a judged answer at a middle "
            "depth (30 to 70 %) and at another."
        )
    counted = f"{_n(row['series'], 'series')} of {_n(row['patients'], 'patient')}"
    middle, edge, difference = row["middle"], row["edge"], row["difference"]
    if middle == edge and middle in (0.0, 1.0):
        said = "right at every depth" if middle == 1.0 else "wrong at every depth"
        return f"{who}: {said} ({counted}), so this run cannot show an effect of position; " + (
            "try longer records or distractors." if middle == 1.0 else "the task is too hard."
        )
    if not row["moving"]:
        return (
            f"{who}: no needle's answer changes with its depth; {_percent(middle)} are right at "
            f"every depth, the others at none ({counted}). In this run place made no difference."
        )
    numbers = (
        f"{_percent(middle)} right at middle depths, {_percent(edge)} at the edges, difference "
        f"{100 * difference:+.1f} points{_interval(row)}, p {_p(row['p_holm'])} after Holm over "
        f"{_n(row['tests'], 'test')}, {counted}, {row['moving']} of which change with depth"
    )
    if row["p_holm"] <= ALPHA:
        moved = "worse" if difference < 0 else "better"
        return f"{who}: {moved} in the middle: {numbers}. Only the place changed.{_why(row)}"
    return (
        f"{who}: no difference between middle and edge was shown: {numbers}. That is no proof "
        "that there is none: what the interval holds stays possible."
    )


def _why(row: Row) -> str:
    """Whether the selection or the reading makes the difference."""
    middle, edge = row["in_prompt_middle"], row["in_prompt_edge"]
    if middle is None or edge is None:
        return ""
    if middle == edge == 1.0:
        return " Every prompt held the needle, so the difference is the reader's."
    return (
        f" The prompt held the needle in {_percent(middle)} of the middle and {_percent(edge)} of "
        "the edge items, so part of it may be the selection's."
    )


def _interval(row: Row) -> str:
    if row["ci_low"] is None:
        return f" (no interval: fewer than {FEWEST_CLUSTERS} patients)"
    return f" (95 % interval {100 * row['ci_low']:+.1f} to {100 * row['ci_high']:+.1f})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _p(p: float) -> str:
    return "< .001" if p < 0.001 else f"= {p:.3f}".replace("0.", ".", 1)


def _n(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 or word.endswith("s") else "s")
