"""Rows and report tables of kind ``inhibition``: curves, attention, contrasts with softmax.

Intervals resample seeds and records (:mod:`midchart.core.stats.within`) and contain the score
interval of the records; fewer than 3 seeds or 5 records give none. Comparisons are paired by seed
and record: every decoder answers the same questions about the same records, and a seed gives all
variants the same initial weights and the same training records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.format import signed
from midchart.core.protocol import Protocol
from midchart.core.results.tables import ends, grouped, nested, pick
from midchart.core.runs.experiment import Table
from midchart.core.runs.job import TRAINED
from midchart.core.stats.intervals import Interval
from midchart.core.stats.paired import paired_cells, paired_floor, share_floor
from midchart.core.stats.within import FEWEST_SEEDS, CrossedBootstrap, crossed_bootstrap
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.types import MIDDLE
from midchart.extras.lab.inhibition.spec import (
    PARTS,
    REFERENCE,
    Cell,
    Measures,
    controls_of,
    measures_of,
)

Floats = NDArray[np.float64]
Group = tuple[str, str]
"""Placement and variant."""
Condition = tuple[int, int]
"""Lines and distractors of a record."""
ALPHA = 0.05
DIGITS = 5
NAMES = ("variant", "placement", "seed")

MODELS: Schema = {
    **TRAINED,
    **dict.fromkeys(("variant", "attention", "placement"), "VARCHAR"),
    **dict.fromkeys(("seed", "parameters", "added_parameters"), "BIGINT"),
    **dict.fromkeys(("loss", "training_accuracy", "seconds"), "DOUBLE"),
    "device": "VARCHAR",
    "stages": "STRUCT(step BIGINT, loss DOUBLE, accuracy DOUBLE, gate_loss DOUBLE, "
    "seconds DOUBLE)[]",
    "strength": "DOUBLE[]",
    "gate": "STRUCT(auroc DOUBLE, mean DOUBLE, sd DOUBLE)",
    "cells": "STRUCT(length BIGINT, distractors BIGINT, depth DOUBLE, correct BOOLEAN[])[]",
    "attended": "STRUCT(length BIGINT, distractors BIGINT, layer BIGINT, part VARCHAR, "
    "by_depth DOUBLE[], by_record DOUBLE[])[]",
}
"""One row a decoder. ``variant``: its label. ``parameters``: of the decoder, the same for all
variants; ``added_parameters``: those of the variant alone (λ, norms, the gate). ``loss`` and
``training_accuracy``: of the last stage. ``strength``: learned λ of each layer of a variant that
subtracts, mean over heads. ``cells``: correct or not, record by record, of the same records for
every model. ``attended``: mean over heads of the answering token's attention to a part
(:data:`midchart.extras.lab.inhibition.spec.PARTS`), by depth (mean over records) and
by record (mean over depths); layers are counted from 1."""


def attended_rows(cells: Sequence[Cell]) -> Table:
    """The column ``attended``, by condition, layer and part."""
    table: Table = []
    groups = grouped(cells, lambda cell: (cell.length, cell.distractors))
    for (length, distractors), group in groups.items():
        mass = np.stack([cell.mass for cell in group])  # depths, layers, parts, records
        table += [
            {
                "length": length,
                "distractors": distractors,
                "layer": layer + 1,
                "part": part,
                "by_depth": mass[:, layer, at].mean(axis=1).round(DIGITS).tolist(),
                "by_record": mass[:, layer, at].mean(axis=0).round(DIGITS).tolist(),
            }
            for layer in range(mass.shape[1])
            for at, part in enumerate(PARTS)
        ]
    return table


@dataclass(frozen=True, eq=False, slots=True)
class Answers:
    """Correct answers of one placement and variant: ``correct`` float [seeds, records, depths] by
    condition, and its ``depths``; ``seeds`` in their order."""

    seeds: tuple[int, ...]
    correct: Mapping[Condition, Floats]
    depths: Mapping[Condition, tuple[float, ...]]


def answers_of(rows: Table) -> Answers:
    """The answers of rows that differ in their seed alone."""
    depths: dict[Condition, tuple[float, ...]] = defaultdict(tuple)
    correct: dict[Condition, list[list[list[bool]]]] = defaultdict(list)
    for cells in zip(*(row["cells"] for row in rows), strict=True):  # one of each seed
        at = cells[0]["length"], cells[0]["distractors"]
        depths[at] += (cells[0]["depth"],)
        correct[at].append([cell["correct"] for cell in cells])
    arrays = {at: np.moveaxis(np.array(of, np.float64), 0, 2) for at, of in correct.items()}
    return Answers(tuple(row["seed"] for row in rows), arrays, depths)


def tables(store: RowStore, options: Mapping[str, Any], protocol: Protocol) -> dict[str, Table]:
    """All tables of a run; ``options`` are its plan's."""
    variants = [one["label"] for one in options["variants"]]
    placements = options["placements"]
    every = store.select("models", "*")
    every.sort(
        key=lambda r: (placements.index(r["placement"]), variants.index(r["variant"]), r["seed"])
    )
    rows = [row for row in every if row["status"] == "ok"]
    groups = grouped(rows, lambda row: (row["placement"], row["variant"]))
    answers = {group: answers_of(those) for group, those in groups.items()}
    longest = options["training"]["longest"]
    compared = with_findings(
        contrasts(answers, measures_of(options), longest, protocol, controls_of(options)), options
    )
    models = (
        *(*NAMES, "parameters", "added_parameters", "loss", "training_accuracy", "seconds"),
        "device",
    )
    return {
        "inhibition": [pick(row, models) for row in rows],
        **_curves(answers, options, protocol),
        "attention": _attention(groups, longest, protocol),
        "contrasts": compared,
        "verdict": [{"text": headline(compared, rows, options)}] if compared else [],
        "training": nested(rows, "stages", NAMES),
        "strength": [
            pick(row, NAMES) | {"layer": layer + 1, "strength": strength}
            for row in rows
            for layer, strength in enumerate(row["strength"] or ())
        ],
        "gate": nested(rows, "gate", NAMES),
        "failures": [pick(row, (*NAMES, "reason")) for row in every if row["status"] == "failed"],
    }


