"""What an inhibition run shows, in plain words; that nothing holds is a verdict too.

A gated variant is taught which line holds the evidence, and no other variant is. So a difference of
it from softmax is claimed only where it is shown against both of its controls too: softmax with the
same gate and loss, and the same attention with a gate that was taught shuffled labels.

A difference from softmax is shown where the interval that is right for all comparisons together
leaves out 0 and every seed agrees. "Flatter" asks for more: softmax's curve must sag in the middle
first (or bulge), and the variant's must do so less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.experiments.inhibition.config import Measures
from core.experiments.inhibition.spec import REFERENCE, controls_of
from core.protocol import Protocol
from core.stats.crossed import FEWEST_SEEDS, CrossedBootstrap, crossed_bootstrap
from core.stats.intervals import Interval
from core.stats.reported import paired_floor, share_floor
from core.types import MIDDLE

Table = list[dict[str, Any]]
LEARNED = 0.5
"""Accuracy at trained lengths below which a decoder's curve says little of its attention."""
SHOWN = ("higher", "lower")
FINISHED = 0.98
"""Accuracy in training below which a decoder was still learning."""


def finding(row: Mapping[str, Any]) -> str:
    """reference, not compared, too few seeds, higher, lower, or no difference shown."""
    if row["variant"] == row["reference"]:
        return "reference"
    if row["difference"] is None:
        return "not compared"
    if row["seeds_paired"] < FEWEST_SEEDS:
        return "too few seeds"
    if row["seeds_agree"] == row["seeds_paired"] and row["all_low"] is not None:
        if row["all_low"] > 0:
            return "higher"
        if row["all_high"] < 0:
            return "lower"
    return "no difference shown"


def claimed(contrasts: Table, options: Mapping[str, Any]) -> list[str]:
    """What may be said of each row of the table ``contrasts``.

    :func:`finding`, but of a gated variant against softmax "higher" and "lower" only where both
    controls leave it; else "no controls" where one is not there, "not beyond its controls", or
    "controls still learning" where one of them never learned to look facts up.
    """
    controls = controls_of(options)
    found = {
        (row["placement"], row["variant"], row["reference"], row["quantity"]): finding(row)
        for row in contrasts
    }
    inside = {
        (row["placement"], row["variant"]): row["value"]
        for row in contrasts
        if row["quantity"] == "accuracy_inside"
    }
    told: list[str] = []
    for row in contrasts:
        said = finding(row)
        if said in SHOWN and row["reference"] == REFERENCE and row["variant"] in controls:
            others = [
                (row["placement"], row["variant"], control, row["quantity"])
                for control in controls[row["variant"]]
            ]
            places = [(row["placement"], control) for control in controls[row["variant"]]]
            if any(one not in found for one in others):
                said = "no controls"
            elif any(found[one] != said for one in others):
                said = "not beyond its controls"
            elif any(inside.get(place, 1.0) < LEARNED for place in places):
                said = "controls still learning"
        told.append(said)
    return told


def verdicts(contrasts: Table, models: Table, options: Mapping[str, Any]) -> Table:
    """A headline, then a text each placement, variant and quantity; ``models`` are the decoders,
    a row each."""
    told = [
        {
            "placement": row["placement"],
            "variant": row["variant"],
            "reference": row["reference"],
            "quantity": row["quantity"],
            "finding": said,
            "text": in_words(row, said),
        }
        for row, said in zip(contrasts, claimed(contrasts, options), strict=True)
    ]
    if not told:
        return []
    head = {"placement": "all", "variant": "all", "reference": "all", "quantity": "headline"}
    return [{**head, "finding": "", "text": headline(contrasts, models, options)}, *told]


def in_words(row: Mapping[str, Any], said: str) -> str:
    """A sentence or two on a row of the table ``contrasts``, of which ``said`` is claimed."""
    text = (
        f"{row['variant']}, evidence {row['placement']} in training: {row['words']} "
        f"{_points(row['value'], row['quantity'])}"
        + _between(row["value_low"], row["value_high"], lambda end: _points(end, row["quantity"]))
    )
    if row["difference"] is None:
        return f"{text}."
    return (
        f"{text}; {_signed(row['difference'])} points"
        f"{_between(row['difference_low'], row['difference_high'], _signed)} against "
        f"{row['reference']} ({row['seeds_agree']} of {row['seeds_paired']} seeds on that side): "
        f"{said}."
    )


def headline(contrasts: Table, models: Table, options: Mapping[str, Any]) -> str:
    """What holds of all comparisons, in two or three sentences."""
    said = claimed(contrasts, options)
    compared = [
        (row, one)
        for row, one in zip(contrasts, said, strict=True)
        if row["difference"] is not None and row["reference"] == REFERENCE
    ]
    planned = len(options["variants"]) * len(options["placements"]) * len(options["seeds"])
    part = f" {len(models)} of {planned} decoders are there yet." if len(models) < planned else ""
    weak = sorted(
        {
            f"{row['variant']} ({row['placement']})"
            for row in contrasts
            if row["quantity"] == "accuracy_inside" and row["value"] < LEARNED
        }
    )
    part += f" Hardly learned to look facts up: {', '.join(weak)}." if weak else ""
    part += _unfinished(models)
    if not compared:
        return f"Nothing is compared with {REFERENCE} yet.{part}"
    if max(row["seeds_paired"] for row, _ in compared) < FEWEST_SEEDS:
        return f"Fewer than {FEWEST_SEEDS} seeds: nothing is said of what another would do.{part}"
    shown = [row for row, one in compared if one in SHOWN]
    part = _gated(contrasts, said, options) + part
    told = _flattening(contrasts, said, _late(models))
    return " ".join((*told, _listed(shown, len(compared)))) + part


