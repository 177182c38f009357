"""What a finished training attends to: one held-out sequence through a run's saved models.

The weights are those of CLS's row, the only row of the last layer that reaches the forecast.
Models are read from the run's folder and asked anew; nothing is kept.
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
from core.experiments.forecast.recipe import variants_of
from core.experiments.forecast.tables import prediction_files, read_columns
from core.loaders.labelled import LabelledData, labelled
from core.runs.directory import RunDirectory
from core.runs.plan import Plan
from core.sequences.gather import UNDATED, last_events
from core.types import Cohort

KEPT_MODELS = 16
"""Models that stay in memory, so that another sequence costs no reading."""


@dataclass(frozen=True, slots=True)
class SequenceEvent:
    """An event of a sequence, oldest first.

    ``place``: 1 is the latest event before the prediction, 2 the one before it. ``days``: before
    the prediction; None for an event without a time. ``known``: False where the code was too rare
    in training to have a token of its own.
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

    ``weights``: float32 [layers, heads, events]; ``own``: [layers, heads], what CLS gave itself.
    ``score``: the model's logit, ``stored`` the one that the run wrote down.
    """

    item: str
    variant: str
    attention: str
    seed: int
    score: float
    stored: float
    weights: NDArray[np.float32]
    own: NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class Attended:
    """One held-out sequence and what each variant's model of a seed gave its events."""

    task: str
    index: int
    label: int
    events: tuple[SequenceEvent, ...]
    models: tuple[ModelWeights, ...]


@dataclass(frozen=True, eq=False, slots=True)
class HeldOut:
    """The held-out sequences of a task that can be looked at.

    ``label`` uint8 [n]; ``scores`` variant → logits float64 [n]; ``seeds`` that have models.
    """

    label: NDArray[np.uint8]
    scores: Mapping[str, NDArray[np.float64]]
    seeds: tuple[int, ...]


def held_out(folder: RunDirectory, plan: Plan, task: str, seed: int | None = None) -> HeldOut:
    """The sequences of a task by number, with the scores of one seed's models (None: the first).

    Raises UnknownName for a task or seed that the run has no model of, InputError where the run
    holds no models.
    """
    rows = _trained(folder, plan, task)
    seeds = tuple(sorted({row["seed"] for row in rows}))
    if seed is not None and seed not in seeds:
        raise UnknownName("seed", str(seed), [str(one) for one in seeds])
    wanted = seeds[0] if seed is None else seed
    scores: dict[str, NDArray[np.float64]] = {}
    label: NDArray[np.uint8] = np.empty(0, np.uint8)
    for row in rows:
        if row["seed"] == wanted:
            told = _predictions(folder, row["item"])
            label, scores[row["variant"]] = told["label"], told["score"]
    return HeldOut(label, scores, seeds)


def attended(
    folder: RunDirectory, plan: Plan, cohort: Cohort, task: str, index: int, seed: int
) -> Attended:
    """What the models of ``seed`` gave each event of held-out sequence ``index`` (from 0).

    ``cohort`` is the run's own. Raises as :func:`held_out`; InputError for an index that is not
    there, DataError where the cohort no longer holds the label that was examined.
    """
    rows = [row for row in _trained(folder, plan, task) if row["seed"] == seed]
    if not rows:
        held_out(folder, plan, task, seed)  # says which seeds there are
    told = _predictions(folder, rows[0]["item"])
    if not 0 <= index < len(told["label"]):
        raise InputError(
            f"sequence {index} is not there; {task} has 0 to {len(told['label']) - 1:,}"
        )
    data = labelled(cohort)
    labels = data.labels(task)
    row = int(told["label_index"][index])
    same = row < len(labels) and (
        labels.patient[row] == told["patient"][index]
        and labels.positive[row] == told["label"][index]
    )
    if not same:
        raise DataError(
            cohort.path, None, "labels differ from those of the run",
            "run the forecast again on it",
        )  # fmt: skip
    found = last_events(
        data.store(), labels, plan.options["length"], plan.protocol.prediction_time,
        np.array([row], np.int64),
    )  # fmt: skip
    models = tuple(_weights(folder, one, found.codes, found.values, index) for one in rows)
    known = _known(folder, rows[0]["item"], found.codes, found.values)
    events = _events(data, found.codes[0], found.values[0], found.deltas[0], known)
    return Attended(task, index, int(told["label"][index]), events, models)


