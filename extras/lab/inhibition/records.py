"""Synthetic records of the lab: lines "date entity value" in time order, and questions about them.

A token is a whole word, so a line of a record is four tokens. A visit is a date with a few lines;
an entity recurs at later visits with other values. So neither the date nor the entity of a question
alone identifies its line where another line shares it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Placement = Literal["uniform", "edges"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
EDGE = 0.2
"""Placement "edges": in training the evidence is in the first or last fifth of lines."""

PAD, BEGIN, ASK, END = range(4)
"""Padding, the beginning of a record, the end of a question, the end of a line."""
LINE = 4
"""Tokens of a line: date, entity, value, end."""
QUESTION = 3
"""Tokens of a question: date, entity, ask. The answer is the next token."""
DATES, ENTITIES, VALUES = 120, 32, 64
"""Dates (months, in order), entities and values, one token each."""
DATE0 = END + 1
ENTITY0 = DATE0 + DATES
VALUE0 = ENTITY0 + ENTITIES
"""The first token of dates, entities and values."""
VOCABULARY = VALUE0 + VALUES
"""Number of tokens."""
NEW_VISIT = 0.5
"""Chance that a line begins a new visit."""
MOST_MONTHS = 3
"""Months between visits, at most; fewer where the calendar is too short for a long record."""
RECURRING = 0.5
"""Chance that a line is of one of the record's few recurring entities."""
RECURRING_ENTITIES = 5
TRIES = 1000
"""Attempts at a record with room for its distractors."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Records [batch] of as many lines: numbers of date, entity, value, int64 [batch, lines]."""

    date: Ints
    entity: Ints
    value: Ints


@dataclass(frozen=True, slots=True)
class Batch:
    """Records as tokens with their questions.

    ``tokens`` int64 [batch, 1 + 4·lines]; ``question`` [batch, questions, 3]; ``answer`` tokens
    [batch, questions]; ``line`` of the evidence [batch, questions].
    """

    tokens: Ints
    question: Ints
    answer: Ints
    line: Ints


