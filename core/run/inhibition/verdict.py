"""What an inhibition run shows, in plain words; that nothing holds is a verdict too.

A gated variant is taught which line holds the evidence, and no other variant is. So a difference of
it from softmax is claimed only where it is shown against both of its controls too: softmax with the
same gate and loss, and the same attention with a gate that was taught shuffled labels.

A difference from softmax is shown where the interval that is right for all comparisons together
leaves out 0 and every seed agrees. "Flatter" asks for more: softmax's curve must sag in the middle
first (or bulge), and the variant's must do so less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core.run.inhibition.spec import REFERENCE, controls_of
from core.stats import FEWEST_SEEDS

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
