"""Benchmarks: each path next to its plain reference or limit, in turn, as a ratio of medians.

``midchart bench [NAME …]`` in a checkout, or ``python -m tests.bench``. A benchmark is a registered
function of a module of this package.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from midchart.core.loaders.open import read_cohort
from midchart.core.protocol import Protocol
from midchart.core.registry import Registry
from midchart.core.text import sentences
from midchart.core.types import Event, Record
from midchart.extras.lab.synthetic.cohort import make_clinical

Bench = Callable[[], dict[str, Any]]
BENCHES: Registry[dict[str, Any]] = Registry("bench", "tests.bench")


def reference(name: str) -> ModuleType:
    """The plain version ``tests/reference/<name>.py``, which the correctness tests use too."""
    return importlib.import_module(f"tests.reference.{name}")


QUESTION = "What dose of metformin did the patient take in 2014?"


@cache
def notes() -> tuple[Event, ...]:
    """The events of a synthetic record, in which short sentences come again, as in real ones."""
    with TemporaryDirectory() as folder:
        make_clinical(Path(folder), 2, 800, 1)
        records = read_cohort(folder).records
        return max((records[id].events for id in records), key=len)


@cache
def texts() -> tuple[str, ...]:
    """The first 2,000 sentences of :func:`notes`."""
    record = Record("bench", notes(), "")
    return tuple(one.text for one in sentences(record, Protocol())[:2000])


def compare(
    size: str,
    baseline: str,
    reference: Callable[[], Any],
    ours: Callable[[], Any],
    at_most: float,
    rounds: int = 5,
    calls: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Any]:
    """Time both sides in turn, in milliseconds of the processor unless ``clock`` is another one.

    ``baseline``: what the reference is. ``at_most``: the ratio of ours to it that is asked for.
    ``rounds``: how often each side is timed; ``calls``: calls of ours in a round.
    """
    seconds: tuple[list[float], list[float]] = [], []
    ours()  # once outside the clock: imports, caches
    for _ in range(rounds):
        for side, taken, times in zip((reference, ours), seconds, (1, calls), strict=True):
            start = clock()
            for _ in range(times):
                side()
            taken.append((clock() - start) / times)
    plain_ms, ours_ms = (1e3 * statistics.median(taken) for taken in seconds)
    return {
        "size": size,
        "baseline": baseline,
        "baseline_ms": round(plain_ms, 4),
        "ms": round(ours_ms, 4),
        "ratio": float(f"{ours_ms / plain_ms:.2g}"),
        "at_most": at_most,
        "reached": ours_ms <= at_most * plain_ms,
    }


def bench(names: Sequence[str], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Run the named benchmarks, or all; ``say`` is called with a line at the start of each."""
    chosen = {name: BENCHES.get(name) for name in names or BENCHES.names()}
    rows: list[dict[str, Any]] = []
    for name, run in chosen.items():
        say(f"bench: {name}")
        rows.append({"name": name, **run()})
    return rows