def dates(rng: np.random.Generator, new: NDArray[np.bool_]) -> Ints:
    """Numbers of dates [batch, lines] in time order; ``new``: where a visit begins."""
    visits = int(new.sum(axis=1).max()) + 1
    most = max(1, min(MOST_MONTHS, (DATES - 1) // visits))
    step = rng.integers(1, most + 1, new.shape) * new
    since = step.cumsum(axis=1)
    start = rng.integers(0, DATES - since[:, -1])
    return since + start[:, None]


def draw_lines(rng: np.random.Generator, batch: int, lines: int) -> Lines:
    """Random records; no two lines of one share both date and entity.

    Raises ValueError for more lines than the calendar has dates.
    """
    if lines > DATES:
        raise ValueError(f"{lines} lines need as many dates; the calendar has {DATES}")
    new = rng.random((batch, lines)) < NEW_VISIT
    new[:, 0] = False
    date = dates(rng, new)
    recurring_entities = rng.random((batch, ENTITIES)).argsort(axis=1)[:, :RECURRING_ENTITIES]
    anyone = rng.integers(0, ENTITIES, (batch, lines))
    recurring = np.take_along_axis(
        recurring_entities, rng.integers(0, RECURRING_ENTITIES, (batch, lines)), 1
    )
    entity = np.where(rng.random((batch, lines)) < RECURRING, recurring, anyone)
    while True:
        pair = date * ENTITIES + entity
        order = pair.argsort(axis=1, kind="stable")
        ranked = np.take_along_axis(pair, order, 1)
        repeated = np.zeros_like(pair, dtype=bool)
        np.put_along_axis(repeated, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], 1)
        if not repeated.any():
            break
        entity = np.where(repeated, rng.integers(0, ENTITIES, (batch, lines)), entity)
    return Lines(date, entity, rng.integers(0, VALUES, (batch, lines)))


def tokens_of(lines: Lines) -> Ints:
    """The tokens of records [batch, 1 + 4·lines]."""
    end = np.full_like(lines.date, END)
    columns = [lines.date + DATE0, lines.entity + ENTITY0, lines.value + VALUE0]
    body = np.stack([*columns, end], axis=2).reshape(len(end), -1)
    return np.concatenate([np.full((len(end), 1), BEGIN), body], axis=1)


def ask(lines: Lines, line: Ints) -> Batch:
    """Questions about the values of lines [batch, questions]."""
    date, entity, value = (
        np.take_along_axis(each, line, 1) for each in (lines.date, lines.entity, lines.value)
    )
    question = np.stack([date + DATE0, entity + ENTITY0, np.full_like(date, ASK)], axis=2)
    return Batch(tokens_of(lines), question, value + VALUE0, line)


def edge_lines(lines: int) -> int:
    """Number of lines at either end that count as edge."""
    return max(1, round(EDGE * lines))


def draw_batch(
    rng: np.random.Generator,
    batch: int,
    lines: int,
    questions: int,
    placement: Placement,
) -> Batch:
    """Records with questions; both placements of the evidence draw the same records."""
    drawn = draw_lines(rng, batch, lines)
    share = rng.random((batch, questions))
    if placement == "uniform":
        return ask(drawn, (share * lines).astype(np.int64))
    edge = edge_lines(lines)
    line = (share * 2 * edge).astype(np.int64)
    return ask(drawn, np.where(line < edge, line, lines - 2 * edge + line))


def input_of(batch: Batch) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """The input of a decoder: tokens [batch, time], positions [time], mask [time, time].

    All questions follow the record. Each attends to the record and itself, at the positions right
    after the record, as if it were the only one (a block mask).
    """
    records, record = batch.tokens.shape
    questions = batch.question.shape[1]
    tokens = np.concatenate([batch.tokens, batch.question.reshape(records, -1)], axis=1)
    within = np.tile(np.arange(QUESTION), questions)
    positions = np.concatenate([np.arange(record), record + within])
    block = np.concatenate([np.full(record, -1), np.repeat(np.arange(questions), QUESTION)])
    time = np.arange(len(block))
    causal = time[:, None] >= time[None, :]
    mask = causal & ((block[None, :] == -1) | (block[None, :] == block[:, None]))
    return tokens, positions, mask


# Needle records: the same fact in the same record at every depth, with 0 to m distractors.


@dataclass(frozen=True, slots=True)
class Haystacks:
    """Records [n] without their needle.

    ``date`` [n, lines] by position; ``entity``, ``value`` [n, lines − 1] of the other lines;
    ``needle`` [n, 2] entity and value; ``free`` [n, most]: lines that become distractors, in order,
    with values ``other`` [n, most].
    """

    date: Ints
    entity: Ints
    value: Ints
    needle: Ints
    free: Ints
    other: Ints


@dataclass(frozen=True, slots=True)
class PlacedNeedles:
    """Records with their needle: ``batch`` has one question a record, whose ``line`` is the
    needle's; ``distractor`` bool [n, lines] marks the distractors."""

    batch: Batch
    distractor: NDArray[np.bool_]


def needle_positions(lines: int, depths: int) -> Ints:
    """``depths`` positions of a needle, evenly spaced from the first line to the last."""
    return np.linspace(0, lines - 1, depths).round().astype(np.int64)


def haystacks(
    rng: np.random.Generator,
    records: int,
    lines: int,
    depths: int,
    most: int,
) -> Haystacks:
    """Draw records; raises ValueError where they are too short for ``most`` distractors.

    At each position the needle shares its date with a neighbour, so that the date alone does not
    identify it; no distractor ever shares it.
    """
    positions = needle_positions(lines, depths)
    drawn: list[tuple[Ints, ...]] = []
    for _ in range(records):
        tries = (_drawn(rng, lines, positions, most) for _ in range(TRIES))
        record = next((one for one in tries if one is not None), None)
        if record is None:
            raise ValueError(f"{lines} lines have no room for {most} distractors")
        drawn.append(record)
    return Haystacks(*(np.stack(part) for part in zip(*drawn, strict=True)))


def _drawn(
    rng: np.random.Generator, lines: int, positions: Ints, most: int
) -> tuple[Ints, ...] | None:
    new = rng.random((1, lines)) < NEW_VISIT
    new[:, 0] = False
    new[0, np.minimum(positions + 1, lines - 1)] = False
    date = dates(rng, new)[0]
    rest = draw_lines(rng, 1, lines - 1)
    needle = np.array([rng.integers(ENTITIES), rng.integers(VALUES)])
    entity = rest.entity[0].copy()
    # The needle's entity occurs elsewhere only in the distractors.
    entity[entity == needle[0]] = (needle[0] + 1) % ENTITIES
    taken = np.zeros(lines - 1, dtype=bool)
    for at in positions:
        same = np.flatnonzero(date == date[at])
        # Lines after the needle move by one position.
        taken[[p if p < at else p - 1 for p in same if p != at]] = True
    free = rng.permutation(np.flatnonzero(~taken))[:most]
    if len(free) < most:
        return None
    other = (needle[1] + 1 + rng.permutation(VALUES - 1)[:most]) % VALUES
    return date, entity, rest.value[0], needle, free, other


def place(stack: Haystacks, at: int, distractors: int) -> PlacedNeedles:
    """Every record with its needle at line ``at`` and its first ``distractors`` distractors."""
    entity, value = stack.entity.copy(), stack.value.copy()
    mark = np.zeros_like(entity, dtype=bool)
    chosen = stack.free[:, :distractors]
    np.put_along_axis(entity, chosen, np.repeat(stack.needle[:, :1], distractors, 1), 1)
    np.put_along_axis(value, chosen, stack.other[:, :distractors], 1)
    np.put_along_axis(mark, chosen, True, 1)
    lines = Lines(
        stack.date,
        np.insert(entity, at, stack.needle[:, 0], axis=1),
        np.insert(value, at, stack.needle[:, 1], axis=1),
    )
    line = np.full((len(stack.date), 1), at, dtype=np.int64)
    return PlacedNeedles(ask(lines, line), np.insert(mark, at, False, axis=1))
