"""What an inhibition run shows, in plain words; that nothing holds is a verdict too.

A difference from softmax is shown where the interval that is right for all comparisons together
leaves out 0 and every seed agrees. "Flatter" asks for more: softmax's curve must sag in the middle
first (or bulge), and the variant's must do so less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.run.inhibition.spec import REFERENCE

Table = list[dict[str, Any]]
LEARNED = 0.5
"""Accuracy at trained lengths below which a decoder's curve says little of its attention."""
GATED = "gated"
"""How the names of attentions begin that take a gate."""
FINISHED = 0.98
"""Accuracy in training below which a decoder was still learning."""
FEWEST = 3
"""Seeds below which nothing is said of other seeds."""


def finding(row: Mapping[str, Any]) -> str:
    """reference, not compared, too few seeds, higher, lower, or no difference shown."""
    if row["variant"] == REFERENCE:
        return "reference"
    if row["difference"] is None:
        return "not compared"
    if row["seeds_paired"] < FEWEST:
        return "too few seeds"
    if row["seeds_agree"] == row["seeds_paired"]:
        if row["all_low"] > 0:
            return "higher"
        if row["all_high"] < 0:
            return "lower"
    return "no difference shown"


def verdicts(contrasts: Table, models: Table, options: Mapping[str, Any]) -> Table:
    """A headline, then a text each placement, variant and quantity; ``models`` are the decoders,
    a row each."""
    told = [
        {
            "placement": row["placement"],
            "variant": row["variant"],
            "quantity": row["quantity"],
            "finding": finding(row),
            "text": in_words(row),
        }
        for row in contrasts
    ]
    if not told:
        return []
    head = {"placement": "all", "variant": "all", "quantity": "headline"}
    return [{**head, "finding": "", "text": headline(contrasts, models, options)}, *told]


def in_words(row: Mapping[str, Any]) -> str:
    """A sentence or two on a row of the table ``contrasts``."""
    text = (
        f"{row['variant']}, evidence {row['placement']} in training: {row['words']} "
        f"{_points(row['value'], row['quantity'])} "
        f"[{_points(row['value_low'], row['quantity'])}, "
        f"{_points(row['value_high'], row['quantity'])}]"
    )
    if row["difference"] is None:
        return f"{text}."
    return (
        f"{text}; {_signed(row['difference'])} points [{_signed(row['difference_low'])}, "
        f"{_signed(row['difference_high'])}] beside {REFERENCE} ({row['seeds_agree']} of "
        f"{row['seeds_paired']} seeds on that side): {finding(row)}."
    )


def headline(contrasts: Table, models: Table, options: Mapping[str, Any]) -> str:
    """What holds of all comparisons, in two or three sentences."""
    compared = [row for row in contrasts if row["difference"] is not None]
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
    if max(row["seeds_paired"] for row in compared) < FEWEST:
        return f"Fewer than {FEWEST} seeds: nothing is said of what another would do.{part}"
    shown = [row for row in compared if finding(row) in ("higher", "lower")]
    if any(row["variant"].startswith(GATED) for row in shown):
        part += " A gate is told in training where evidence stands; its variant's gain may be that."
    told = _flattening(contrasts, _late(models))
    return " ".join((*told, _listed(shown, len(compared)))) + part


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


def _flattening(contrasts: Table, late: Mapping[tuple[str, str], int]) -> list[str]:
    """Does inhibition flatten the curve: a sentence each placement, at trained lengths."""
    told: list[str] = []
    rows = [row for row in contrasts if row["quantity"] == "middle_inside"]
    for placement in dict.fromkeys(row["placement"] for row in rows):
        mine = [row for row in rows if row["placement"] == placement]
        base = next((row for row in mine if row["variant"] == REFERENCE), None)
        if base is None:
            continue
        begin = f"Evidence {placement} in training, up to the trained length:"
        sag = base["value_high"] < 0
        # A dip of what is half learned is no dip of what it would become.
        who = REFERENCE + (", still learning," if (placement, REFERENCE) in late else "")
        bend = (
            f"{who} reads the middle {_points(-base['value'], 'middle')} worse than the edges"
            if sag
            else f"{who} shows no dip in the middle ({_signed(base['value'])} points)"
        )
        # Where there is no dip, what lifts the middle more bends the curve the other way.
        others = [row for row in mine if row["difference"] is not None]
        flatter = [row["variant"] for row in others if sag and finding(row) == "higher"]
        deeper = [row["variant"] for row in others if finding(row) == "lower"]
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


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}"
