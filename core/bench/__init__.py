"""Each fast path beside its plain reference, in one run, as a ratio (SPEED).

A bench is one file here that registers a function; the registry scans the folder. The plain
versions live in ``tests/reference``, where the correctness tests use them too, so a machine that
has the program without its tests is told so. Ratios are what counts: both sides are timed in
turn on the same machine, and the medians are compared.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from core import config as settings
from core.errors import InputError
from core.registry import Registry

Bench = Callable[[], dict[str, Any]]
BENCHES: Registry[dict[str, Any]] = Registry("bench", "core.bench")


def reference(name: str) -> ModuleType:
    """The plain version ``tests/reference/<name>.py``; raises InputError where it is not here."""
    try:
        return importlib.import_module(f"tests.reference.{name}")
    except ModuleNotFoundError:
        raise InputError(
            f"tests/reference/{name}.py is not found; benchmarks need a full checkout of Midchart, "
            "run from its folder"
        ) from None


def compare(
    name: str,
    size: str,
    slow: Callable[[], Any],
    fast: Callable[[], Any],
    ask: float,
    rounds: int = 5,
    fast_calls: int = 1,
) -> dict[str, Any]:
    """Time both sides in turn and give the row.

    ``rounds`` is how often each side is timed; a fast side of microseconds is called
    ``fast_calls`` times a round. Milliseconds are medians; ``ratio`` is slow over fast.
    """
    slow_times: list[float] = []
    fast_times: list[float] = []
    fast()  # once outside the clock: imports, caches
    for _ in range(rounds):
        begun = time.perf_counter()
        slow()
        slow_times.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        for _ in range(fast_calls):
            fast()
        fast_times.append((time.perf_counter() - begun) / fast_calls)
    slow_ms = 1e3 * statistics.median(slow_times)
    fast_ms = 1e3 * statistics.median(fast_times)
    return {
        "name": name,
        "size": size,
        "reference_ms": round(slow_ms, 4),
        "fast_ms": round(fast_ms, 4),
        "ratio": round(slow_ms / fast_ms, 1),
        "ask": ask,
        "reached": slow_ms / fast_ms >= ask,
    }


def bench(names: Sequence[str], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Run the benches named, telling each as it starts; where none is, all that can be run here.

    Those of a GPU (``_gpu_`` in their names) are left out where there is none, unless named.
    """
    here = [name for name in BENCHES.names() if "_gpu_" not in name or settings.gpus()]
    chosen = list(names) or here
    made = [BENCHES.get(name) for name in chosen]
    rows: list[dict[str, Any]] = []
    for name, run in zip(chosen, made, strict=True):
        say(f"bench: {name}")
        rows.append(run())
    return rows
