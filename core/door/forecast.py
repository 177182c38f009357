"""What a forecast run's models attend to, asked by a page: opaque numbers in, weights out."""

from __future__ import annotations

from core.door.cohorts import open_data
from core.run.folder import find_run
from core.run.forecast.attending import Attended, HeldOut, attended, held_out


def forecast_sequences(run: str, task: str, seed: int | None = None) -> HeldOut:
    """The held-out sequences of a run's task, by number; as
    :func:`core.run.forecast.attending.held_out`."""
    folder = find_run(run)
    return held_out(folder, folder.plan(), task, seed)


def attention_map(run: str, task: str, index: int, seed: int) -> Attended:
    """What the models of a seed gave the events of one held-out sequence.

    As :func:`core.run.forecast.attending.attended`, on the cohort that the run was made of.
    """
    folder = find_run(run)
    plan = folder.plan()
    held_out(folder, plan, task, seed)  # models first: they are what most often is not there
    return attended(folder, plan, open_data(plan.data), task, index, seed)