def _gated(contrasts: Table, said: list[str], options: Mapping[str, Any]) -> str:
    """What the controls leave of the gated variants, a sentence each."""
    text = ""
    for variant, (taught, shuffled) in controls_of(options).items():
        mine = [
            (row, one)
            for row, one in zip(contrasts, said, strict=True)
            if row["variant"] == variant and row["reference"] == REFERENCE
        ]
        counts = [
            sum(one == wanted for _, one in mine)
            for wanted in ("no controls", "not beyond its controls", "controls still learning")
        ]
        if counts[0]:
            text += (
                f" Nothing is claimed of {variant}: it alone is taught which line is the evidence, "
                f"and this run lacks its controls ({taught}, taught the same and subtracting "
                f"nothing, and {shuffled}, taught nothing true); {counts[0]} of its differences "
                f"from {REFERENCE} may come of what it is taught."
            )
        if counts[1]:
            text += (
                f" {counts[1]} differences of {variant} from {REFERENCE} are not shown against "
                f"both of its controls, {taught} and {shuffled}, so they are not claimed of "
                "subtracting by a gate."
            )
        if counts[2]:
            text += (
                f" {counts[2]} differences of {variant} are beyond controls of which one hardly "
                "learned to look facts up, so they are not claimed."
            )
    return text


def _late(models: Table) -> dict[tuple[str, str], int]:
    """(placement, variant) → how many of its decoders were still learning."""
    late: dict[tuple[str, str], int] = {}
    for row in models:
        accuracy = row["training_accuracy"]
        if accuracy is None or accuracy < FINISHED:
            name = (row["placement"], row["variant"])
            late[name] = late.get(name, 0) + 1
    return late


def _unfinished(models: Table) -> str:
    """Decoders that were still learning when their steps were over: what their curves show may be
    how far they came."""
    late = _late(models)
    if not late:
        return ""
    told = ", ".join(f"{name} ({place}) {count}" for (place, name), count in late.items())
    return (
        f" Still learning at the last step (below {100 * FINISHED:.0f} % in training), so their "
        f"curves may show how far they came rather than what they are: {told}."
    )


def _flattening(
    contrasts: Table, said: list[str], late: Mapping[tuple[str, str], int]
) -> list[str]:
    """Does inhibition flatten the curve: a sentence each placement, at trained lengths."""
    told: list[str] = []
    rows: Table = [
        {**row, "said": one}
        for row, one in zip(contrasts, said, strict=True)
        if row["quantity"] == "middle_inside" and row["reference"] == REFERENCE
    ]
    for placement in dict.fromkeys(row["placement"] for row in rows):
        mine = [row for row in rows if row["placement"] == placement]
        base = next((row for row in mine if row["variant"] == REFERENCE), None)
        if base is None:
            continue
        begin = f"Evidence {placement} in training, up to the trained length:"
        sag = base["value_high"] is not None and base["value_high"] < 0
        # A dip of what is half learned is no dip of what it would become.
        who = REFERENCE + (", still learning," if (placement, REFERENCE) in late else "")
        bend = (
            f"{who} reads the middle {_points(-base['value'], 'middle')} worse than the edges"
            if sag
            else f"{who} shows no dip in the middle ({_signed(base['value'])} points)"
        )
        # Where there is no dip, what lifts the middle more bends the curve the other way.
        others = [row for row in mine if row["difference"] is not None]
        flatter = [row["variant"] for row in others if sag and row["said"] == "higher"]
        deeper = [row["variant"] for row in others if row["said"] == "lower"]
        rest = "; flatter: " + ", ".join(flatter) if flatter else ""
        rest += "; a deeper dip: " + ", ".join(deeper) if deeper else ""
        rest = rest or (
            "; no variant is shown to be flatter" if sag else "; there is nothing to flatten"
        )
        told.append(f"{begin} {bend}{rest}.")
    return told


def _listed(shown: Table, of: int) -> str:
    if not shown:
        return f"Of {of} comparisons with {REFERENCE} none shows a difference: nothing holds."
    every = "; ".join(
        f"{row['variant']} ({row['placement']}) {_signed(row['difference'])} points in "
        f"{row['words']}"
        for row in shown
    )
    return f"Of {of} comparisons with {REFERENCE} {len(shown)} show a difference: {every}."


def _points(value: float, quantity: str) -> str:
    """A share in percent, or a difference of shares in points."""
    if quantity.startswith("accuracy"):
        return f"{100 * value:.1f} %"
    return f"{100 * value:.1f} points"


def _between(low: float | None, high: float | None, words: Callable[[float], str]) -> str:
    """An interval in brackets; nothing where there is none."""
    return "" if low is None or high is None else f" [{words(low)}, {words(high)}]"


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}"


# Each variant against softmax, and a gated one against its controls as well: accuracy, middle
# against edges, and what distractors cost.


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
