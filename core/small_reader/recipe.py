"""Recipe, shape and steps of the small reader's training, and its allocator settings (no torch)."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """The network's size. ``window``: most tokens of prompt and answer."""

    layers: int = 4
    width: int = 336
    heads: int = 7
    feed_forward: int = 288
    words: int = 3200
    window: int = 4096


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters of a training.

    steps: updates; records: examples an update; asked: questions an example, during the growth of
    examples and after it; complete: number of these of which the whole answer is predicted, not its
    beginning. rate: of Muon and AdamW after ``warm_up`` steps; it decays linearly to the share
    ``least`` over the last share ``falling`` of the steps. lines: fewest lines of an example, most
    at the start, and most at the end; the most grows by ``grow`` whenever the accuracy over the
    last ``judged`` steps is above ``enough``, and after ``patience`` steps anyway. Until the first
    growth (at most four times ``patience``), examples have facts with a value only, and no
    distractors. long: most lines of the share ``long_share`` of examples once the end is reached.
    made_up: share of invented names, during growth and after it: copying is learned before the
    meaning of names. facts: least and largest share of an example's lines with facts (the largest
    during growth). distractors, kinds: as in an example's plan; plain: share of examples without
    distractors. absent, withheld, latest: as in the plan; the first value until the rate decays,
    the second from then on. start: initialisation, "copying" or "plain" (see ``network``). guide:
    weight of a second loss that guides heads to the answering line and to the start of a line (0:
    none). threads: examples computed in parallel, without effect on the result. half: whether
    matrix products are in bfloat16.
    """

    steps: int = 2400
    records: int = 2
    asked: tuple[int, int] = (16, 28)
    complete: int = 14
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
    """The steps up to ``step``: means over the last steps of the loss, the share of correct answers
    (``right``) and the guided heads' attention to the answering line (``attended``); most lines of
    an example; seconds since the last entry."""

    step: int
    loss: float
    right: float
    attended: float
    lines: int
    seconds: float


# Parameters of mallopt, by the numbers that glibc's malloc.h gives them.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8


def keep_memory() -> bool:
    """Let this process retain freed memory, in one heap, instead of returning it to the system.

    The tensors of a training example are large and freed at its end; glibc would return their
    pages, and the system clear them for the next example. Returns False, without effect, where the
    C library is not glibc. Call it before a training's threads start.
    """
    if sys.platform != "linux":
        return False
    library: Any = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    wanted = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**26), (_ARENA_MAX, 1))
    return all(library.mallopt(parameter, value) == 1 for parameter, value in wanted)
