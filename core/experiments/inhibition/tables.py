"""Rows and report tables of kind ``inhibition``: curves, attention, contrasts with softmax.

Intervals resample seeds and records (:func:`core.stats.crossed_bootstrap`) and contain the score
interval of the records; fewer than 3 seeds or 5 records give none. Comparisons are paired by seed
and record: every decoder answers the same questions about the same records, and a seed gives all
variants the same initial weights and the same training records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.experiments.inhibition.spec import (
    PARTS,
    REFERENCE,
    Cell,
    Measures,
    controls_of,
    measures_of,
)
from core.format import interval, percent, points, signed
from core.protocol import Protocol
from core.runs.tables import Table, ends, nested, pick
from core.runs.training_jobs import TRAINED
from core.stats.crossed import FEWEST_SEEDS, CrossedBootstrap, crossed_bootstrap
from core.stats.intervals import Interval
from core.stats.reported import paired_floor, share_floor
from core.storage.query import Schema
from core.storage.rows import RowStore
from core.types import MIDDLE

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
(:data:`core.experiments.inhibition.spec.PARTS`), by depth (mean over records) and by record (mean
over depths); layers are counted from 1."""


def attended_rows(cells: Sequence[Cell]) -> Table:
    """The column ``attended``, by condition, layer and part."""
    groups: dict[Condition, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.length, cell.distractors].append(cell)
    table: Table = []
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
    for cell in rows[0]["cells"]:
        depths[cell["length"], cell["distractors"]] += (cell["depth"],)
    correct: dict[Condition, Floats] = {}
    for at in depths:
        seeds = [
            [c["correct"] for c in row["cells"] if (c["length"], c["distractors"]) == at]
            for row in rows
        ]
        correct[at] = np.array(seeds, dtype=np.float64).transpose(0, 2, 1)
    return Answers(tuple(row["seed"] for row in rows), correct, depths)


def tables(store: RowStore, options: Mapping[str, Any], protocol: Protocol) -> dict[str, Table]:
    """All tables of a run; ``options`` are its plan's."""
    variants = [one["label"] for one in options["variants"]]
    placements = options["placements"]
    every = store.select("models", "*")
    every.sort(
        key=lambda r: (placements.index(r["placement"]), variants.index(r["variant"]), r["seed"])
    )
    rows = [row for row in every if row["status"] == "ok"]
    groups: dict[Group, Table] = defaultdict(list)
    for row in rows:
        groups[row["placement"], row["variant"]].append(row)
    answers = {group: answers_of(those) for group, those in groups.items()}
    longest = options["training"]["longest"]
    compared = contrasts(answers, measures_of(options), longest, protocol, controls_of(options))
    models = (
        *(*NAMES, "parameters", "added_parameters", "loss", "training_accuracy", "seconds"),
        "device",
    )
    return {
        "inhibition": [pick(row, models) for row in rows],
        **_curves(answers, options, protocol),
        "attention": _attention(groups, longest, protocol),
        "attention_depth": _attention_depth(groups, answers),
        "contrasts": compared,
        "verdict": verdicts(compared, rows, options),
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
    """Accuracy by depth, by length and by distractors, of every placement and variant."""
    plan = measures_of(options)
    depth: Table = []
    length: Table = []
    distractors: Table = []
    for (placement, variant), known in answers.items():
        # The columns of a condition: each of its depths, then the mean over them.
        columns = np.concatenate(
            [
                part
                for values in known.correct.values()
                for part in (values, values.mean(axis=2, keepdims=True))
            ],
            axis=2,
        )
        means, column = _resample(columns, protocol), 0
        for lines, count in known.correct:
            past = lines > options["training"]["longest"]
            row = {"placement": placement, "variant": variant, "length": lines, "past": past}
            row["distractors"] = count
            depths = known.depths[lines, count]
            for at in depths:
                depth.append(row | {"depth": at} | _accuracy(means, column, columns, 1))
                column += 1
            row |= _accuracy(means, column, columns, len(depths))
            column += 1
            if count == plan.usual:
                length.append(row)
            if lines == plan.base and count in plan.distractors:
                distractors.append(row)
    length.sort(key=lambda row: row["length"])
    distractors.sort(key=lambda row: row["distractors"])
    return {"depth": depth, "length": length, "distractors": distractors}


def _accuracy(means: CrossedBootstrap, column: int, values: Floats, answers: int) -> dict[str, Any]:
    """Mean and interval of a column of ``values`` [seeds, records, columns], each of them the mean
    of so many answers."""
    floor = record_floor(values[:, :, column], answers)
    return {
        "n": means.seeds * means.records,
        "seeds": means.seeds,
        "records": means.records,
        "accuracy": float(means.estimate[column]),
        **ends("ci_", means.reported(column, floor)),
    }


def _attention(groups: Mapping[Group, Table], longest: int, protocol: Protocol) -> Table:
    """Attention by condition, layer and part, mean over heads and depths.

    ``mass`` is signed; ``share`` is of the total absolute mass, record by record, so that variants
    whose λ scales their maps up are comparable.
    """
    table: Table = []
    for (placement, variant), rows in groups.items():
        maps = [_maps(row, "by_record") for row in rows]
        values = np.stack([np.stack([one[at] for at in maps[0]], axis=1) for one in maps])
        shares = values / np.abs(values).sum(axis=3, keepdims=True)  # seeds, records, maps, parts
        means = _resample(shares.reshape(*shares.shape[:2], -1), protocol)
        masses = values.mean(axis=(0, 1))
        for at, (length, distractors, layer) in enumerate(maps[0]):
            for i, part in enumerate(PARTS):
                column = at * len(PARTS) + i
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
                        "mass": float(masses[at, i]),
                        "share": float(means.estimate[column]),
                        **ends("ci_", means.reported(column)),
                    }
                )
    return table