def _trained(folder: RunDirectory, plan: Plan, task: str) -> list[dict[str, Any]]:
    """Trained models of a task whose files are there, in the spec's order of variants."""
    columns = "item, task, variant, attention, seed"
    where = "status = 'ok' AND seed IS NOT NULL"
    rows = folder.store(plan.kind).select("models", columns, where)
    if not rows:
        raise InputError(f"run {folder.id} has trained no model yet")
    if not any(_model_file(folder, row["item"]).is_file() for row in rows):
        raise InputError(
            f"run {folder.id} holds no trained models: an export leaves them out. "
            "Run its spec here to look at what they attend to"
        )
    # A variant with a split of its own was examined on other sequences than the rest.
    apart = {one.label for one in variants_of(plan.options) if one.split == "random"}
    mine = [row for row in rows if row["task"] == task and row["variant"] not in apart]
    if not mine:
        raise UnknownName("task", task, sorted({row["task"] for row in rows}))
    there = [row for row in mine if _model_file(folder, row["item"]).is_file()]
    if not there:
        raise InputError(f"run {folder.id} holds no trained models of {task}; resume it")
    order = [one["label"] for one in plan.options["variants"]]
    return sorted(there, key=lambda row: (order.index(row["variant"]), row["seed"]))


def _model_file(folder: RunDirectory, item: str) -> Path:
    return folder.path / "forecast" / f"{item}.safetensors"


def _predictions(folder: RunDirectory, item: str) -> dict[str, NDArray[Any]]:
    return read_columns(prediction_files(folder.path, item)[0])


@lru_cache(maxsize=KEPT_MODELS)
def _model(place: Path, item: str, changed: int) -> tuple[Any, Any]:
    """A model and its vocabulary; ``changed`` makes a file that was written anew another one."""
    from core.experiments.forecast.model_files import load_model

    return load_model(place, item)


def _load(folder: RunDirectory, item: str) -> tuple[Any, Any]:
    file = _model_file(folder, item)
    return _model(file.parent, item, file.stat().st_mtime_ns)


def _known(
    folder: RunDirectory, item: str, codes: NDArray[np.int32], values: NDArray[np.float32]
) -> NDArray[np.bool_]:
    from core.experiments.forecast.examples import UNKNOWN

    return _load(folder, item)[1].tokens(codes, values)[0] > UNKNOWN


def _weights(
    folder: RunDirectory,
    row: Mapping[str, Any],
    codes: NDArray[np.int32],
    values: NDArray[np.float32],
    index: int,
) -> ModelWeights:
    import torch

    from core.training.repeatable import one_thread

    network, vocabulary = _load(folder, row["item"])
    there = int((codes != 0).sum())
    tokens = vocabulary.tokens(codes, values)[:, codes.shape[1] - max(1, there) :]
    with torch.no_grad(), one_thread():
        logit, maps = network(torch.from_numpy(tokens), need_weights=True)
    rows = np.stack([one[0, :, 0].numpy() for one in maps])  # [layers, heads, 1 + t]
    stored = _predictions(folder, row["item"])["score"][index]
    return ModelWeights(
        row["item"], row["variant"], row["attention"], row["seed"], float(logit[0]), float(stored),
        rows[:, :, 1 : 1 + there], rows[:, :, 0],
    )  # fmt: skip


def _events(
    data: LabelledData,
    codes: NDArray[np.int32],
    values: NDArray[np.float32],
    days: NDArray[np.float32],
    known: NDArray[np.bool_],
) -> tuple[SequenceEvent, ...]:
    words = data.store().words("code")
    at = np.flatnonzero(codes)
    return tuple(
        SequenceEvent(
            len(codes) - int(i),
            None if days[i] == UNDATED else float(days[i]),
            words[codes[i]],
            data.name_of(words[codes[i]]),
            float(values[i]) if np.isfinite(values[i]) else None,
            bool(known[i]),
        )
        for i in at
    )
