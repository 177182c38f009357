"""Attention of a finished run's models to the events of one held-out sequence.

The weights are those of CLS's row, the only row of the last layer that reaches the forecast. They
are recomputed from the models saved in the run's folder; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError, InputError, UnknownName
from core.experiments.forecast.evaluation import prediction_files, read_columns
from core.experiments.forecast.examples import UNKNOWN
from core.loaders.labelled import labelled
from core.runs.directory import RunDirectory
from core.runs.plan import Plan
from core.sequences.gather import UNDATED, Sequences, last_events
from core.types import Cohort

CACHED_MODELS = 16


@dataclass(frozen=True, slots=True)
class SequenceEvent:
    """An event of a sequence, oldest first.

    ``place``: 1 is the latest event before the prediction, 2 the one before it. ``days``: before
    the prediction; None for an event without a time. ``known``: False where the code was too rare
    in training to be in the vocabulary.
    """

    place: int
    days: float | None
    code: str
    name: str
    value: float | None
    known: bool


@dataclass(frozen=True, eq=False, slots=True)
class ModelWeights:
    """CLS's row of every layer and head of one model.

    ``weights``: float32 [layers, heads, events]; ``cls``: [layers, heads], the weight of CLS
    itself. ``score``: the model's logit; ``stored``: the logit in the run's predictions.
    """

    item: str
    variant: str
    attention: str
    seed: int
    score: float
    stored: float
    weights: NDArray[np.float32]
    cls: NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class Attended:
    """One held-out sequence and the attention of each variant's model of a seed to its events."""

    task: str
    index: int
    label: int
    events: tuple[SequenceEvent, ...]
    models: tuple[ModelWeights, ...]


@dataclass(frozen=True, eq=False, slots=True)
class HeldOut:
    """The held-out sequences of a task.

    ``label`` uint8 [n]; ``scores`` variant → logits float64 [n]; ``seeds`` that have models.
    """

    label: NDArray[np.uint8]
    scores: Mapping[str, NDArray[np.float64]]
    seeds: tuple[int, ...]


def held_out(folder: RunDirectory, plan: Plan, task: str, seed: int | None = None) -> HeldOut:
    """The sequences of a task by number, with the scores of one seed's models (None: the first).

    Raises UnknownName for a task or seed without a model, InputError where the run holds no models.
    """
    rows, seeds = _trained(folder, plan, task, seed)
    files = {row["variant"]: _predictions(folder, row["item"]) for row in rows}
    scores = {variant: columns["score"] for variant, columns in files.items()}
    return HeldOut(list(files.values())[-1]["label"], scores, seeds)


def attended(
    folder: RunDirectory, plan: Plan, cohort: Cohort, task: str, index: int, seed: int
) -> Attended:
    """The attention of the models of ``seed`` to each event of held-out sequence ``index``.

    ``cohort`` is the run's own. Raises as :func:`held_out`; InputError for an index out of range,
    DataError where the cohort's labels are no longer those of the run.
    """
    rows, _ = _trained(folder, plan, task, seed)
    stored = _predictions(folder, rows[0]["item"])
    if not 0 <= index < len(stored["label"]):
        raise InputError(
            f"sequence {index} is not there; {task} has 0 to {len(stored['label']) - 1:,}"
        )
    data = labelled(cohort)
    labels = data.labels(task)
    row = int(stored["label_index"][index])
    same = row < len(labels) and (
        labels.patient[row] == stored["patient"][index]
        and labels.positive[row] == stored["label"][index]
    )
    if not same:
        problem = "labels differ from those of the run"
        raise DataError(cohort.path, None, problem, "run the forecast again on it")
    length, rule = plan.options["length"], plan.protocol.prediction_time
    gathered = last_events(data.store(), labels, length, rule, np.array([row], np.int64))
    names = data.store().words("code")
    vocabulary = _load(folder, rows[0]["item"])[1]
    known = vocabulary.tokens(gathered.codes, gathered.values)[0] > UNKNOWN
    codes, values, days = gathered.codes[0], gathered.values[0], gathered.deltas[0]
    events = tuple(
        SequenceEvent(
            len(codes) - int(i),
            None if days[i] == UNDATED else float(days[i]),
            names[codes[i]],
            data.name_of(names[codes[i]]),
            float(values[i]) if np.isfinite(values[i]) else None,
            bool(known[i]),
        )
        for i in np.flatnonzero(codes)
    )
    models = tuple(_weights(folder, one, gathered, index) for one in rows)
    return Attended(task, index, int(stored["label"][index]), events, models)