def _maps(row: Mapping[str, Any], values: str) -> dict[tuple[int, int, int], Floats]:
    """Length, distractors and layer → a row's masses [records or depths, parts]."""
    parts: dict[tuple[int, int, int], dict[str, list[float]]] = defaultdict(dict)
    for one in row["attended"]:
        parts[one["length"], one["distractors"], one["layer"]][one["part"]] = one[values]
    return {
        at: np.array([masses[part] for part in PARTS], dtype=np.float64).T
        for at, masses in parts.items()
    }


def _attention_depth(groups: Mapping[Group, Table], answers: Mapping[Group, Answers]) -> Table:
    """Mass by depth: mean, least and most over seeds."""
    table: Table = []
    for group, rows in groups.items():
        maps = [_maps(row, "by_depth") for row in rows]
        for length, distractors, layer in maps[0]:
            values = np.stack([one[length, distractors, layer] for one in maps])
            depths = answers[group].depths[length, distractors]
            table += [
                {
                    "placement": group[0],
                    "variant": group[1],
                    "length": length,
                    "distractors": distractors,
                    "layer": layer,
                    "part": part,
                    "depth": depth,
                    "seeds": len(rows),
                    "mass": float(values[:, i, at].mean()),
                    "least": float(values[:, i, at].min()),
                    "most": float(values[:, i, at].max()),
                }
                for at, part in enumerate(PARTS)
                for i, depth in enumerate(depths)
            ]
    return table


@dataclass(frozen=True, eq=False, slots=True)
class Quantity:
    """A compared quantity: in words, its ``values`` [seeds, records], and of how many answers each
    value is the share of correct ones; 0 for a difference of shares."""

    words: str
    values: Floats
    answers: int = 0


def quantities(known: Answers, plan: Measures, longest: int) -> dict[str, Quantity]:
    """The compared quantities of a placement and variant, by name."""
    measured: dict[str, Quantity] = {}
    for name, past in (("inside", False), ("past", True)):
        at = [(n, plan.usual) for n in plan.lengths if (n > longest) == past]
        if at:
            words = f"{'past' if past else 'up to'} the trained length"
            accuracy = np.mean([known.correct[one].mean(axis=2) for one in at], axis=0)
            middle = np.mean([_middle(known.correct[one], known.depths[one]) for one in at], axis=0)
            answers = sum(len(known.depths[one]) for one in at)
            measured[f"accuracy_{name}"] = Quantity(f"accuracy {words}", accuracy, answers)
            measured[f"middle_{name}"] = Quantity(
                f"middle (depth 30–70 %) less edges, {words}", middle
            )
    few, many = min(plan.distractors), max(plan.distractors)
    if few < many:
        cost = [known.correct[plan.base, count].mean(axis=2) for count in (many, few)]
        measured["distractors"] = Quantity(
            f"accuracy with {many} distractors less with {few}", cost[0] - cost[1]
        )
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
        variant_measures, seeds = measured[placement, variant], answers[placement, variant].seeds
        means = _resample(_columns(variant_measures), protocol)
        rows: Table = [
            {
                "placement": placement,
                "variant": variant,
                "reference": reference,
                "quantity": name,
                "words": one.words,
                "n": one.values.size,
                **_interval("value", means, column, _floor(one)),
                "seeds": len(seeds),
                **dict.fromkeys(("difference", "difference_low", "difference_high")),
                **dict.fromkeys(("all_low", "all_high", "seeds_paired", "seeds_agree")),
                "comparisons": compared,
            }
            for column, (name, one) in enumerate(variant_measures.items())
        ]
        table += rows
        base = answers.get((placement, reference))
        shared = [seed for seed in seeds if base and seed in base.seeds and variant != reference]
        if base and shared:
            variant_values, reference_values = (
                _columns(one)[[order.index(seed) for seed in shared]]
                for one, order in (
                    (variant_measures, seeds),
                    (measured[placement, reference], base.seeds),
                )
            )
            gaps = _resample(variant_values - reference_values, protocol)
            for column, (row, one) in enumerate(zip(rows, variant_measures.values(), strict=True)):
                pair = variant_values[:, :, column], reference_values[:, :, column], one.answers
                row |= _difference(gaps, column, *pair, 1 - ALPHA / compared)
    return table


