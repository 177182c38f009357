"""Steps of the small reader's training, where a process keeps what it frees and where it does not.

Each side trains in a process of its own, for what is asked of the C library cannot be taken back;
both learn the same lessons of 100 lines and more, on two threads.
"""

from __future__ import annotations

import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from core.bench import BENCHES, compare
from core.small_reader.memory import keep_memory

LINES = 100
STEPS = 2


@functools.cache
def _trainer() -> Any:
    from core.small_reader.recipe import Recipe
    from core.small_reader.training import ReaderTrainer

    trainer = ReaderTrainer(Recipe(lines=(LINES, LINES, LINES)))
    trainer.total = STEPS
    return trainer


def _train() -> None:
    trainer = _trainer()
    trainer.history.clear()  # the same lessons each time
    trainer.run()


@BENCHES.register("small_memory")
def small_memory() -> dict[str, Any]:
    """Two steps of long lessons, forward, backward and update; the plain side gives memory back."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as plain, ProcessPoolExecutor(1, spawn) as keeping:
        kept = keeping.submit(keep_memory).result()
        plain.submit(_train).result()
        size = f"{STEPS} steps of two training examples, {LINES} lines and more"
        size += "" if kept else "; without glibc neither side retains memory"
        return compare(
            "small_memory",
            size,
            lambda: plain.submit(_train).result(),
            lambda: keeping.submit(_train).result(),
            ask=1.0,
        )