def _resample(values: Floats, protocol: Protocol) -> CrossedBootstrap:
    """Means of [seeds, records, columns] with intervals; the same draws for every call."""
    return crossed_bootstrap(values, protocol.resamples, np.random.default_rng(protocol.seed))


def _curves(
    answers: Mapping[Group, Answers], options: Mapping[str, Any], protocol: Protocol
) -> dict[str, Table]:
    plan = measures_of(options)
    depth: Table = []
    means: Table = []
    for (placement, variant), known in answers.items():
        rows: Table = []
        shares: list[DecoderQuantity] = []
        for (lines, count), values in known.correct.items():
            past = lines > options["training"]["longest"]
            row = {"placement": placement, "variant": variant, "length": lines, "past": past}
            row["distractors"] = count
            depths = known.depths[lines, count]
            rows += [*(row | {"depth": at} for at in depths), row]
            shares += [DecoderQuantity(values[:, :, i], 1) for i in range(len(depths))]
            shares.append(DecoderQuantity(values.mean(axis=2), len(depths)))
        drawn = _resample(_columns(shares), protocol)
        for column, (row, share) in enumerate(zip(rows, shares, strict=True)):
            row |= {"n": drawn.seeds * drawn.records, "seeds": drawn.seeds}
            row |= {"records": drawn.records, "accuracy": float(drawn.estimate[column])}
            row |= ends("ci_", drawn.reported(column, share.floor()))
            (depth if "depth" in row else means).append(row)
    length = [row for row in means if row["distractors"] == plan.usual]
    distractors = [
        row
        for row in means
        if row["length"] == plan.base and row["distractors"] in plan.distractors
    ]
    return {
        "depth": depth,
        "length": sorted(length, key=lambda row: row["length"]),
        "distractors": sorted(distractors, key=lambda row: row["distractors"]),
    }


