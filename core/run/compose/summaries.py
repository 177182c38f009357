"""What an arm that has a reader write summaries asks of it, told before a run starts.

Summaries do not depend on the question, so they are asked for once a record: a call a chunk of
events, more where a chunk is too long for one prompt, and calls that fold summaries until a prompt
can hold them (:mod:`core.arms.map_reduce`). Nothing is read or loaded; tokens are "about".
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from core.arms import ARMS
from core.arms.map_reduce import FILL, FOLD, SUMMARISE
from core.packing import HEAD, MIDDLE, TAIL
from core.protocol import Protocol
from core.run.entries import ArmEntry
from core.text import count_tokens

DATE = count_tokens("[2015-01-01]")
"""Tokens of the date before a line of a prompt."""
DATES = count_tokens("[2015-01-01 to 2015-01-31]")
"""Tokens of the dates before a summary."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Of one record: calls, tokens read, tokens written."""

    calls: float
    read: float
    written: float


def writing(
    entry: ArmEntry,
    protocol: Protocol,
    window: int,
    records: Sequence[tuple[int, int, int]],
    question: float,
    answer: float,
) -> Writing:
    """What ``entry`` asks of its reader for a record, on average over ``records``.

    window: tokens of the reader's longest prompt. records: (events, lines, tokens) of each.
    question, answer: tokens of a question and of a summary.
    """
    usual = inspect.signature(ARMS.get(entry.name)).parameters
    chunk = entry.options.get("events", usual["events"].default if "events" in usual else 0)
    frame = count_tokens(HEAD + MIDDLE + TAIL)
    last = window
    if protocol.truncation == "right":
        last = min(last, protocol.right_tokens + protocol.answer_tokens)
    last = last - protocol.answer_tokens - frame - question
    for limit in (protocol.context_tokens, entry.tokens):
        last = min(last, limit) if limit else last
    found = [
        _record(
            events,
            tokens + DATE * lines,
            chunk or events,
            protocol,
            window,
            max(last, 1.0),
            frame,
            answer,
        )
        for events, lines, tokens in records
        if events
    ]
    n = max(len(records), 1)
    calls, read = sum(one[0] for one in found), sum(one[1] for one in found)
    return Writing(calls / n, read / n, calls * answer / n)


def _record(
    events: int,
    tokens: int,
    chunk: int,
    protocol: Protocol,
    window: int,
    last: float,
    frame: int,
    answer: float,
) -> tuple[float, float]:
    """Calls and tokens read for one record."""
    flat = protocol.map_reduce == "flat"
    around = frame + count_tokens(SUMMARISE)
    room = max(window - protocol.answer_tokens - around, 1)
    chunks = ceil(events / chunk)
    each = tokens / chunks
    halved = 0 if flat or each <= room else ceil(log2(each / room))
    calls = n = chunks * 2**halved
    read = (min(each, room) * chunks if flat else float(tokens)) + n * around
    one = answer + DATES
    while not flat and n > 1 and n * one > last:
        groups = max(1, min((n + 1) // 2, int(FILL * last / one)), ceil(n * one / room))
        if groups >= n:
            break  # the arm refuses: the window holds no two summaries
        calls += groups
        read += n * one + groups * (frame + count_tokens(FOLD))
        n = groups
    return calls, read
