"""Tables of a run of kind ``inhibition``: curves by depth, length and distractors, attention, and
each variant beside softmax.

Intervals resample seeds and records (:func:`core.stats.crossed_bootstrap`) and hold the score
interval of the records; fewer than 3 seeds or 5 records give none. Comparisons are paired
by seed and record: the same records are asked of every decoder, and a seed gives all variants the
same start and the same training records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.experiments.inhibition.config import PARTS, Cell, Stage
from core.experiments.inhibition.spec import controls_of, measures_of
from core.experiments.inhibition.verdict import (
    Answers,
    answers_of,
    contrasts,
    record_floor,
    verdicts,
)
from core.protocol import Protocol
from core.runs.rows import number
from core.stats.crossed import CrossedBootstrap, crossed_bootstrap
from core.storage.query import Schema
from core.storage.rows import RowStore

Table = list[dict[str, Any]]
Floats = NDArray[np.float64]
Group = tuple[str, str]
MODEL_COLUMNS = (
    "variant", "placement", "seed", "parameters", "added_parameters", "loss", "training_accuracy",
    "seconds", "device",
)  # fmt: skip


def tables(store: RowStore, options: Mapping[str, Any], protocol: Protocol) -> dict[str, Table]:
    """All tables of a run; ``options`` are its plan's."""
    variants = [one["label"] for one in options["variants"]]
    every = store.select("models", "*")
    every.sort(
        key=lambda row: (
            options["placements"].index(row["placement"]),
            variants.index(row["variant"]),
            row["seed"],
        )
    )
    rows = [row for row in every if row["status"] == "ok"]
    groups: dict[Group, Table] = {}
    for row in rows:
        groups.setdefault((row["placement"], row["variant"]), []).append(row)
    answers = {group: answers_of(those) for group, those in groups.items()}
    longest = options["training"]["longest"]
    compared = contrasts(answers, measures_of(options), longest, protocol, controls_of(options))
    return {
        "inhibition": [{name: row[name] for name in MODEL_COLUMNS} for row in rows],
        **_curves(answers, options, protocol),
        "attention": _attention(groups, longest, protocol),
        "attention_depth": _attention_depth(groups),
        "contrasts": compared,
        "verdict": verdicts(compared, rows, options),
        "training": [_named(row) | stage for row in rows for stage in row["stages"]],
        "strength": [
            _named(row) | {"layer": layer + 1, "strength": strength}
            for row in rows
            for layer, strength in enumerate(row["strength"] or ())
        ],
        "gate": [_named(row) | row["gate"] for row in rows if row["gate"] is not None],
        "failures": [
            _named(row) | {"reason": row["reason"]} for row in every if row["status"] == "failed"
        ],
    }


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("variant", "placement", "seed")}


def drawn(values: Floats, protocol: Protocol) -> CrossedBootstrap:
    """Means of [seeds, records, columns] with intervals; the same draws for every call."""
    rng = np.random.default_rng(protocol.seed)
    return crossed_bootstrap(values, protocol.resamples, rng)


def _means(found: CrossedBootstrap, column: int, values: Floats, answers: int) -> dict[str, Any]:
    """Mean and interval of a column of ``values`` [seeds, records, columns], each of them the mean
    of so many answers."""
    ends = found.reported(column, record_floor(values[:, :, column], answers))
    low, high = ends or (None, None)
    return {
        "n": found.seeds * found.records,
        "seeds": found.seeds,
        "records": found.records,
        "accuracy": float(found.estimate[column]),
        "ci_low": low,
        "ci_high": high,
    }


def _curves(
    answers: Mapping[Group, Answers], options: Mapping[str, Any], protocol: Protocol
) -> dict[str, Table]:
    """Accuracy by depth, by length and by distractors, of every placement and variant."""
    plan = measures_of(options)
    longest: int = options["training"]["longest"]
    depth: Table = []
    length: Table = []
    distractors: Table = []
    for (placement, variant), found in answers.items():
        named = {"placement": placement, "variant": variant}
        # All conditions in one: of each its depths, then the mean over them.
        columns = [
            np.concatenate([values, values.mean(axis=2, keepdims=True)], axis=2)
            for values in found.correct.values()
        ]
        every = np.concatenate(columns, axis=2)
        means, column = drawn(every, protocol), 0
        for lines, count in found.correct:
            where = {"length": lines, "past": lines > longest, "distractors": count}
            for at in found.depths[lines, count]:
                depth.append(named | where | {"depth": at} | _means(means, column, every, 1))
                column += 1
            whole = named | where | _means(means, column, every, len(found.depths[lines, count]))
            column += 1
            if count == plan.usual:
                length.append(whole)
            if lines == plan.base and count in plan.distractors:
                distractors.append(whole)
    length.sort(key=lambda row: row["length"])
    distractors.sort(key=lambda row: row["distractors"])
    return {"depth": depth, "length": length, "distractors": distractors}


