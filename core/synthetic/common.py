"""Random draws, wordings, and the data-use tag of synthetic cohorts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np

from midchart.core.cohorts.data_use import files_digest, generated
from midchart.core.cohorts.kept_questions import QUESTIONS_FILE, SETS_FILE
from midchart.core.errors import InputError
from midchart.core.parsing import read_toml
from midchart.core.regular_files import read_regular
from midchart.core.synthetic.medicine import PERSON_SLOTS
from midchart.core.synthetic.reference import DATA, read_yaml, slot_names

T = TypeVar("T")
TAG = "midchart.toml"
Wording = Annotated[
    str,
    slot_names(
        *PERSON_SLOTS, "age", "answer", "company", "complaint", "date", "drug", "kind", "known",
        "lay", "lead", "month", "name", "new", "old", "place", "reason", "side", "specialty",
        "successor", "summary", "why", "year",
    ),
]  # fmt: skip


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
def wordings() -> dict[str, tuple[Wording, ...]]:
    """Sentences, titles and questions by name (notes.yaml, letters.yaml, questions.yaml)."""
    tables = [
        read_yaml(dict[str, tuple[Wording, ...]], DATA / f"{name}.yaml")
        for name in ("notes", "letters", "questions")
    ]
    return tables[0] | tables[1] | tables[2]


def worded(rng: np.random.Generator, name: str, /, **words: object) -> str:
    """One of the wordings called ``name``, its slots filled."""
    return pick(rng, wordings()[name]).format_map(words)


def capitalised(text: str) -> str:
    """``text`` with a capital first letter."""
    return text[:1].upper() + text[1:]


def is_synthetic(folder: Path) -> bool:
    """Whether a folder's data-use tag says that it was generated, and not imported."""
    try:
        stated = read_toml(read_regular(folder / TAG), str(folder / TAG))
    except OSError:  # no tag of the program's
        return False
    return bool(stated.get("synthetic")) and not stated.get("imported")


def refuse_other_data(out: Path, entries: Collection[str]) -> None:
    """Raise InputError where ``out`` is a link, or holds anything but a cohort of these ``entries``
    that the program generated, with the questions that people keep with it."""
    if out.is_symlink():
        raise InputError(f"{out}: is a link — choose a folder")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    inside = out.iterdir() if out.is_dir() else ()
    names = {path.name for path in inside if not path.name.startswith(".")}
    alone = names and names <= {*entries, QUESTIONS_FILE, SETS_FILE}
    linked = any(path.is_symlink() for path in out.rglob("*"))
    if not alone or linked or not is_synthetic(out) or files_digest(out) not in generated():
        raise InputError(
            f"{out}: holds data that is not known as an unchanged synthetic cohort of this program "
            "— remove it, or choose an empty folder"
        )


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
