"""What the synthetic cohorts have in common: random draws, the data-use tag, their bytes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

T = TypeVar("T")
TAG = "midchart.toml"


def spawned(seed: int, *key: int) -> np.random.Generator:
    """The generator of one part of a seed's cohort.

    Each part has its own, so that parts can be made in any order, or apart, with the same bytes.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of ``options``."""
    return options[int(rng.integers(len(options)))]


def chance(rng: np.random.Generator, share: float) -> bool:
    """True with probability ``share``."""
    return float(rng.random()) < share


def is_synthetic(folder: Path) -> bool:
    """Whether a folder's data-use tag says that no real person is described in it."""
    tag = folder / TAG
    return tag.is_file() and bool(tomllib.loads(tag.read_text("utf-8")).get("synthetic"))


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files by name, the same bytes on every machine."""
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def data_use(name: str, patients: int, events: int, seed: int) -> str:
    """The data-use tag of a cohort of that name, free for every use."""
    return "\n".join(
        (
            f'name = "{name}"',
            f'source = "made by Midchart: {patients} patients, about {events} events each, '
            f'seed {seed}"',
            'licence = "none needed: no real person"',
            "training_allowed = true",
            "external_services_allowed = true",
            'deidentified = "synthetic"',
            "synthetic = true",
            "",
        )
    )