def _attention(groups: Mapping[Group, Table], longest: int, protocol: Protocol) -> Table:
    """Attention by condition, layer and part, mean over heads and depths.

    ``mass`` is what the maps hold, with its sign; ``share`` that of all mass whatever its sign,
    record by record, so that variants compare whose λ scales their maps up.
    """
    table: Table = []
    for (placement, variant), rows in groups.items():
        places = dict.fromkeys(
            (one["length"], one["distractors"], one["layer"]) for one in rows[0]["attended"]
        )
        values = np.stack(
            [np.stack([_parts(row, at, "by_record") for at in places], axis=1) for row in rows]
        )  # seeds, records, places, parts
        shares = values / np.abs(values).sum(axis=3, keepdims=True)
        found = drawn(shares.reshape(*shares.shape[:2], -1), protocol)
        masses = values.mean(axis=(0, 1))
        for at, (length, distractors, layer) in enumerate(places):
            begin = at * len(PARTS)
            table += [
                {
                    "placement": placement,
                    "variant": variant,
                    "length": length,
                    "past": length > longest,
                    "distractors": distractors,
                    "layer": layer,
                    "part": part,
                    "n": found.seeds * found.records,
                    "mass": float(masses[at, i]),
                    "share": float(found.estimate[begin + i]),
                    "ci_low": low,
                    "ci_high": high,
                }
                for i, part in enumerate(PARTS)
                for low, high in [found.reported(begin + i) or (None, None)]
            ]
    return table


def _parts(row: Mapping[str, Any], place: tuple[int, int, int], values: str) -> Floats:
    """A row's masses at a place [records or depths, parts]."""
    found = {
        one["part"]: one[values]
        for one in row["attended"]
        if (one["length"], one["distractors"], one["layer"]) == place
    }
    return np.array([found[part] for part in PARTS], dtype=np.float64).T


def _attention_depth(groups: Mapping[Group, Table]) -> Table:
    """Mass by depth: mean over seeds, and the least and most of a seed."""
    table: Table = []
    for (placement, variant), rows in groups.items():
        depths: dict[tuple[int, int], list[float]] = {}
        for cell in rows[0]["cells"]:
            depths.setdefault((cell["length"], cell["distractors"]), []).append(cell["depth"])
        for one in rows[0]["attended"]:
            place = (one["length"], one["distractors"], one["layer"])
            part = PARTS.index(one["part"])
            values = np.stack([_parts(row, place, "by_depth")[:, part] for row in rows])
            table += [
                {
                    "placement": placement,
                    "variant": variant,
                    "length": place[0],
                    "distractors": place[1],
                    "layer": place[2],
                    "part": one["part"],
                    "depth": depth,
                    "seeds": len(rows),
                    "mass": float(values[:, i].mean()),
                    "least": float(values[:, i].min()),
                    "most": float(values[:, i].max()),
                }
                for i, depth in enumerate(depths[place[:2]])
            ]
    return table


# What is in the rows of a run of kind ``inhibition``: one row a decoder trained and examined.


MODELS: Schema = {
    "key": "VARCHAR",
    "item": "VARCHAR",
    "status": "VARCHAR",
    "reason": "VARCHAR",
    "time": "VARCHAR",
    "variant": "VARCHAR",
    "attention": "VARCHAR",
    "placement": "VARCHAR",
    "seed": "BIGINT",
    "parameters": "BIGINT",
    "added_parameters": "BIGINT",
    "loss": "DOUBLE",
    "training_accuracy": "DOUBLE",
    "seconds": "DOUBLE",
    "device": "VARCHAR",
    "stages": "STRUCT(step BIGINT, loss DOUBLE, accuracy DOUBLE, gate_loss DOUBLE, "
    "seconds DOUBLE)[]",
    "strength": "DOUBLE[]",
    "gate": "STRUCT(auroc DOUBLE, mean DOUBLE, sd DOUBLE)",
    "cells": "STRUCT(length BIGINT, distractors BIGINT, depth DOUBLE, correct BOOLEAN[])[]",
    "attended": "STRUCT(length BIGINT, distractors BIGINT, layer BIGINT, part VARCHAR, "
    "by_depth DOUBLE[], by_record DOUBLE[])[]",
}
"""``variant``: its label. ``parameters``: of the decoder, the same for all variants;
``added_parameters``: what the variant has besides (λ, norms, the gate). ``loss`` and
``training_accuracy``: of the last stage. ``strength``: λ of each layer of a variant that subtracts,
as learned, mean over heads. ``cells``: right or not, record by record, of the same
records for every model. ``attended``: mean over heads of the answering token's attention to a part
(:data:`core.experiments.inhibition.config.PARTS`), by depth (mean over records) and by record
(mean over
depths); layers are counted from 1."""
DIGITS = 5


def stage_rows(stages: Sequence[Stage]) -> list[dict[str, Any]]:
    """The stages of a training."""
    return [{name: number(value) for name, value in asdict(one).items()} for one in stages]


def cell_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Who was right, by condition and depth."""
    return [
        {
            "length": one.length,
            "distractors": one.distractors,
            "depth": one.depth,
            "correct": one.right.tolist(),
        }
        for one in cells
    ]


def attended_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Where attention went, by condition, layer and part."""
    groups: dict[tuple[int, int], list[Cell]] = {}
    for one in cells:
        groups.setdefault((one.length, one.distractors), []).append(one)
    table: list[dict[str, Any]] = []
    for (length, distractors), every in groups.items():
        mass = np.stack([one.mass for one in every])  # depths, layers, parts, records
        for layer in range(mass.shape[1]):
            table += [
                {
                    "length": length,
                    "distractors": distractors,
                    "layer": layer + 1,
                    "part": part,
                    "by_depth": mass[:, layer, at].mean(axis=1).round(DIGITS).tolist(),
                    "by_record": mass[:, layer, at].mean(axis=0).round(DIGITS).tolist(),
                }
                for at, part in enumerate(PARTS)
            ]
    return table
