"""What this installation has: members of each family, weights, folders."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core import settings, weights
from core.arms import ARMS
from core.errors import UnknownName
from core.judges import JUDGES
from core.loaders import LOADERS
from core.readers import READERS

IN_RUNS = "calls a server: it is used in a run, whose spec names the server and lets text go there"

WITH_A_READER = "works with a reader that writes: it is used in a run, whose spec names one"


@dataclass(frozen=True, slots=True)
class MemberCard:
    """A member of a family: an arm, reader, judge or loader.

    ``problem`` says why it is away. ``calls``: it calls a server, so it works in a run alone, whose
    spec says which one and lets text go there; it is away everywhere else. ``control``: an arm
    that is a baseline, not a method. ``installed``: its weights, if it needs any, are on this
    machine.
    """

    name: str
    title: str
    problem: str = ""
    calls: bool = False
    control: bool = False
    installed: bool = True


def folders() -> dict[str, str]:
    """Where cohorts, runs, caches and models lie, for messages that name the exact path."""
    return {
        "cohorts": str(settings.cohorts_folder()),
        "runs": str(settings.runs_folder()),
        "cache": str(settings.cache_folder()),
        "models": str(settings.models_folder()),
    }


def members(family: str) -> list[MemberCard]:
    """The members of "arm", "reader", "judge" or "loader", with what each needs and lacks."""
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
        problem = lacks or (IN_RUNS if calls and not needs else "")
        if family == "arm" and "reader" in inspect.signature(factory).parameters:
            problem = WITH_A_READER
        control = getattr(factory, "control", False)
        cards.append(MemberCard(name, factory.title, problem, calls, control, not lacks))
    return cards


def only_quotes(reader: str) -> bool:
    """Whether a reader's answers are lines of its context word for word, or that none answers.

    Raises UnknownName.
    """
    return getattr(READERS.get(reader), "only_quotes", False)


def models() -> list[dict[str, Any]]:
    """Weights the program can use: which are here, which are missing, where they go."""
    return weights.catalogue()
