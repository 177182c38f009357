"""How the small reader is trained, and what its training reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's size. ``window``: the longest prompt and answer it may be given, in tokens."""

    layers: int = 4
    width: int = 336
    heads: int = 7
    feed_forward: int = 288
    words: int = 3200
    window: int = 4096


@dataclass(frozen=True, slots=True)
class Recipe:
    """A training.

    steps: updates; records: lessons an update; asked: questions a lesson, while lessons grow and
    then; whole: of these, the ones whose whole answer is foretold, and not its beginning alone.
    rate: Muon's and AdamW's, after ``warm_up`` steps; over the last share ``falling`` of the steps
    it goes down in a line to the share ``least`` of it. lines: fewest lines of a lesson, most at
    the start, and most in the end; from one to the next by ``grow`` lines whenever the share of
    answers right word for word, over the last ``judged`` steps, is above ``enough``, and after
    ``patience`` steps anyway. Lessons of a step have as many lines each. Before the first growth,
    which may take four times as long, they have values, doses, days, answers of yes or no and lines
    that mean nothing, and no distractors.
    long: most lines of the share ``long_share`` of lessons once the end is reached. made_up: the
    share of names that exist nowhere, while lessons grow and then: copying is learned before what
    names mean. facts: least and largest share of a lesson's lines with facts (the largest while it
    is short). distractors, kinds: as a plan of lessons has them. plain: share of lessons without
    distractors. absent, withheld, latest: as a plan has them; the one until the rate goes down
    and then, the other from there on.
    start: where the weights begin, "copying" or "plain" (see ``network``).
    guide: weight of a second loss, by which heads learn to look at the line that answers and at
    how a line begins (0: none).
    threads: examples computed in parallel; their number changes nothing. half: whether products
    are made in bfloat16, which is fast where a processor knows it.
    """

    steps: int = 2400
    records: int = 2
    asked: tuple[int, int] = (16, 28)
    whole: int = 14
    rate: float = 1.1e-3
    warm_up: int = 60
    decay: float = 0.01
    falling: float = 0.55
    least: float = 0.02
    clip: float = 1.0
    lines: tuple[int, int, int] = (6, 12, 60)
    grow: int = 12
    enough: float = 0.6
    judged: int = 30
    patience: int = 120
    long: int = 115
    long_share: float = 0.4
    absent: tuple[float, float] = (0.2, 0.28)
    withheld: tuple[float, float] = (0.15, 0.25)
    facts: tuple[float, float] = (0.15, 0.7)
    made_up: tuple[float, float] = (0.6, 0.25)
    distractors: int = 2
    plain: float = 0.7
    latest: float = 0.65
    start: str = "copying"
    kinds: tuple[str, ...] = ()
    guide: float = 1.0
    seed: int = 1
    threads: int = 2
    half: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of steps up to ``step``.

    ``loss``, ``right``, ``found``: means over the last steps of the loss, the share of answers
    right and the guided heads' attention to the line that answers. ``lines``: most lines of a
    lesson. ``seconds`` that the stretch took.
    """

    step: int
    loss: float
    right: float
    found: float
    lines: int
    seconds: float
