"""Synthetic records of the lab: lines "date entity value" in time order, and what is asked of them.

A token is a whole word, so a line of a record is four tokens. A visit is a date with a few lines;
an entity comes back at later visits with other values. So neither the date nor the entity of a
question alone finds its line where another line shares it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.experiments.inhibition.config import EDGE, Placement

PAD, BEGIN, ASK, END = range(4)
"""Nothing, the beginning of a record, the end of a question, the end of a line."""
LINE = 4
"""Tokens of a line: date, entity, value, end."""
QUESTION = 3
"""Tokens of a question: date, entity, ask. The answer is what comes next."""
NAMES = (
    "lisinopril", "metformin", "warfarin", "furosemide", "digoxin", "amlodipine", "atorvastatin",
    "prednisone", "levothyroxine", "omeprazole", "insulin", "heparin", "creatinine", "potassium",
    "sodium", "haemoglobin", "platelets", "glucose", "lactate", "troponin", "albumin", "bilirubin",
    "INR", "ferritin", "calcium", "magnesium", "phosphate", "urea", "weight", "pulse",
    "temperature", "pressure",
)  # fmt: skip
FIRST_YEAR = 2010


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Dates (months, in order), entities and values, one token each."""

    dates: int = 120
    entities: int = 32
    values: int = 64

    @property
    def date0(self) -> int:
        """The first date's token."""
        return END + 1

    @property
    def entity0(self) -> int:
        """The first entity's token."""
        return self.date0 + self.dates

    @property
    def value0(self) -> int:
        """The first value's token."""
        return self.entity0 + self.entities

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return self.value0 + self.values

    def word(self, token: int) -> str:
        """What a token says."""
        if token >= self.value0:
            return str(10 + token - self.value0)
        if token >= self.entity0:
            round_, at = divmod(token - self.entity0, len(NAMES))
            return NAMES[at] + (f" {round_ + 1}" if round_ else "")
        if token >= self.date0:
            year, month = divmod(token - self.date0, 12)
            return f"{FIRST_YEAR + year}-{month + 1:02d}"
        return ("", "record:", "?", ".")[token]

    def text(self, tokens: list[int]) -> str:
        """What tokens say, one after another."""
        return " ".join(filter(None, (self.word(token) for token in tokens)))


VOCABULARY = Vocabulary()


Ints = NDArray[np.int64]
NEW_VISIT = 0.5
"""Chance that a line begins a new visit."""
MOST_MONTHS = 3
"""Months between visits, at most; fewer where the calendar is too short for a long record."""
RETURNING = 0.5
"""Chance that a line is of one of the record's own few entities, which come back."""
OWN = 5


@dataclass(frozen=True, slots=True)
class Lines:
    """Records [batch] of as many lines: numbers of date, entity, value, int64 [batch, lines]."""

    date: Ints
    entity: Ints
    value: Ints


@dataclass(frozen=True, slots=True)
class Batch:
    """Records as tokens with their questions.

    ``tokens`` int64 [batch, 1 + 4·lines]; ``asked`` [batch, questions, 3]; ``answer`` tokens
    [batch, questions]; ``line`` of the evidence [batch, questions].
    """

    tokens: Ints
    asked: Ints
    answer: Ints
    line: Ints


