"""Each variant against softmax, and a gated one against its controls as well: accuracy, middle
against edges, and what distractors cost.

A difference is of the same seeds and the same records. Besides the usual interval each has one
that is right for all comparisons of the run at once (Bonferroni), and the number of seeds that
agree with it: a verdict asks for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.inhibition.config import Measures
from core.protocol import Protocol
from core.run.inhibition.spec import REFERENCE
from core.stats import (
    CrossedBootstrap,
    Interval,
    crossed_bootstrap,
    paired_floor,
    share_floor,
)
from core.types import MIDDLE

Table = list[dict[str, Any]]
Floats = NDArray[np.float64]
Condition = tuple[int, int]
ALPHA = 0.05


@dataclass(frozen=True, eq=False, slots=True)
class Answers:
    """Right answers of one placement and variant: ``correct`` float [seeds, records, depths] by
    condition (length, distractors), ``depths`` likewise; ``seeds`` in their order."""

    seeds: tuple[int, ...]
    correct: Mapping[Condition, Floats]
    depths: Mapping[Condition, tuple[float, ...]]


def answers_of(rows: Table) -> Answers:
    """The answers of rows that differ in their seed alone."""
    depths: dict[Condition, list[float]] = {}
    for cell in rows[0]["cells"]:
        depths.setdefault((cell["length"], cell["distractors"]), []).append(cell["depth"])
    correct: dict[Condition, list[Floats]] = {}
    for row in rows:
        for where in depths:
            here = [c["correct"] for c in row["cells"] if (c["length"], c["distractors"]) == where]
            correct.setdefault(where, []).append(np.array(here, dtype=np.float64).T)
    return Answers(
        tuple(row["seed"] for row in rows),
        {where: np.stack(values) for where, values in correct.items()},
        {where: tuple(values) for where, values in depths.items()},
    )


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is compared: in words, how it comes of answers ([seeds, records]), and the conditions
    whose share of right answers it is; none for a difference of shares."""

    words: str
    of: Callable[[Answers], Floats]
    share_of: tuple[Condition, ...] = ()


def quantities(plan: Measures, longest: int) -> dict[str, Quantity]:
    """What is compared, by name."""
    inside = [(n, plan.usual) for n in plan.lengths if n <= longest]
    past = [(n, plan.usual) for n in plan.lengths if n > longest]
    few, many = min(plan.distractors), max(plan.distractors)
    found: dict[str, Quantity] = {}
    for name, where, words in (
        ("inside", inside, "up to the trained length"),
        ("past", past, "past the trained length"),
    ):
        if where:
            found[f"accuracy_{name}"] = Quantity(
                f"accuracy {words}", _over(where, _mean), tuple(where)
            )
            found[f"middle_{name}"] = Quantity(
                f"middle (depth 30–70 %) less edges, {words}",
                _over(where, _middle),
            )
    if few < many:
        cost = _less((plan.base, many), (plan.base, few))
        found["distractors"] = Quantity(f"accuracy with {many} distractors less with {few}", cost)
    return found


def _mean(values: Floats, depths: Sequence[float]) -> Floats:
    return values.mean(axis=2)


def _middle(values: Floats, depths: Sequence[float]) -> Floats:
    """Mean inside the middle less mean outside."""
    inside = np.array([MIDDLE[0] <= depth <= MIDDLE[1] for depth in depths])
    if inside.all() or not inside.any():
        return np.zeros(values.shape[:2])
    return values[:, :, inside].mean(axis=2) - values[:, :, ~inside].mean(axis=2)


def _over(
    where: Sequence[Condition], value: Callable[[Floats, Sequence[float]], Floats]
) -> Callable[[Answers], Floats]:
    def measured(found: Answers) -> Floats:
        every = [value(found.correct[one], found.depths[one]) for one in where]
        return np.mean(every, axis=0)

    return measured


def _less(one: Condition, other: Condition) -> Callable[[Answers], Floats]:
    def measured(found: Answers) -> Floats:
        return found.correct[one].mean(axis=2) - found.correct[other].mean(axis=2)

    return measured


