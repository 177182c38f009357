"""Scores of every sentence of a record by several arms, for display.

A selection holds the sentences that were kept. Whoever asks why another was not kept needs the
scores of all of them, on one axis for every arm. Works for each arm that has ``score``; what
arms there are is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midchart.core.access import needs
from midchart.core.arms import ARMS
from midchart.core.arms.base import ScoredArm, candidates
from midchart.core.errors import InputError, MidchartError
from midchart.core.interfaces import Arm
from midchart.core.protocol import Protocol
from midchart.core.types import Instruction, Record, Sentence


@dataclass(frozen=True, eq=False, slots=True)
class ArmScores:
    """One arm's scores on the sentences of a :class:`ScoreTable`.

    ``values`` [n] float64, NaN where the arm does not rank a sentence (filtered out, never looked
    at). ``picked`` [n]: among the k that the arm itself wants. ``kept`` [n]: in its selection,
    with the most recent events and within the budget. ``threshold``: the lowest score of the
    picks; None where the picks are not the highest scores (an arm that picks one after another)
    or there are none. ``problem``: why there are no scores, in one line.
    """

    arm: str
    values: NDArray[np.float64]
    picked: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    threshold: float | None = None
    problem: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class ScoreTable:
    """Every sentence that the question's cutoff allows [n], and each arm's scores of them.

    ``events`` [n] is the number of each sentence's event, ``order`` [n] its place in the record,
    0 to 1, by event order, ``times`` [n] its time (NaT where undated).
    """

    sentences: Sequence[Sentence]
    events: NDArray[np.int64]
    order: NDArray[np.float64]
    times: NDArray[np.datetime64]
    arms: tuple[ArmScores, ...]


@needs("viewer")
def scored_arms() -> dict[str, bool]:
    """The arms that score each sentence, and whether they can explain a score."""
    arms = {name: ARMS.get(name) for name in ARMS.names()}
    return {
        name: hasattr(arm, "explain")
        for name, arm in arms.items()
        if isinstance(arm, type) and issubclass(arm, ScoredArm)
    }


def score_table(
    record: Record,
    instruction: Instruction,
    arms: Iterable[tuple[str, Callable[[], Arm]]],
    protocol: Protocol,
) -> ScoreTable:
    """The scores of ``arms``, each its name and what builds it.

    An arm that cannot be built or cannot select carries its reason instead.
    """
    everything = candidates(record, instruction.cutoff, protocol)
    sentences = everything.sentences
    n = len(sentences)
    events = np.fromiter((s.span.event for s in sentences), np.int64, n)
    last = max(len(record.events) - 1, 1)
    times = np.array([s.time or "NaT" for s in sentences], dtype="datetime64[s]")
    scored: list[ArmScores] = []
    for name, build in arms:
        try:
            scored.append(_scores(name, build(), record, instruction, protocol))
        except MidchartError as error:
            nothing = np.zeros(n, dtype=bool)
            values = np.full(n, np.nan)
            scored.append(ArmScores(name, values, nothing, nothing, problem=str(error)))
    return ScoreTable(sentences, events, events / last, times, tuple(scored))


def _scores(
    name: str, arm: Arm, record: Record, instruction: Instruction, protocol: Protocol
) -> ArmScores:
    if not isinstance(arm, ScoredArm):
        raise InputError(f"the arm {name!r} gives sentences no score")
    everything = candidates(record, instruction.cutoff, arm.protocol)
    values = np.full(len(everything), np.nan)
    picked = np.zeros(len(everything), dtype=bool)
    budget, pool = protocol.budget(), arm.pool(everything)
    if pool.sentences:
        scores = arm.score(pool, instruction)
        values[pool.positions] = np.where(np.isfinite(scores), scores, np.nan)
        picks, _ = arm.rank(pool, instruction, budget.k)
        picked[pool.positions[picks]] = True
    ids = {item.sentence.id for item in arm.select(record, instruction, budget).kept}
    in_selection = np.array([sentence.id in ids for sentence in everything.sentences], dtype=bool)
    threshold: float | None = None
    if picked.any() and not np.isnan(values[picked]).any():
        least = float(values[picked].min())
        beaten = values[~picked & ~np.isnan(values)]
        # Only then is the lowest selected score a threshold: no other sentence scores higher.
        threshold = least if not (beaten > least).any() else None
    return ArmScores(name, values, picked, in_selection, threshold)
