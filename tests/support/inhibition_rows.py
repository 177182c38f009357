"""Rows of an inhibition run made by hand, with chosen probabilities of a correct answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from midchart.core.protocol import Protocol
from midchart.core.runs.schemas import blank
from midchart.extras.lab.inhibition.experiment import InhibitionRun
from midchart.extras.lab.inhibition.spec import PARTS
from midchart.extras.lab.inhibition.tables import MODELS, tables

SPEC: dict[str, Any] = {
    "variants": ["softmax", "differential"],
    "seeds": [1, 2, 3],
    "training": {"longest": 12},
    "measures": {"records": 60, "depths": 5, "lengths": [8, 12, 16], "base": 12,
                 "distractors": [0, 2]},
}  # fmt: skip
PROTOCOL = Protocol(resamples=400)
Chance = Callable[[str, str, int, float], float]


class Rows:
    """Stands for a run's store."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def select(self, table: str, columns: str = "*", where: str = "true") -> list[dict[str, Any]]:
        return list(self.rows)


def options(**more: Any) -> dict[str, Any]:
    return InhibitionRun().options({**SPEC, **more}, PROTOCOL)


def row(variant: str, placement: str, seed: int, chance: Chance) -> dict[str, Any]:
    """A decoder that is right with ``chance(variant, placement, length, depth)``."""
    draw = np.random.default_rng([len(variant), len(placement), seed])
    depths = (0.0, 0.25, 0.5, 0.75, 1.0)
    conditions = ((8, 2), (12, 2), (16, 2), (12, 0))
    return {
        **blank(MODELS), "status": "ok", "variant": variant, "placement": placement, "seed": seed,
        "parameters": 1000, "added_parameters": 8, "loss": 0.1, "training_accuracy": 0.9,
        "seconds": 1.0, "device": "cpu", "strength": [0.2, 0.3] if variant != "softmax" else None,
        "stages": [{"step": step, "loss": 1.0, "accuracy": step / 200, "gate_loss": None,
                    "seconds": 1.0} for step in (100, 200)],
        "cells": [
            {"length": length, "distractors": count, "depth": depth,
             "correct": (draw.random(60) < chance(variant, placement, length, depth)).tolist()}
            for length, count in conditions for depth in depths
        ],
        "attended": [
            {"length": length, "distractors": count, "layer": layer, "part": part,
             "by_depth": [0.25] * 5, "by_record": [0.25] * 60}
            for length, count in conditions for layer in (1, 2) for part in PARTS
        ],
    }  # fmt: skip


GATED = "gated_differential"
CONTROLS = ("gated_softmax", "gated_differential labels=shuffled")


def make_rows(
    chance: Chance,
    seeds: Sequence[int] = (1, 2, 3),
    variants: Sequence[str] = ("softmax", "differential"),
) -> dict[str, list[dict[str, Any]]]:
    """The tables of a run with such decoders; ``variants`` are labels."""
    named = [
        {"name": GATED, "labels": "shuffled"} if one == CONTROLS[1] else one for one in variants
    ]
    rows = [
        row(variant, placement, seed, chance)
        for seed in seeds
        for placement in ("uniform", "edges")
        for variant in variants
    ]
    return tables(Rows(rows), options(variants=named), PROTOCOL)  # pyright: ignore