MAP = ("length", "distractors", "layer", "part")


def _attention(groups: Mapping[Group, Table], longest: int, protocol: Protocol) -> Table:
    """Attention by condition, layer and part, mean over heads and depths.

    ``mass`` is signed; ``share`` is of the total absolute mass, record by record, so that variants
    whose λ scales their maps up are comparable.
    """
    table: Table = []
    for (placement, variant), rows in groups.items():
        masses = np.array([[one["by_record"] for one in row["attended"]] for row in rows])
        maps = masses.reshape(len(rows), -1, len(PARTS), masses.shape[2])
        shares = (maps / np.abs(maps).sum(axis=2, keepdims=True)).reshape(masses.shape)
        means = _resample(shares.swapaxes(1, 2), protocol)
        for column, one in enumerate(rows[0]["attended"]):
            length, distractors, layer, part = pick(one, MAP).values()
            table.append(
                {
                    "placement": placement,
                    "variant": variant,
                    "length": length,
                    "past": length > longest,
                    "distractors": distractors,
                    "layer": layer,
                    "part": part,
                    "n": means.seeds * means.records,
                    "mass": float(masses[:, column].mean()),
                    "share": float(means.estimate[column]),
                    **ends("ci_", means.reported(column)),
                }
            )
    return table


@dataclass(frozen=True, eq=False, slots=True)
class DecoderQuantity:
    """A quantity's ``values`` [seeds, records], of how many answers each value is the share of
    correct ones (0 for a difference of shares), and the quantity in words."""

    values: Floats
    answers: int = 0
    words: str = ""

    def floor(self) -> Interval | None:
        """Score interval of a share over records, which are the clusters (:func:`share_floor`)."""
        if not self.answers:
            return None
        seeds, records = self.values.shape
        correct = self.answers * self.values.sum(axis=0)
        return share_floor(correct, np.full(records, float(self.answers * seeds)), 1 - ALPHA)


def quantities(known: Answers, plan: Measures, longest: int) -> dict[str, DecoderQuantity]:
    """The compared quantities of a placement and variant, by name."""
    measured: dict[str, DecoderQuantity] = {}
    for name, past in (("inside", False), ("past", True)):
        at = [(n, plan.usual) for n in plan.lengths if (n > longest) == past]
        if at:
            words = f"{'past' if past else 'up to'} the trained length"
            accuracy = np.mean([known.correct[one].mean(axis=2) for one in at], axis=0)
            middle = np.mean([_middle(known.correct[one], known.depths[one]) for one in at], axis=0)
            answers = sum(len(known.depths[one]) for one in at)
            measured[f"accuracy_{name}"] = DecoderQuantity(accuracy, answers, f"accuracy {words}")
            measured[f"middle_{name}"] = DecoderQuantity(
                middle, words=f"middle (depth 30–70 %) less edges, {words}"
            )
    few, many = min(plan.distractors), max(plan.distractors)
    if few < many:
        cost = [known.correct[plan.base, count].mean(axis=2) for count in (many, few)]
        words = f"accuracy with {many} distractors less with {few}"
        measured["distractors"] = DecoderQuantity(cost[0] - cost[1], words=words)
    return measured


def _middle(values: Floats, depths: Sequence[float]) -> Floats:
    """Mean inside the middle minus mean outside."""
    inside = np.array([MIDDLE[0] <= depth <= MIDDLE[1] for depth in depths])
    if inside.all() or not inside.any():
        return np.zeros(values.shape[:2])
    return values[:, :, inside].mean(axis=2) - values[:, :, ~inside].mean(axis=2)