def _trained(
    folder: RunDirectory, plan: Plan, task: str, seed: int | None
) -> tuple[list[dict[str, Any]], tuple[int, ...]]:
    """A seed's (None: the first) trained models of a task whose files exist, in the spec's order of
    variants, and the seeds that have some."""
    columns = "item, task, variant, attention, seed"
    rows = folder.store(plan).select("models", columns, "status = 'ok' AND seed IS NOT NULL")
    if not rows:
        raise InputError(f"run {folder.id} has trained no model yet")
    saved = {row["item"] for row in rows if _model_file(folder, row["item"]).is_file()}
    if not saved:
        raise InputError(
            f"run {folder.id} holds no trained models: an export leaves them out. "
            "Run its spec here to look at what they attend to"
        )
    # A variant with a separate split was evaluated on other sequences than the rest.
    order = [one["label"] for one in plan.options["variants"] if one.get("split") != "random"]
    of_task = [row for row in rows if row["task"] == task and row["variant"] in order]
    if not of_task:
        raise UnknownName("task", task, sorted({row["task"] for row in rows}))
    of_task = [row for row in of_task if row["item"] in saved]
    if not of_task:
        raise InputError(f"run {folder.id} holds no trained models of {task}; resume it")
    seeds = tuple(sorted({row["seed"] for row in of_task}))
    seed = seeds[0] if seed is None else seed
    if seed not in seeds:
        raise UnknownName("seed", str(seed), map(str, seeds))
    of_seed = [row for row in of_task if row["seed"] == seed]
    return sorted(of_seed, key=lambda row: order.index(row["variant"])), seeds


def _model_file(folder: RunDirectory, item: str) -> Path:
    return folder.path / "forecast" / f"{item}.safetensors"


def _predictions(folder: RunDirectory, item: str) -> dict[str, NDArray[Any]]:
    return read_columns(prediction_files(folder.path, item)[0])


@lru_cache(maxsize=CACHED_MODELS)
def _model(file: Path, modified: int) -> tuple[Any, Any]:
    """A model and its vocabulary; ``modified`` distinguishes versions of the file."""
    from core.experiments.forecast.training import load_model

    return load_model(file.parent, file.stem)


def _load(folder: RunDirectory, item: str) -> tuple[Any, Any]:
    file = _model_file(folder, item)
    return _model(file, file.stat().st_mtime_ns)


def _weights(
    folder: RunDirectory, row: Mapping[str, Any], gathered: Sequences, index: int
) -> ModelWeights:
    import torch

    from core.training.repeatable import one_thread

    network, vocabulary = _load(folder, row["item"])
    events = int((gathered.codes != 0).sum())
    tokens = vocabulary.tokens(gathered.codes, gathered.values)
    with torch.no_grad(), one_thread():
        cut = torch.from_numpy(tokens[:, tokens.shape[1] - max(1, events) :])
        logit, maps = network(cut, need_weights=True)
    cls = np.stack([layer[0, :, 0].numpy() for layer in maps])  # [layers, heads, 1 + t]
    stored = _predictions(folder, row["item"])["score"][index]
    return ModelWeights(
        row["item"], row["variant"], row["attention"], row["seed"], float(logit[0]), float(stored),
        cls[:, :, 1 : 1 + events], cls[:, :, 0],
    )  # fmt: skip
