"""One training by several processes of this machine, a device each, that leaves a checkpoint.

The caller then runs a ForecastTrainer from the checkpoint, which has every epoch.
"""

from __future__ import annotations

import multiprocessing
import queue
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.ehrshot.encoder import EncoderConfig
from core.ehrshot.examples import Examples
from core.ehrshot.recipe import Epoch, Recipe
from core.errors import WorkFailed
from core.training import Progress

PATIENCE_S = 0.5
"""How long the wait for news goes on before the processes are looked at."""


@dataclass(frozen=True, eq=False)
class Training:
    """What a :class:`core.ehrshot.trainer.ForecastTrainer` is made of, to be sent to a process."""

    found: Examples
    config: EncoderConfig
    recipe: Recipe
    question: str
    texts: tuple[str, ...]
    cpu: bool


def train_together(
    training: Training, size: int, checkpoint: Path, progress: Progress[Epoch] | None = None
) -> None:
    """Train in ``size`` processes until ``checkpoint`` holds every epoch; goes on from it.

    ``progress`` is told in this process, and what it raises ends the others. Raises WorkFailed
    where one of them fails or there are fewer GPUs than that.
    """
    _enough(size, training.cpu)
    context = multiprocessing.get_context("spawn")
    news: Any = context.Queue()
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="midchart-team-") as place:
        meeting = Path(place) / "meeting"
        given = (size, meeting, training, checkpoint, news)
        members = [
            context.Process(target=_member, args=(rank, *given), daemon=True)
            for rank in range(size)
        ]
        try:
            for one in members:
                one.start()
            _listen(members, news, training.recipe.epochs, progress)
        finally:
            for one in members:
                if one.is_alive():
                    one.terminate()
                one.join()


def _enough(size: int, cpu: bool) -> None:
    import torch

    there = torch.cuda.device_count()
    if not cpu and there < size:
        raise WorkFailed(
            f"a training on {size} devices needs as many GPUs, and {there} can be seen here; "
            "lower 'devices' of the spec, or set device = \"cpu\""
        )


def _listen(members: list[Any], news: Any, epochs: int, progress: Progress[Epoch] | None) -> None:
    """Hand on what the first of them tells, until all have ended."""
    while True:
        try:
            told = news.get(timeout=PATIENCE_S)
        except queue.Empty:
            told = None
        if isinstance(told, str):
            raise WorkFailed(told)
        if isinstance(told, Epoch) and progress is not None:
            progress(told, epochs)
        if told is None:
            ended = [one.exitcode for one in members]
            if any(ended):  # neither running nor well ended
                raise WorkFailed("a process of a training on several devices ended before its time")
            if all(code == 0 for code in ended) and news.empty():
                return


def _member(
    rank: int, size: int, meeting: Path, training: Training, checkpoint: Path, news: Any
) -> None:
    from core.ehrshot.team import join, part
    from core.ehrshot.trainer import ForecastTrainer

    def tell(epoch: Epoch, _: int) -> bool:
        news.put(epoch)
        return True

    try:
        team = join(rank, size, meeting, training.cpu)
        one = ForecastTrainer(
            training.found, training.config, training.recipe, training.question, training.texts,
            team=team,
        )  # fmt: skip
        one.run(tell if rank == 0 else None, checkpoint)
        part()
    except Exception as error:  # noqa: BLE001 - its text may quote a record; its kind is told
        known = isinstance(error, WorkFailed)
        news.put(str(error) if known else f"{type(error).__name__} in one of {size} processes")
        raise SystemExit(1) from None
