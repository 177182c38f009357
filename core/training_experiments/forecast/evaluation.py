"""A trained model on held-out labels: columns of its row, predictions on disk, its attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.cohorts.labelled import labelled
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.protocol import Protocol
from midchart.core.results.tables import ends
from midchart.core.runs.directory import RESTORE, RunDirectory
from midchart.core.runs.plan import Plan
from midchart.core.sequences.store import UNDATED, Sequences, last_events
from midchart.core.stats.auroc import Ranking, hanley_mcneil
from midchart.core.storage.files import FileState, file_state, replacing
from midchart.core.training_experiments.forecast.examples import UNKNOWN, SplitExamples
from midchart.core.training_experiments.measures import Floats, Rows, area_columns
from midchart.core.types import Cohort

Maps = Callable[[NDArray[np.int32]], NDArray[np.float32]]
POINTS = 101
"""Most points of a curve."""
SAMPLED = 64
"""Sequences whose attention maps are inspected."""
BATCH = 8
"""Sequences whose maps are computed at once."""


def evaluation_row(
    part: SplitExamples, scores: Floats, protocol: Protocol
) -> tuple[dict[str, Any], Ranking]:
    """The columns from ``auroc`` to ``pr`` for held-out scores [n], and their resamples.

    The same patients are drawn for every model of a task.
    """
    columns, ranking = area_columns(scores, part.label, part.patient, protocol)
    paper = hanley_mcneil(ranking.auroc, part.positive, len(part) - part.positive)
    return columns | {
        **ends("hm_", paper),
        "n": len(part),
        "positive": part.positive,
        "prevalence": part.positive / len(part),
        "patients": len(np.unique(part.patient)),
        "roc": roc_points(scores, part.label),
        "pr": pr_points(scores, part.label),
    }, ranking


def roc_points(scores: ArrayLike, labels: ArrayLike) -> Rows:
    """The ROC curve from (0, 0) to (1, 1), thinned: x, y, score."""
    from sklearn.metrics import roc_curve

    x, y, score = roc_curve(labels, scores, drop_intermediate=False)
    return [{"x": 0.0, "y": 0.0, "score": float(score[1])}, *_thinned(x[1:], y[1:], score[1:])]


def pr_points(scores: ArrayLike, labels: ArrayLike) -> Rows:
    """Precision over recall, thinned: x, y, score."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, score = precision_recall_curve(labels, scores)
    return _thinned(recall[-2::-1], precision[-2::-1], score[::-1])


def _thinned(x: Floats, y: Floats, score: Floats) -> Rows:
    rows = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).round().astype(int))
    return [{"x": float(x[i]), "y": float(y[i]), "score": float(score[i])} for i in rows]


def stages(logits: NDArray[np.float32], weight: float) -> dict[str, Floats]:
    """Probabilities of a sequence model, as trained and with the loss's positive weight undone.

    A loss that weighs positives w times multiplies the odds by w, so log w comes off the logit.
    """
    from scipy.special import expit

    wide = logits.astype(np.float64)
    return {"raw": expit(wide), "corrected": expit(wide - math.log(weight))}


def sparsity(tokens: NDArray[np.int32], maps: Maps) -> dict[str, Any]:
    """Shares of exact zeros and of negatives in ``maps(tokens)`` [b, heads, 1 + t, 1 + t].

    Padding is left out. ``zeros``, ``negatives``: among all ``entries``; ``cls_*``: in the row of
    CLS (position 0), which alone is read. ``sequences``: how many of ``tokens`` [n, t] were used,
    evenly spaced.
    """
    picked = np.unique(np.linspace(0, len(tokens) - 1, min(SAMPLED, len(tokens))).astype(int))
    totals = np.zeros((2, 3))
    for begin in range(0, len(picked), BATCH):
        batch = tokens[picked[begin : begin + BATCH]]
        real = np.concatenate([np.ones((len(batch), 1), bool), batch != 0], axis=1)
        values = maps(batch)
        pairs = (real[:, None, :, None] & real[:, None, None, :]) & np.ones_like(values, bool)
        for i, rows in enumerate((slice(None), slice(1))):
            value, pair = values[:, :, rows], pairs[:, :, rows]
            totals[i] += [((value == 0) & pair).sum(), ((value < 0) & pair).sum(), pair.sum()]
    shares = (totals[:, :2] / totals[:, 2:]).ravel().tolist()
    names = ("zeros", "negatives", "cls_zeros", "cls_negatives")
    counts = {"sequences": len(picked), "entries": int(totals[0, 2])}
    return dict(zip(names, shares, strict=True)) | counts


PREDICTIONS: Mapping[str, Mapping[str, str]] = {
    ".parquet": {
        **dict.fromkeys(("patient", "label_index"), "BIGINT"),
        **{"label": "UTINYINT", "score": "DOUBLE"},
    },
    ".draws.parquet": {"auroc": "DOUBLE", "auprc": "DOUBLE"},
}
"""End of a file's name → its columns and DuckDB types; scores of a model may be FLOAT."""


def prediction_files(folder: Path, item: str) -> tuple[Path, Path]:
    """The files of an item's predictions and of its resamples; ``folder`` is the run's."""
    return folder / "forecast" / f"{item}.parquet", folder / "forecast" / f"{item}.draws.parquet"


def write_predictions(
    folder: Path, item: str, part: SplitExamples, scores: Floats, ranking: Ranking
) -> None:
    """Write both files of an item, each atomically."""
    import pyarrow as arrow
    from pyarrow import parquet

    labels, draws = prediction_files(folder, item)
    labels.parent.mkdir(parents=True, exist_ok=True)
    predictions = {
        "patient": part.patient,
        "label_index": part.index,
        "label": part.label,
        "score": scores,
    }
    resamples = {"auroc": ranking.auroc_draws, "auprc": ranking.auprc_draws}
    for path, columns in ((labels, predictions), (draws, resamples)):
        with replacing(path) as fresh:
            parquet.write_table(arrow.table(columns), fresh)


def read_columns(folder: Path, path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a file that :func:`write_predictions` wrote into the run's ``folder``.

    Raises DataError where it cannot be read.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        with path.open("rb") as file, parquet.ParquetFile(file) as opened:
            table = opened.read()
    except (OSError, ValueError, arrow.ArrowException) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or "it is damaged"
        name = f"run {folder.name}: {path.name}"
        raise DataError(name, None, f"cannot be read ({why})", RESTORE) from None
    return {name: table[name].to_numpy() for name in table.column_names}


# Attention of a finished run's models to the events of one held-out sequence: CLS's row, the only
# row of the last layer that reaches the forecast, recomputed from the models saved in the run's
# folder.


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
    return read_columns(folder.path, prediction_files(folder.path, item)[0])


@lru_cache(maxsize=CACHED_MODELS)
def _model(file: Path, state: FileState) -> tuple[Any, Any]:
    """A model and its vocabulary; ``state`` changes with the file."""
    from midchart.core.training_experiments.forecast.training import load_model

    return load_model(file.parent, file.stem)


def _load(folder: RunDirectory, item: str) -> tuple[Any, Any]:
    file = _model_file(folder, item)
    return _model(file, file_state(file))


def _weights(
    folder: RunDirectory, row: Mapping[str, Any], gathered: Sequences, index: int
) -> ModelWeights:
    import torch

    from midchart.core.training.trainer import one_thread

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