def contrasts(
    answers: Mapping[tuple[str, str], Answers],
    plan: Measures,
    longest: int,
    protocol: Protocol,
    controls: Mapping[str, Sequence[str]],
) -> Table:
    """One row a placement, variant, reference and quantity; softmax's own rows have no difference.

    The ``reference`` is softmax, and after it each of a variant's ``controls`` that is there.
    """
    measured = quantities(plan, longest)
    pairs: list[tuple[str, str, str]] = []
    for placement, variant in answers:
        pairs.append((placement, variant, REFERENCE))
        pairs += [
            (placement, variant, control)
            for control in controls.get(variant, ())
            if (placement, control) in answers
        ]
    compared = sum(
        variant != reference and (placement, reference) in answers
        for placement, variant, reference in pairs
    ) * len(measured)
    table: Table = []
    for placement, variant, reference in pairs:
        found = answers[placement, variant]
        base = answers.get((placement, reference)) if variant != reference else None
        shared = [] if base is None else [seed for seed in found.seeds if seed in base.seeds]
        own = _columns(measured, found)
        means, gaps, ours, theirs = _drawn(own, protocol), None, own[:0], own[:0]
        if base is not None and shared:
            ours = own[[found.seeds.index(seed) for seed in shared]]
            theirs = _columns(measured, base)[[base.seeds.index(seed) for seed in shared]]
            gaps = _drawn(ours - theirs, protocol)
        for column, (name, quantity) in enumerate(measured.items()):
            each = sum(len(found.depths[where]) for where in quantity.share_of)
            floor = record_floor(own[:, :, column], each) if each else None
            row: dict[str, Any] = {
                "placement": placement,
                "variant": variant,
                "reference": reference,
                "quantity": name,
                "words": quantity.words,
                "n": own[:, :, column].size,
                **_interval("value", means, column, floor),
                "seeds": len(found.seeds),
                **dict.fromkeys(("difference", "difference_low", "difference_high")),
                **dict.fromkeys(("all_low", "all_high", "seeds_paired", "seeds_agree")),
                "comparisons": compared,
            }
            if gaps is not None:
                pair = ours[:, :, column], theirs[:, :, column]
                by_seed = (pair[0] - pair[1]).mean(axis=1)
                own_floor, all_floor = (
                    _paired_floor(*pair, each, level) if each else None
                    for level in (1 - ALPHA, 1 - ALPHA / compared)
                )
                ends = gaps.reported(column, all_floor, 1 - ALPHA / compared)
                row |= _interval("difference", gaps, column, own_floor) | {
                    **dict(zip(("all_low", "all_high"), ends or (None, None), strict=True)),
                    "seeds_paired": len(shared),
                    "seeds_agree": int((by_seed * by_seed.mean() > 0).sum()),
                }
            table.append(row)
    return table


def _columns(measured: Mapping[str, Quantity], found: Answers) -> Floats:
    """All quantities [seeds, records, quantities]."""
    return np.stack([quantity.of(found) for quantity in measured.values()], axis=2)


def _drawn(values: Floats, protocol: Protocol) -> CrossedBootstrap:
    rng = np.random.default_rng(protocol.seed)
    return crossed_bootstrap(values, protocol.resamples, rng)


def _interval(
    name: str, found: CrossedBootstrap, column: int, floor: Interval | None
) -> dict[str, float | None]:
    low, high = found.reported(column, floor) or (None, None)
    return {name: float(found.estimate[column]), f"{name}_low": low, f"{name}_high": high}


def record_floor(values: Floats, answers: int) -> Interval:
    """Score interval of a share over records, which are the clusters (:func:`share_floor`).

    ``values`` [seeds, records]: shares of right answers, each of so many ``answers``.
    """
    seeds, records = values.shape
    right = answers * values.sum(axis=0)
    return share_floor(right, np.full(records, float(answers * seeds)), 1 - ALPHA)


def _paired_floor(ours: Floats, theirs: Floats, answers: int, level: float) -> Interval:
    """Newcombe's paired interval over records (:func:`paired_floor`) of shares [seeds, records]:
    of two shares m and o, so many ``answers`` count m·o, m(1 − o), o(1 − m) and (1 − m)(1 − o)."""
    cells = (ours * theirs, ours * (1 - theirs), theirs * (1 - ours), (1 - ours) * (1 - theirs))
    return paired_floor(np.stack([answers * of.sum(axis=0) for of in cells], axis=1), level)