def contrasts(
    answers: Mapping[Group, Answers],
    plan: Measures,
    longest: int,
    protocol: Protocol,
    controls: Mapping[str, Sequence[str]],
) -> Table:
    """One row a placement, variant, reference and quantity; softmax's own rows have no difference.

    The ``reference`` is softmax, and after it each of a variant's ``controls`` in the run.
    """
    # Pairs of variants with the same placement.
    measured = {group: quantities(known, plan, longest) for group, known in answers.items()}
    pairs = [
        (placement, variant, reference)
        for placement, variant in answers
        for reference in (REFERENCE, *controls.get(variant, ()))
        if reference == REFERENCE or (placement, reference) in answers
    ]
    compared = sum(
        len(measured[placement, variant])
        for placement, variant, reference in pairs
        if variant != reference and (placement, reference) in answers
    )
    table: Table = []
    for placement, variant, reference in pairs:
        # Means of each seed, and differences of the seeds that both have.
        group, base = (placement, variant), (placement, reference)
        seeds = answers[group].seeds
        means, gaps = _resample(_columns(measured[group].values()), protocol), None
        variant_values = reference_values = np.empty(0)
        shared = [one for one in seeds if base in answers and one in answers[base].seeds]
        if shared and variant != reference:
            variant_values, reference_values = (
                _columns(measured[of].values())[[answers[of].seeds.index(one) for one in shared]]
                for of in (group, base)
            )
            gaps = _resample(variant_values - reference_values, protocol)
        for column, (name, one) in enumerate(measured[group].items()):
            row = {
                "placement": placement,
                "variant": variant,
                "reference": reference,
                "quantity": name,
                "words": one.words,
                "n": one.values.size,
                **_interval("value", means, column, one.floor()),
                "seeds": len(seeds),
                **dict.fromkeys(("difference", "difference_low", "difference_high")),
                **dict.fromkeys(("all_low", "all_high", "seeds_paired", "seeds_agree")),
                "comparisons": compared,
            }
            if gaps:
                pair = variant_values[:, :, column], reference_values[:, :, column], one.answers
                row |= _difference(gaps, column, *pair, 1 - ALPHA / compared)
            table.append(row)
    return table


def _columns(measured: Iterable[DecoderQuantity]) -> Floats:
    """All quantities [seeds, records, quantities]."""
    return np.stack([quantity.values for quantity in measured], axis=2)


def _difference(
    gaps: CrossedBootstrap,
    column: int,
    variant_values: Floats,
    reference_values: Floats,
    answers: int,
    level: float,
) -> dict[str, Any]:
    """The difference of two quantities [seeds, records] with its interval, and the interval at the
    ``level`` of all comparisons together."""
    by_seed = (variant_values - reference_values).mean(axis=1)
    # Over records; of so many answers each share is.
    cells = paired_cells(variant_values, reference_values)
    floors = [
        paired_floor(answers * cells.sum(axis=0), at) if answers else None
        for at in (1 - ALPHA, level)
    ]
    return _interval("difference", gaps, column, floors[0]) | {
        **ends("all_", gaps.reported(column, floors[1], level)),
        "seeds_paired": len(variant_values),
        "seeds_agree": int((by_seed * by_seed.mean() > 0).sum()),
    }


def _interval(
    name: str, means: CrossedBootstrap, column: int, floor: Interval | None
) -> dict[str, float | None]:
    return {name: float(means.estimate[column]), **ends(f"{name}_", means.reported(column, floor))}


# The verdict in words.


LEARNED = 0.5
"""Accuracy at trained lengths below which a decoder's curve says little of its attention."""
CONVERGED = 0.98
"""Accuracy in training below which a decoder was still learning."""
SHOWN = ("higher", "lower")


def finding(row: Mapping[str, Any]) -> str:
    """reference, not compared, too few seeds, higher, lower, or no difference shown.

    A difference is shown where the interval at the level of all comparisons together excludes 0
    and every seed agrees.
    """
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


