"""What a training of the small reader is, in numbers; and what it tells while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.synthetic.lessons.readings import READINGS


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's size. ``window``: the longest prompt and answer it may be given, in tokens."""

    layers: int = 4
    width: int = 160
    heads: int = 5
    feed_forward: int = 320
    words: int = 1600
    window: int = 4096


@dataclass(frozen=True, slots=True)
class Recipe:
    """A training.

    steps: updates; records: lessons an update; asked: questions a lesson. rate: AdamW's, after
    ``warm_up`` steps, cosine to a tenth of it over the second half (a rate of 3e-3 stalls).
    lines: fewest lines of a lesson, most at the start, and most in the end; from one to the next
    by ``grow`` lines whenever the share of answers right word for word, over the last
    ``judged`` steps, is above ``enough``, and after ``patience`` steps anyway. long: most lines
    of the share ``long_share`` of lessons once the end is reached. joined: share of lessons with
    a whole note on a line; absent, made_up, distractors: as a plan of lessons has them. facts:
    least and largest share of a lesson's lines with facts (the largest while it is short).
    plain: share of lessons without distractors.
    start: where the weights begin, "copying" or "plain" (see ``network``).
    kinds: of fact that are asked for. first: those asked for until that share is first above
    ``enough``, and without distractors; of these there is one a fact until lessons are half grown.
    guide: weight of a second loss, by which a head of the third layer learns to look at the line
    that answers (0: none).
    threads: of the processor; more than one gives other last bits.
    """

    steps: int = 3600
    records: int = 3
    asked: int = 14
    rate: float = 1.2e-3
    warm_up: int = 40
    decay: float = 0.01
    clip: float = 1.0
    lines: tuple[int, int, int] = (6, 12, 40)
    grow: int = 6
    enough: float = 0.6
    judged: int = 20
    patience: int = 110
    long: int = 110
    long_share: float = 0.25
    joined: float = 0.1
    absent: float = 0.2
    facts: tuple[float, float] = (0.25, 0.7)
    made_up: float = 0.6
    distractors: int = 2
    plain: float = 0.7
    start: str = "copying"
    kinds: tuple[str, ...] = tuple(READINGS)
    first: tuple[str, ...] = ("latest", "lab", "dose", "dose_on_day", "day")
    guide: float = 1.0
    seed: int = 1
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """Where a training stands: over its last steps the loss, the share of answers right and the
    guided head's attention to the line that answers; most lines of a lesson, seconds since its
    beginning and seconds left."""

    step: int
    steps: int
    loss: float
    right: float
    found: float
    lines: int
    seconds: float
    left: float


Progress = Callable[[Step], None]
