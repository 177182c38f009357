"""Random draws, wordings, and the data-use tag of synthetic cohorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from midchart.extras.lab.synthetic.reference import yaml_table

T = TypeVar("T")
_wordings = [
    yaml_table(dict[str, tuple[str, ...]], f"{name}.yaml")
    for name in ("notes", "letters", "questions")
]


def spawned(seed: int, *key: int) -> np.random.Generator:
    """The generator of one part of a seed's cohort; parts can be made in any order, or apart."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of ``options``."""
    return options[int(rng.integers(len(options)))]


def chance(rng: np.random.Generator, share: float) -> bool:
    """True with probability ``share``."""
    return float(rng.random()) < share


def shuffled(rng: np.random.Generator, options: Sequence[T], most: int | None = None) -> list[T]:
    """The options in random order, at ``most`` so many of them."""
    return [options[int(i)] for i in rng.permutation(len(options))[:most]]


@cache
def wordings() -> dict[str, tuple[str, ...]]:
    """Sentences, titles and questions by name (notes.yaml, letters.yaml, questions.yaml)."""
    return {name: texts for table in _wordings for name, texts in table().items()}


def worded(rng: np.random.Generator, name: str, /, **words: object) -> str:
    """One of the wordings called ``name``, its slots filled."""
    return pick(rng, wordings()[name]).format_map(words)


def capitalised(text: str) -> str:
    """``text`` with a capital first letter."""
    return text[:1].upper() + text[1:]


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files by name, the same bytes on every machine."""
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def data_use(name: str, patients: int, events: int, seed: int) -> str:
    """The data-use tag of a cohort of that name, free for every use."""
    return f"""name = "{name}"
source = "made by Midchart: {patients} patients, about {events} events each, seed {seed}"
licence = "none needed: no real person"
training_allowed = true
external_services_allowed = true
deidentified = "synthetic"
synthetic = true
"""