def with_findings(contrasts: Table, options: Mapping[str, Any]) -> Table:
    """The rows of :func:`contrasts` with the column ``finding``.

    :func:`finding`, but of a gated variant, which alone is trained with the line of the evidence,
    against softmax "higher" and "lower" only where both controls show it too (softmax with the same
    gate and loss, and the same attention with a gate trained on shuffled labels). Else "no
    controls" where one is not in the run, "not beyond its controls", or "controls still learning"
    where one of them never learned to look facts up.
    """
    controls = controls_of(options)
    key = ("placement", "variant", "reference", "quantity")
    shown = {tuple(pick(row, key).values()): finding(row) for row in contrasts}
    accuracy = {
        (row["placement"], row["variant"]): row["value"]
        for row in contrasts
        if row["quantity"] == "accuracy_inside"
    }
    table: Table = []
    for row in contrasts:
        placement, variant, reference, quantity = pick(row, key).values()
        claim = shown[placement, variant, reference, quantity]
        if claim in SHOWN and reference == REFERENCE and variant in controls:
            names = controls[variant]
            others = [shown.get((placement, variant, name, quantity)) for name in names]
            if None in others:
                claim = "no controls"
            elif any(other != claim for other in others):
                claim = "not beyond its controls"
            elif any(accuracy.get((placement, name), 1.0) < LEARNED for name in names):
                claim = "controls still learning"
        table.append({**row, "finding": claim})
    return table


UNCLAIMED = {
    "no controls": "which this run lacks controls for",
    "not beyond its controls": "not shown against both of its controls",
    "controls still learning": "of whose controls one hardly learned to look facts up",
}
"""What the controls leave of a gated variant's differences, by their finding."""


def headline(rows: Table, models: Table, options: Mapping[str, Any]) -> str:
    """What holds in all comparisons: ``rows`` of :func:`with_findings`, ``models`` the rows of the
    decoders."""
    compared = [r for r in rows if r["reference"] == REFERENCE and r["difference"] is not None]
    if not compared:
        text = f"Nothing is compared with {REFERENCE} yet."
    elif max(row["seeds_paired"] for row in compared) < FEWEST_SEEDS:
        text = f"Fewer than {FEWEST_SEEDS} seeds: no conclusion about other seeds."
    else:
        shown = [
            f"{row['variant']} ({row['placement']}) {signed(row['difference'])} points in "
            f"{row['words']}"
            for row in compared
            if row["finding"] in SHOWN
        ]
        outcome = f"{len(shown)} show a difference: {'; '.join(shown)}." if shown else (
            "none shows a difference."
        )  # fmt: skip
        text = f"Of {len(compared)} comparisons with {REFERENCE} {outcome}"
        counts = Counter((row["variant"], row["finding"]) for row in compared)
        for (variant, claim), n in counts.items():
            if claim in UNCLAIMED:
                text += f" Not claimed: {n} differences of {variant}, {UNCLAIMED[claim]}."
    return text + _unfinished(rows, models, options)


def _unfinished(rows: Table, models: Table, options: Mapping[str, Any]) -> str:
    """Missing decoders, those that hardly learned, and those that had not converged."""
    planned = len(options["variants"]) * len(options["placements"]) * len(options["seeds"])
    weak = {
        f"{row['variant']} ({row['placement']})"
        for row in rows
        if row["quantity"] == "accuracy_inside" and row["value"] < LEARNED
    }
    late = Counter(
        f"{row['variant']} ({row['placement']})"
        for row in models
        if row["training_accuracy"] is None or row["training_accuracy"] < CONVERGED
    )
    text = ""
    if len(models) < planned:
        text += f" {len(models)} of {planned} decoders are trained so far."
    if weak:
        text += f" Hardly learned to look facts up: {', '.join(sorted(weak))}."
    if late:
        text += (
            f" Not converged at the last step (below {100 * CONVERGED:.0f} % in training), so "
            "their curves may show incomplete training rather than their attention: "
            f"{', '.join(f'{name} {count}' for name, count in late.items())}."
        )
    return text
