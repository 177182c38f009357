"""Needle records: the same fact in the same record at every depth, with 0 to m distractors.

A record has dates by place; what stands at them moves. The needle takes the date of its place, and
all other lines keep their order, so between two depths nothing differs but the needle's position.
A distractor is a line of the needle's entity with another value, at another date.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.inhibition.records import (
    NEW_VISIT,
    VOCABULARY,
    Batch,
    Ints,
    Lines,
    Vocabulary,
    ask,
    dates,
    draw_lines,
)

TRIES = 1000


@dataclass(frozen=True, slots=True)
class Haystacks:
    """Records [n] waiting for a needle.

    ``date`` [n, lines] by place; ``entity``, ``value`` [n, lines − 1] of the other lines in order;
    ``needle`` [n, 2] entity and value; ``free`` [n, most]: lines that become distractors, the
    first m of them for m, with values ``other`` [n, most].
    """

    date: Ints
    entity: Ints
    value: Ints
    needle: Ints
    free: Ints
    other: Ints


@dataclass(frozen=True, slots=True)
class Placed:
    """Records with their needle asked for: ``batch`` has one question a record, whose ``line`` is
    the needle's; ``distractor`` bool [n, lines] marks the distractors."""

    batch: Batch
    distractor: NDArray[np.bool_]


def places(lines: int, depths: int) -> Ints:
    """The places of a needle: ``depths`` of them, even from the first line to the last."""
    return np.linspace(0, lines - 1, depths).round().astype(np.int64)


def haystacks(
    rng: np.random.Generator,
    records: int,
    lines: int,
    depths: int,
    most: int,
    words: Vocabulary = VOCABULARY,
) -> Haystacks:
    """Draw records; raises ValueError where they are too short for ``most`` distractors.

    At each place that is tried the needle shares its date with a neighbour, so that the date alone
    does not find it; no distractor ever shares it.
    """
    tried = places(lines, depths)
    found: list[tuple[Ints, ...]] = []
    for _ in range(records):
        for _ in range(TRIES):
            one = _drawn(rng, lines, tried, most, words)
            if one is not None:
                found.append(one)
                break
        else:
            raise ValueError(f"{lines} lines have no room for {most} distractors")
    return Haystacks(*(np.stack(part) for part in zip(*found, strict=True)))


def _drawn(
    rng: np.random.Generator, lines: int, tried: Ints, most: int, words: Vocabulary
) -> tuple[Ints, ...] | None:
    new = rng.random((1, lines)) < NEW_VISIT
    new[:, 0] = False
    new[0, np.minimum(tried + 1, lines - 1)] = False
    date = dates(rng, new, words)[0]
    rest = draw_lines(rng, 1, lines - 1, words)
    needle = np.array([rng.integers(words.entities), rng.integers(words.values)])
    entity = rest.entity[0].copy()
    # Whatever is of the needle's entity is of the next one: distractors are put in, not met with.
    entity[entity == needle[0]] = (needle[0] + 1) % words.entities
    taken = np.zeros(lines - 1, dtype=bool)
    for place in tried:
        same = np.flatnonzero(date == date[place])
        # A line behind the needle stands one place on.
        taken[[p if p < place else p - 1 for p in same if p != place]] = True
    free = rng.permutation(np.flatnonzero(~taken))[:most]
    if len(free) < most:
        return None
    other = (needle[1] + 1 + rng.permutation(words.values - 1)[:most]) % words.values
    return date, entity, rest.value[0], needle, free, other


def place(found: Haystacks, at: int, distractors: int, words: Vocabulary = VOCABULARY) -> Placed:
    """Every record with its needle at line ``at`` and its first ``distractors`` distractors."""
    count = len(found.date)
    entity, value = found.entity.copy(), found.value.copy()
    mark = np.zeros_like(entity, dtype=bool)
    here = found.free[:, :distractors]
    np.put_along_axis(entity, here, np.repeat(found.needle[:, :1], distractors, 1), 1)
    np.put_along_axis(value, here, found.other[:, :distractors], 1)
    np.put_along_axis(mark, here, True, 1)
    lines = Lines(
        found.date,
        np.insert(entity, at, found.needle[:, 0], axis=1),
        np.insert(value, at, found.needle[:, 1], axis=1),
    )
    line = np.full((count, 1), at, dtype=np.int64)
    return Placed(ask(lines, line, words), np.insert(mark, at, False, axis=1))
