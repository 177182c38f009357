"""Benchmarks: each fast path and its plain reference, timed in turn, as a ratio of medians.

``midchart bench [NAME …]`` in a checkout, or ``python -m tests.bench``. A benchmark is a registered
function of a module of this package.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from midchart.core.registry import Registry

Bench = Callable[[], dict[str, Any]]
BENCHES: Registry[dict[str, Any]] = Registry("bench", "tests.bench")


def reference(name: str) -> ModuleType:
    """The plain version ``tests/reference/<name>.py``, which the correctness tests use too."""
    return importlib.import_module(f"tests.reference.{name}")


def compare(
    name: str,
    size: str,
    slow: Callable[[], Any],
    fast: Callable[[], Any],
    ask: float = 0,
    rounds: int = 5,
    fast_calls: int = 1,
    scale: tuple[float, float] = (1, 1),
    within_ms: float | None = None,
) -> dict[str, Any]:
    """Time both sides in turn and return the row of results, in milliseconds.

    ``rounds``: how often each side is timed; ``fast_calls``: calls of a fast side in a round;
    ``scale``: factors to the common size where the sides differ in size. ``ask``: the ratio slow to
    fast to be reached; or ``within_ms``, the longest that the fast side may take.
    """
    slow_s: list[float] = []
    fast_s: list[float] = []
    fast()  # once outside the clock: imports, caches
    for _ in range(rounds):
        start = time.perf_counter()
        slow()
        slow_s.append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(fast_calls):
            fast()
        fast_s.append((time.perf_counter() - start) / fast_calls)
    slow_ms, fast_ms = (
        1e3 * factor * statistics.median(seconds)
        for factor, seconds in zip(scale, (slow_s, fast_s), strict=True)
    )
    return {
        "name": name,
        "size": size,
        "reference_ms": round(slow_ms, 4),
        "fast_ms": round(fast_ms, 4),
        "ratio": round(slow_ms / fast_ms, 1),
        "ask": ask if within_ms is None else f"< {within_ms} ms",
        "reached": slow_ms / fast_ms >= ask if within_ms is None else fast_ms < within_ms,
    }


def bench(names: Sequence[str], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Run the named benchmarks, or all; ``say`` is called with a line at the start of each."""
    chosen = list(names) or BENCHES.names()
    functions = [BENCHES.get(name) for name in chosen]
    rows: list[dict[str, Any]] = []
    for name, run in zip(chosen, functions, strict=True):
        say(f"bench: {name}")
        rows.append(run())
    return rows
