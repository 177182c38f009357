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
from core.stats import FEWEST_CLUSTERS, WithinContrast, holm_adjust, within_contrast

ALPHA = 0.05
_TESTED = (
    "series", "moving", "patients", "middle", "edge", "difference", "ci_low", "ci_high", "p",
)  # fmt: skip


def contrasts(said: Sequence[Row], plan: Plan) -> Table:
    """Middle less edge for every arm entry × reader × judge; ``said`` as of needle_rows.

    ``moving`` counts series that are right at one depth and wrong at another, ``left_out`` those
    without a judged item on both sides; all is null where no series has both. ``bound_low`` and
    ``bound_high``: the difference were all ``unscored`` items wrong in the middle and right at the
    edges, or the other way round; ``p_bound`` is of the one against the difference seen, 1 where
    it is 0 or of the other sign. ``in_prompt_middle``
    and ``in_prompt_edge``: shares of prompts that held the needle.
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
        for name in ("p", "p_bound"):
            adjusted = holm_adjust([row[name] for row in family])
            for row, p in zip(family, adjusted, strict=True):
                row[f"{name}_holm"] = float(p)
        for row in family:
            row["tests"] = len(family)
    return rows


def _tested(own: Sequence[Row], plan: Plan, *name: str) -> Row:
    series = {(row["record"], row["needle"], row["length"], row["distractors"]) for row in own}
    found = _contrast(own, plan, None, *name)
    unscored = sum(row["correct"] is None for row in own)
    base: Row = {
        **dict.fromkeys((*_TESTED, "bound_low", "bound_high", "p_bound", "p_holm", "p_bound_holm")),
        "tests": 0,
        "left_out": len(series),
        "unscored": unscored,
    }
    if found is None:
        return base | {"series": 0, "moving": 0, "patients": 0}
    low = high = found
    if unscored:
        low = _contrast(own, plan, False, *name) or found
        high = _contrast(own, plan, True, *name) or found
    against = low if found.difference > 0 else high
    holds = against.difference * found.difference > 0
    answers: dict[tuple[Any, ...], set[bool]] = {}
    for row in own:
        if row["correct"] is not None:
            key = (row["record"], row["needle"], row["length"], row["distractors"])
            answers.setdefault(key, set()).add(row["correct"])
    return base | {
        "series": found.rows,
        "moving": sum(len(values) > 1 for values in answers.values()),
        "patients": found.clusters,
        "middle": found.inside,
        "edge": found.outside,
        "difference": found.difference,
        "ci_low": known(found.low),
        "ci_high": known(found.high),
        "bound_low": low.difference,
        "bound_high": high.difference,
        "p": found.p_value,
        "p_bound": against.p_value if holds else 1.0,
        "left_out": len(series) - found.rows,
    }


def _contrast(
    own: Sequence[Row], plan: Plan, middle: bool | None, *name: str
) -> WithinContrast | None:
    """Middle less edge of all series, unscored items left out; with ``middle`` given they count as
    right in the middle and wrong at the edges (True), or the other way round (False)."""
    depths = sorted({row["depth"] for row in own})
    column = {depth: i for i, depth in enumerate(depths)}
    inside = [is_middle(depth / 100) for depth in depths]
    series: dict[tuple[Any, ...], list[float]] = {}
    for row in own:
        key = (row["record"], row["needle"], row["length"], row["distractors"])
        values = series.setdefault(key, [float("nan")] * len(depths))
        at, correct = column[row["depth"]], row["correct"]
        if correct is None and middle is not None:
            correct = inside[at] == middle
        if correct is not None:
            values[at] = float(correct)
    if not series:
        return None
    return within_contrast(
        np.array(list(series.values())),
        [key[0] for key in series],
        inside,
        plan.protocol.resamples,
        generator(plan, "contrast", *name),
    )


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
        why = "try longer records or distractors." if middle == 1.0 else "the task is too hard."
        return (
            f"{who}: {said} ({counted}), so this run cannot show an effect of position; {why}"
            f"{_unscored(row)}"
        )
    if not row["moving"]:
        return (
            f"{who}: no needle's answer changes with its depth; {_percent(middle)} are right at "
            f"every depth, the others at none ({counted}). In this run place made no difference."
            f"{_unscored(row)}"
        )
    numbers = (
        f"{_percent(middle)} right at middle depths, {_percent(edge)} at the edges, difference "
        f"{100 * difference:+.1f} points{_interval(row)}, p {_p(row['p_holm'])} after Holm over "
        f"{_n(row['tests'], 'test')}, {counted}, {row['moving']} of which change with depth"
    )
    if row["p_holm"] <= ALPHA < row["p_bound_holm"]:
        return (
            f"{who}: no difference between middle and edge is claimed, as unscored answers could "
            f"overturn it: {numbers}.{_unscored(row)}"
        )
    if row["p_holm"] <= ALPHA:
        moved = "worse" if difference < 0 else "better"
        return (
            f"{who}: {moved} in the middle: {numbers}. Only the place changed."
            f"{_why(row)}{_unscored(row)}"
        )
    return (
        f"{who}: no difference between middle and edge was shown: {numbers}. That is no proof "
        f"that there is none: what the interval holds stays possible.{_unscored(row)}"
    )


def _unscored(row: Row) -> str:
    """How far the unscored items could move the difference; nothing where all are scored."""
    if not row["unscored"]:
        return ""
    return (
        f" {_n(row['unscored'], 'answer')} unscored: with all of them counted the difference lies "
        f"between {100 * row['bound_low']:+.1f} and {100 * row['bound_high']:+.1f} points."
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
