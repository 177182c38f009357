"""What is in the rows of a run of kind ``inhibition``: one row a decoder trained and examined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from core.inhibition.config import PARTS, Cell, Stage
from core.run.rows import number
from core.store import Schema

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
(:data:`core.inhibition.config.PARTS`), by depth (mean over records) and by record (mean over
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