def _columns(measured: Mapping[str, Quantity]) -> Floats:
    """All quantities [seeds, records, quantities]."""
    return np.stack([quantity.values for quantity in measured.values()], axis=2)


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
    floors = [
        _paired_floor(variant_values, reference_values, answers, at) if answers else None
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


def _floor(quantity: Quantity) -> Interval | None:
    return record_floor(quantity.values, quantity.answers) if quantity.answers else None


def record_floor(values: Floats, answers: int) -> Interval:
    """Score interval of a share over records, which are the clusters (:func:`share_floor`).

    ``values`` [seeds, records]: shares of correct answers, each of so many ``answers``.
    """
    seeds, records = values.shape
    correct = answers * values.sum(axis=0)
    return share_floor(correct, np.full(records, float(answers * seeds)), 1 - ALPHA)


def _paired_floor(
    variant_rates: Floats, reference_rates: Floats, answers: int, level: float
) -> Interval:
    """Newcombe's paired interval over records (:func:`paired_floor`) of shares [seeds, records]:
    of two shares m and o, so many ``answers`` count m·o, m(1 − o), o(1 − m) and (1 − m)(1 − o)."""
    cells = (
        variant_rates * reference_rates,
        variant_rates * (1 - reference_rates),
        reference_rates * (1 - variant_rates),
        (1 - variant_rates) * (1 - reference_rates),
    )
    return paired_floor(np.stack([answers * of.sum(axis=0) for of in cells], axis=1), level)


# The verdict in words.


LEARNED = 0.5
"""Accuracy at trained lengths below which a decoder's curve says little of its attention."""
CONVERGED = 0.98
"""Accuracy in training below which a decoder was still learning."""
SHOWN = ("higher", "lower")
Late = Mapping[tuple[str, str], int]
"""(placement, variant) → how many of its decoders were still learning."""


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
    """The rows of the table ``contrasts`` with the column ``finding``.

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


def verdicts(contrasts: Table, models: Table, options: Mapping[str, Any]) -> Table:
    """A headline, then a text each placement, variant and quantity; ``models`` are the rows of the
    decoders."""
    rows = with_findings(contrasts, options)
    if not rows:
        return []
    columns = ("placement", "variant", "reference", "quantity", "finding", "text")
    head = ("all", "all", "all", "headline", "", headline(rows, models, options))
    table = [pick({**row, "text": in_words(row)}, columns) for row in rows]
    return [dict(zip(columns, head, strict=True)), *table]


def in_words(row: Mapping[str, Any]) -> str:
    """A sentence or two on a row of :func:`with_findings`."""

    def value(share: float) -> str:
        """A share in per cent, or a difference of shares in points."""
        return (percent if row["quantity"].startswith("accuracy") else points)(share)

    text = (
        f"{row['variant']}, evidence {row['placement']} in training: {row['words']} "
        f"{value(row['value'])}{interval(row['value_low'], row['value_high'], value)}"
    )
    if row["difference"] is None:
        return f"{text}."
    return (
        f"{text}; {signed(row['difference'])} points"
        f"{interval(row['difference_low'], row['difference_high'], signed)} against "
        f"{row['reference']} ({row['seeds_agree']} of {row['seeds_paired']} seeds on that side): "
        f"{row['finding']}."
    )


def headline(rows: Table, models: Table, options: Mapping[str, Any]) -> str:
    """What holds in all comparisons, in two or three sentences."""
    rows_of_reference = [row for row in rows if row["reference"] == REFERENCE]
    compared = [row for row in rows_of_reference if row["difference"] is not None]
    late = Counter(
        (row["placement"], row["variant"])
        for row in models
        if row["training_accuracy"] is None or row["training_accuracy"] < CONVERGED
    )
    rest = _unfinished(rows, models, options, late)
    if not compared:
        return f"Nothing is compared with {REFERENCE} yet.{rest}"
    if max(row["seeds_paired"] for row in compared) < FEWEST_SEEDS:
        return f"Fewer than {FEWEST_SEEDS} seeds: no conclusion about other seeds.{rest}"
    shown = "; ".join(
        f"{row['variant']} ({row['placement']}) {signed(row['difference'])} points in "
        f"{row['words']}"
        for row in compared
        if row["finding"] in SHOWN
    )
    number = sum(row["finding"] in SHOWN for row in compared)
    outcome = (
        f"{number} show a difference: {shown}."
        if number
        else ("none shows a difference: nothing holds.")
    )
    text = [
        *_flattening(rows_of_reference, late),
        f"Of {len(compared)} comparisons with {REFERENCE} {outcome}",
    ]
    return " ".join(text) + _gated(rows_of_reference, options) + rest


def _unfinished(rows: Table, models: Table, options: Mapping[str, Any], late: Late) -> str:
    """Missing decoders, those that hardly learned, and those that had not converged."""
    planned = len(options["variants"]) * len(options["placements"]) * len(options["seeds"])
    text = (
        f" {len(models)} of {planned} decoders are trained so far." if len(models) < planned else ""
    )
    weak = sorted(
        {
            f"{row['variant']} ({row['placement']})"
            for row in rows
            if row["quantity"] == "accuracy_inside" and row["value"] < LEARNED
        }
    )
    if weak:
        text += f" Hardly learned to look facts up: {', '.join(weak)}."
    if late:
        listed = ", ".join(f"{name} ({place}) {count}" for (place, name), count in late.items())
        text += (
            f" Not converged at the last step (below {100 * CONVERGED:.0f} % in training), so "
            f"their curves may show incomplete training rather than their attention: {listed}."
        )
    return text


def _gated(rows: Table, options: Mapping[str, Any]) -> str:
    """What the controls leave of the gated variants, a sentence each."""
    text = ""
    for variant, (gated, shuffled) in controls_of(options).items():
        counts = Counter(row["finding"] for row in rows if row["variant"] == variant)
        if n := counts["no controls"]:
            text += (
                f" Nothing is claimed of {variant}: it alone is trained with the line of the "
                f"evidence, and this run lacks its controls ({gated}, trained likewise without "
                f"subtraction, and {shuffled}, trained on shuffled labels); {n} of its differences "
                f"from {REFERENCE} may be due to that training."
            )
        if n := counts["not beyond its controls"]:
            text += (
                f" {n} differences of {variant} from {REFERENCE} are not shown against both of its "
                f"controls, {gated} and {shuffled}, so they are not claimed of subtracting by a "
                "gate."
            )
        if n := counts["controls still learning"]:
            text += (
                f" {n} differences of {variant} are beyond controls of which one hardly learned to "
                "look facts up, so they are not claimed."
            )
    return text


def _flattening(rows: Table, late: Late) -> list[str]:
    """Does inhibition flatten the curve: a sentence each placement, at trained lengths.

    It can where softmax's curve dips in the middle, and does where the variant's dips less.
    """
    rows = [row for row in rows if row["quantity"] == "middle_inside"]
    sentences: list[str] = []
    for placement in dict.fromkeys(row["placement"] for row in rows):
        of_placement = [row for row in rows if row["placement"] == placement]
        base = next((row for row in of_placement if row["variant"] == REFERENCE), None)
        if base is None:
            continue
        dips = base["value_high"] is not None and base["value_high"] < 0
        # A dip of a decoder that has not converged need not be one of its attention.
        who = REFERENCE + (", not converged," if (placement, REFERENCE) in late else "")
        shape = (
            f"{who} reads the middle {-100 * base['value']:.1f} points worse than the edges"
            if dips
            else f"{who} shows no dip in the middle ({signed(base['value'])} points)"
        )
        # Without a dip, a variant with a better middle is not flatter: it bulges.
        others = [row for row in of_placement if row["difference"] is not None]
        parts = {
            "flatter": [r["variant"] for r in others if dips and r["finding"] == "higher"],
            "a deeper dip": [r["variant"] for r in others if r["finding"] == "lower"],
        }
        rest = "".join(f"; {name}: {', '.join(of)}" for name, of in parts.items() if of)
        rest = rest or (
            "; no variant is shown to be flatter" if dips else "; there is nothing to flatten"
        )
        sentences.append(
            f"Evidence {placement} in training, up to the trained length: {shape}{rest}."
        )
    return sentences
