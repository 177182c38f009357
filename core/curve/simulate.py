"""Made-up answers with a known effect of position, to see what the tests of a curve can do.

A design says which question's evidence lies where; answers are then drawn with a chosen accuracy
at each place and a chosen likeness of the answers to one question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.curve.bins import is_middle_of
from core.curve.placed import Placed, assemble

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PUBLISHED_N = (366, 222, 168, 138, 150, 204, 174, 186, 246, 342)
"""Answers by decile of the published data, six models each (PROTOCOL, Experiment 1)."""
PUBLISHED_QUESTIONS, PUBLISHED_MODELS = 270, 6


@dataclass(frozen=True, eq=False, slots=True)
class Design:
    """Where evidence lies: ``clusters`` int64 [p], ascending, and ``position`` float64 [p] of each
    place, each answered by ``models`` models."""

    clusters: Ints
    position: Floats
    models: int


def even_design(questions: int, models: int = 6) -> Design:
    """Questions with one place each, spread evenly over the record, as the demo's are."""
    return Design(np.arange(questions), (np.arange(questions) + 0.5) / questions, models)


def published_design(rng: np.random.Generator) -> Design:
    """Places like the published ones: 366 in the published deciles, 270 questions.

    Which questions have two places is not published: 96 of them here, drawn at random and placed
    independently; inside a decile places are spread evenly.
    """
    decile = np.repeat(np.arange(10), [n // PUBLISHED_MODELS for n in PUBLISHED_N])
    rank = np.concatenate([(np.arange(n) + 0.5) / n for n in np.bincount(decile)])
    place = rng.permutation((decile + rank) / 10)
    first = np.arange(PUBLISHED_QUESTIONS)
    second = rng.choice(PUBLISHED_QUESTIONS, len(place) - PUBLISHED_QUESTIONS, replace=False)
    clusters = np.concatenate([first, np.sort(second)])
    order = np.argsort(clusters, kind="stable")
    return Design(clusters[order], place[order], PUBLISHED_MODELS)


def answers(
    design: Design, accuracy: ArrayLike, likeness: float, rng: np.random.Generator
) -> Placed:
    """Right and wrong answers of a design.

    ``accuracy`` [p] or one number: the chance of a right answer at each place. ``likeness`` in
    [0, 1] is the correlation of any two answers to one question of equal accuracy: each answer is
    the question's own outcome with chance √likeness, else its own draw, so that accuracies are
    kept exactly. Raises ValueError outside [0, 1]. Source: Lunn and Davies, A note on generating
    correlated binary variables, Biometrika 85 (1998) 487–490.
    """
    chance = np.broadcast_to(np.asarray(accuracy, dtype=np.float64), design.position.shape)
    if not 0.0 <= likeness <= 1.0 or (chance < 0).any() or (chance > 1).any():
        raise ValueError("accuracy and likeness lie in [0, 1]")
    shape = (len(chance), design.models)
    shared = (rng.random(int(design.clusters[-1]) + 1)[design.clusters] < chance)[:, None]
    own = rng.random(shape) < chance[:, None]
    right = np.where(rng.random(shape) < np.sqrt(likeness), shared, own).sum(axis=1)
    n = np.full(len(chance), design.models)
    return assemble(design.clusters, right, n, design.position, np.ones(len(chance), np.uint64))


def stepped(design: Design, accuracy: float, difference: float) -> Floats:
    """Accuracy at each place of a design, float64 [p]: ``difference`` between middle and edge,
    ``accuracy`` over all answers. Raises ValueError where a share would leave [0, 1]."""
    middle = is_middle_of(design.position)
    at = accuracy + difference * (middle - middle.mean())
    if (at < 0).any() or (at > 1).any():
        raise ValueError(f"{difference} cannot be put around an accuracy of {accuracy}")
    return at
