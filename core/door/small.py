"""Training the small reader anew and examining it, as the command line asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from core import settings, weights
from core.errors import InputError
from core.small.memory import keep_memory
from core.small.recipe import Recipe, Step
from core.training import TimeLeft

CHECKPOINT = "checkpoint.safetensors"


def train_reader(
    out: str | Path | None = None,
    steps: int | None = None,
    seed: int | None = None,
    resume: bool = False,
    threads: int = 2,
    progress: Callable[[Step, int, float], None] | None = None,
) -> dict[str, Any]:
    """Train the small reader from nothing and save it as the hub would (``train-reader``).

    ``out``: its folder; by default the models folder's, where the reader ``small`` then finds it
    before the one that came with the program. The state is kept beside it; ``resume`` goes on
    from there. ``steps``, ``seed``, ``threads`` change the recipe. ``progress`` is called with the
    latest steps, how many there are to be, and an estimate of the seconds left. The process keeps
    the memory it took, for good (:func:`core.small.memory.keep_memory`). Returns the folder, the
    weights' SHA-256 and where the training ended. Raises InputError where a checkpoint exists and
    ``resume`` is not set, and what the trainer raises.
    """
    keep_memory()
    from core.small.shipping import ship
    from core.small.trainer import SAVE_EVERY, ReaderTrainer

    usual = settings.models_folder() / weights.SMALL
    folder = Path(out) if out is not None else usual
    state = folder / CHECKPOINT
    if state.exists() and not resume:
        raise InputError(f"{state}: a training was begun here; go on with --resume, or delete it")
    usually = Recipe(threads=threads)
    recipe = replace(
        usually,
        steps=usually.steps if steps is None else steps,
        seed=usually.seed if seed is None else seed,
    )
    trainer, time_left = ReaderTrainer(recipe), TimeLeft()

    def report(step: Step, steps: int) -> bool:
        left = time_left.after(
            step.step % SAVE_EVERY or SAVE_EVERY, step.seconds, steps - step.step
        )
        if progress is not None:
            progress(step, steps, left)
        return True

    trainer.run(report, state)
    digest = ship(trainer.network, trainer.tokenizer, trainer.shape, recipe, trainer.done, folder)
    state.unlink()
    seconds = sum(step.seconds for step in trainer.history)
    ended = {**asdict(trainer.history[-1]), "seconds": seconds}
    return {"folder": str(folder.resolve()), "sha256": digest, **ended}


def examine_reader(patients: int = 20, seed: int = 9_003) -> list[dict[str, Any]]:
    """The small reader's marks on lessons it never had, and on patients of cohort ``seed``.

    The cohorts 9001 and 9002 chose what the reader declines; this one chose nothing.
    """
    from core.protocol import parse
    from core.readers.small import Small
    from core.small.exam import examine

    protocol = parse("corrected")
    return [asdict(mark) for mark in examine(Small(protocol), patients, seed, protocol)]