def dates(rng: np.random.Generator, new: NDArray[np.bool_], words: Vocabulary) -> Ints:
    """Numbers of dates [batch, lines] in time order; ``new`` tells where a visit begins."""
    visits = int(new.sum(axis=1).max()) + 1
    most = max(1, min(MOST_MONTHS, (words.dates - 1) // visits))
    step = rng.integers(1, most + 1, new.shape) * new
    since = step.cumsum(axis=1)
    start = rng.integers(0, words.dates - since[:, -1])
    return since + start[:, None]


def draw_lines(
    rng: np.random.Generator, batch: int, lines: int, words: Vocabulary = VOCABULARY
) -> Lines:
    """Random records; no two lines of one share both date and entity.

    Raises ValueError for more lines than the calendar has dates.
    """
    if lines > words.dates:
        raise ValueError(f"{lines} lines need as many dates; the calendar has {words.dates}")
    new = rng.random((batch, lines)) < NEW_VISIT
    new[:, 0] = False
    date = dates(rng, new, words)
    own = rng.random((batch, words.entities)).argsort(axis=1)[:, :OWN]

    def entities() -> Ints:
        any_ = rng.integers(0, words.entities, (batch, lines))
        known = np.take_along_axis(own, rng.integers(0, OWN, (batch, lines)), 1)
        return np.where(rng.random((batch, lines)) < RETURNING, known, any_)

    entity = entities()
    while True:
        pair = date * words.entities + entity
        order = pair.argsort(axis=1, kind="stable")
        ranked = np.take_along_axis(pair, order, 1)
        again = np.zeros_like(pair, dtype=bool)
        np.put_along_axis(again, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], 1)
        if not again.any():
            break
        entity = np.where(again, rng.integers(0, words.entities, (batch, lines)), entity)
    return Lines(date, entity, rng.integers(0, words.values, (batch, lines)))


def tokens_of(found: Lines, words: Vocabulary = VOCABULARY) -> Ints:
    """The tokens of records [batch, 1 + 4·lines]."""
    batch, lines = found.date.shape
    body = np.stack(
        [
            found.date + words.date0,
            found.entity + words.entity0,
            found.value + words.value0,
            np.full((batch, lines), END),
        ],
        axis=2,
    ).reshape(batch, lines * LINE)
    return np.concatenate([np.full((batch, 1), BEGIN), body], axis=1)


def ask(found: Lines, line: Ints, words: Vocabulary = VOCABULARY) -> Batch:
    """Questions after the values of lines [batch, questions]."""
    date, entity, value = (
        np.take_along_axis(each, line, 1) for each in (found.date, found.entity, found.value)
    )
    asked = np.stack([date + words.date0, entity + words.entity0, np.full_like(date, ASK)], axis=2)
    assert asked.shape[2] == QUESTION
    return Batch(tokens_of(found, words), asked, value + words.value0, line)


def edge_lines(lines: int) -> int:
    """How many lines at either end count as near the edge."""
    return max(1, round(EDGE * lines))


def draw_batch(
    rng: np.random.Generator,
    batch: int,
    lines: int,
    questions: int,
    placement: Placement,
    words: Vocabulary = VOCABULARY,
) -> Batch:
    """Records with questions, evidence placed as told; both placements draw the same records."""
    found = draw_lines(rng, batch, lines, words)
    share = rng.random((batch, questions))
    if placement == "uniform":
        return ask(found, (share * lines).astype(np.int64), words)
    edge = edge_lines(lines)
    place = (share * 2 * edge).astype(np.int64)
    return ask(found, np.where(place < edge, place, lines - 2 * edge + place), words)


def seen_by(found: Batch) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """The sequence a decoder reads: tokens [batch, time], positions [time], mask [time, time].

    All questions follow the record at once. Each sees the record and itself, and stands at the
    positions right behind the record, as if it were the only one (a block mask).
    """
    batch, record = found.tokens.shape
    questions = found.asked.shape[1]
    tokens = np.concatenate([found.tokens, found.asked.reshape(batch, -1)], axis=1)
    within = np.tile(np.arange(QUESTION), questions)
    positions = np.concatenate([np.arange(record), record + within])
    block = np.concatenate([np.full(record, -1), np.repeat(np.arange(questions), QUESTION)])
    time = np.arange(len(block))
    causal = time[:, None] >= time[None, :]
    mask = causal & ((block[None, :] == -1) | (block[None, :] == block[:, None]))
    return tokens, positions, mask


# Needle records: the same fact in the same record at every depth, with 0 to m distractors.


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
