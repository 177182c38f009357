"""Training of gates and of the small reader, as the command line calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from core import config as settings
from core import weights
from core.errors import InputError
from core.gate.cohort_training import PLUS_FIELDS, PROTOCOL_FIELDS, train_gate, train_plus_gate
from core.gate.config import Epoch, PlusStep
from core.parsing import user_path
from core.protocol import Protocol, parse
from core.provenance import digest
from core.services.cohorts import cohort_key, open_data
from core.small_reader.memory import keep_memory
from core.small_reader.recipe import Recipe, Step
from core.storage.files import writing
from core.training import TimeLeft
from core.types import Cohort

REPORTED = ("pairs", "unread_records", "curve", "test_auroc", "recipe")
"""Fields of a gate's card in the result of a training."""


def make_gate(
    data: str | Path,
    out: str | Path | None = None,
    protocol: str | Mapping[str, Any] = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Train a QCCS gate on a cohort; returns its folder and its evaluation (``train-gate --json``).

    Without ``out`` it is saved in the cache, in a folder of this cohort and protocol. Raises
    DataUseError where the cohort's tag forbids training, InputError where it has too few patients
    or no reference answers, or where the folder cannot be written.
    """
    cohort = open_data(data)
    chosen = parse(protocol)
    folder = _place(cohort, chosen, PROTOCOL_FIELDS) if out is None else user_path(out)

    def report_epoch(epoch: Epoch, epochs: int) -> bool:
        if progress is not None:
            progress(epoch.epoch, epochs)
        return True

    with writing(folder):
        gate = train_gate(cohort, chosen, folder, report_epoch)
    return {
        "folder": str(folder.resolve()),
        "hash": gate.config.hashing.name,
        "n": gate.config.hashing.n,
        "temperature": gate.temperature,
        "split": {part: len(getattr(gate.split, part)) for part in ("train", "validation", "test")},
        **{name: gate.facts[name] for name in REPORTED},
    }


def make_plus(
    data: str | Path,
    out: str | Path | None = None,
    protocol: str | Mapping[str, Any] = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Train QCCS plus on a cohort's training patients (``train-gate --plus --json``).

    Raises as :func:`make_gate` does, and InputError where no evidence was located.
    """
    cohort = open_data(data)
    chosen = parse(protocol)
    folder = _place(cohort, chosen, PLUS_FIELDS, "-plus") if out is None else user_path(out)

    def report_step(step: PlusStep, steps: int) -> bool:
        if progress is not None:
            progress(step.step, steps)
        return True

    with writing(folder):
        plus = train_plus_gate(cohort, chosen, folder, report_step)
    names = ("questions", "unread_records", "losses", "test", "recipe")
    return {"folder": str(folder.resolve()), **{name: plus.facts[name] for name in names}}


def make_calibration(
    data: str | Path,
    out: str | Path,
    protocol: str | Mapping[str, Any] = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Calibrate the arm ``certain`` on a cohort; returns its coverage (``calibrate --json``).

    ``out`` is the file to write; it holds numbers and hashes of records, no text. Raises InputError
    where no question has located evidence, or where the file cannot be written.
    """
    from core.arms.calibration import calibrate, split_coverage

    cohort = open_data(data)
    path = user_path(out)
    with writing(path):
        calibration = calibrate(cohort, parse(protocol), path, progress)
    return {"file": str(path.resolve()), **split_coverage(calibration)}


def _place(cohort: Cohort, protocol: Protocol, fields: Sequence[str], kind: str = "") -> Path:
    """A gate's folder in the cache; one for each way in which ``fields`` of a protocol differ from
    the corrected ones, so that no training overwrites the gate of another."""
    differing = {name: getattr(protocol, name) for name in fields}
    default = {name: getattr(Protocol(), name) for name in fields}
    other = "" if differing == default else f"-{digest(repr(sorted(differing.items())))[:8]}"
    return settings.cache_folder() / "gates" / f"{cohort_key(cohort)}{kind}{other}"


# The small reader.


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
    before the one that came with the program. The state is saved next to it; ``resume`` continues
    from there. ``steps``, ``seed``, ``threads`` change the recipe. ``progress`` is called with the
    latest steps, how many there are to be, and an estimate of the seconds left. The process keeps
    the memory it took, for good (:func:`core.small_reader.memory.keep_memory`). Returns the
    folder, the
    weights' SHA-256 and where the training ended. Raises InputError where a checkpoint exists and
    ``resume`` is not set, and what the trainer raises.
    """
    keep_memory()
    from core.small_reader.shipping import ship
    from core.small_reader.training import SAVE_EVERY, ReaderTrainer

    default_folder = settings.models_folder() / weights.SMALL
    folder = user_path(out) if out is not None else default_folder
    state = folder / CHECKPOINT
    if state.exists() and not resume:
        raise InputError(
            f"{state}: an unfinished training exists; continue with --resume, or delete it"
        )
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


def evaluate_reader(patients: int = 20, seed: int = 9_003) -> list[dict[str, Any]]:
    """The small reader's accuracy on held-out training examples and on patients of cohort ``seed``.

    The cohorts 9001 and 9002 were used to choose what the reader declines; this one was not used.
    """
    from core.protocol import parse
    from core.readers.small import Small
    from core.small_reader.evaluation import evaluate

    protocol = parse("corrected")
    return [asdict(row) for row in evaluate(Small(protocol), patients, seed, protocol)]
