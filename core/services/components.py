"""Components and trained gates as pages list them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from midchart.core import config as settings
from midchart.core import weights
from midchart.core.access import needs
from midchart.core.arms import ARMS
from midchart.core.errors import DataError, UnknownName
from midchart.core.gate.checkpoint import CARD, Gate, Split, load_gate
from midchart.core.gate.cohort_training import SHIPPED
from midchart.core.judges import JUDGES
from midchart.core.loaders import LOADERS
from midchart.core.named_files import shown_path
from midchart.core.readers import READERS

PREFERRED_READERS = ("extractive", "small")
"""Readers that need no server, by the mean of two error rates on COVID-QA and MedCalc-Bench: wrong
answers without the evidence, and abstention with it (docs/log.md)."""
_IN_RUNS = "calls a server: it is used in a run, whose spec names the server and lets text go there"

_WITH_A_READER = "works with a reader that writes: it is used in a run, whose spec names one"


@dataclass(frozen=True, slots=True)
class MemberCard:
    """An arm, reader, judge or loader.

    ``problem``: why it cannot be used outside a run. ``calls``: it calls a server that a run's spec
    names and permits. ``control``: an arm that is a baseline. ``installed``: its weights, if any,
    are on this machine.
    """

    name: str
    title: str
    problem: str = ""
    calls: bool = False
    control: bool = False
    installed: bool = True


@needs("viewer")
def folders() -> dict[str, str]:
    """Paths of the program (which holds app.py), cohorts, runs, cache and models, as the acting
    person may see them."""
    places = {
        "program": settings.ROOT,
        "cohorts": settings.cohorts_folder(),
        "runs": settings.runs_folder(),
        "cache": settings.cache_folder(),
        "models": settings.models_folder(),
    }
    return {name: shown_path(folder) for name, folder in places.items()}


@needs("viewer")
def members(family: str) -> list[MemberCard]:
    """The components of the family "arm", "reader", "judge" or "loader"."""
    registries: Mapping[str, Any] = {
        "arm": ARMS,
        "reader": READERS,
        "judge": JUDGES,
        "loader": LOADERS,
    }
    if family not in registries:
        raise UnknownName("family", family, registries)
    cards: list[MemberCard] = []
    for name in registries[family].names():
        factory = registries[family].get(name)
        needs, calls = getattr(factory, "needs", None), hasattr(factory, "addresses")
        lacks = weights.problem(needs) if needs else ""
        problem = lacks or (_IN_RUNS if calls and not needs else "")
        if family == "arm" and "reader" in inspect.signature(factory).parameters:
            problem = _WITH_A_READER
        control = getattr(factory, "control", False)
        cards.append(MemberCard(name, factory.title, problem, calls, control, not lacks))
    return cards


@needs("viewer")
def default_reader() -> str:
    """The first installed of :data:`PREFERRED_READERS`; "" where none is installed."""
    installed = {card.name for card in members("reader") if not card.problem}
    return next((name for name in PREFERRED_READERS if name in installed), "")


def only_quotes(reader: str) -> bool:
    """Whether a reader's answers are lines of its context word for word, or that none answers.

    Raises UnknownName.
    """
    return getattr(READERS.get(reader), "only_quotes", False)


_PARTS = ("train", "validation", "test")


@needs("viewer")
def gate_cards() -> list[dict[str, Any]]:
    """Every gate in ``cache/gates``, newest first, and the included one, with its settings and
    facts or its ``problem``. No id of a patient is in it."""
    files = sorted(settings.gates_folder().glob(f"*/{CARD}"), key=lambda file: file.stat().st_mtime)
    files.insert(0, SHIPPED / CARD)
    cards: list[dict[str, Any]] = []
    for file in reversed(files):
        written = datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "minutes")
        card: dict[str, Any] = {"folder": shown_path(file.parent), "made": written, "problem": ""}
        try:
            card |= _gate_facts(load_gate(file.parent))
        except DataError as error:
            card["problem"] = str(error)
        cards.append(card)
    return cards


def _gate_facts(gate: Gate) -> dict[str, Any]:
    hashing = gate.config.hashing
    split: Split = gate.split
    return {
        "digest": gate.digest,
        "hash": hashing.name,
        "n": hashing.n,
        "buckets": hashing.buckets,
        "dim": gate.config.dim,
        "head": gate.config.head,
        "query": gate.config.query,
        "parameters": int(sum(np.prod(w.shape) for w in gate.weights.values())),
        "temperature": gate.temperature,
        "patients": {part: len(getattr(split, part)) for part in _PARTS},
        "facts": dict(gate.facts),
    }
