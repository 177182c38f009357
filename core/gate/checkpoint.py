"""A gate: its shape and recipe, the patients it was trained on, and its files (no torch).

A checkpoint is ``NAME.safetensors`` and a card ``NAME.json`` with hash, shape and training.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.errors import DataError, InputError, MissingModel
from midchart.core.gate.ngrams import Hashing
from midchart.core.named_files import place_of
from midchart.core.regular_files import read_regular
from midchart.core.storage.files import replacing

T = TypeVar("T")
Head = Literal["linear", "standard", "deep"]
LAYERS: dict[str, tuple[int, ...]] = {"linear": (), "standard": (128, 32), "deep": (256, 128, 64)}
"""Hidden widths of each head (docs/methods.md, The QCCS gate)."""


@dataclass(frozen=True, slots=True)
class GateConfig:
    """The shape of a gate.

    ``query``: whether it sees the question at all. A "linear" head adds the same question term
    to every sentence, so its ranking does not depend on the question either.
    """

    hashing: Hashing = field(default_factory=Hashing)
    dim: int = 64
    head: Head = "standard"
    query: bool = True
    dropout: float = 0.2


def widths(config: GateConfig) -> tuple[int, ...]:
    """Widths of the layers: pooled input, hidden ones, 1."""
    return ((2 if config.query else 1) * config.dim, *LAYERS[config.head], 1)


FOCAL_GAMMA = 2.0


@dataclass(frozen=True, slots=True)
class GateRecipe:
    """How a gate is trained (docs/methods.md, The QCCS gate)."""

    epochs: int = 15
    batch: int = 32
    rate: float = 1e-3
    loss: Literal["bce", "focal"] = "bce"
    seed: int = 42


@dataclass(frozen=True, slots=True)
class PlusRecipe:
    """How QCCS plus is trained: AdamW, warm-up, cosine; ``batch`` questions a step."""

    epochs: int = 5
    batch: int = 4
    rate: float = 1e-2
    decay: float = 1e-3
    warm: int = 30
    dim: int = 16
    seed: int = 42


@dataclass(frozen=True, slots=True)
class GateEpoch:
    """Mean losses of an epoch, and AUROC on the validation pairs."""

    epoch: int
    loss: float
    validation_loss: float
    validation_auroc: float


@dataclass(frozen=True, slots=True)
class PlusStep:
    """A step of QCCS plus: ``loss`` is the mean of its epoch so far."""

    step: int
    loss: float


_TRAINED, VALIDATED = 0.7, 0.15
"""Share of patients for training, and the share of these that is kept for validation."""


@dataclass(frozen=True, slots=True)
class Split:
    """Record ids of one split for training, evaluation and later stages, each list sorted; it is
    saved with the weights. Raises ValueError where a patient is in two parts."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    def __post_init__(self) -> None:
        parts = (self.train, self.validation, self.test)
        if len(set().union(*parts)) != sum(map(len, parts)):
            raise ValueError("a patient is in two parts of a split")

    def part_of(self, record_id: str) -> str:
        """train, validation or test; empty for a patient of none."""
        for name in ("train", "validation", "test"):
            if record_id in getattr(self, name):
                return name
        return ""


def split_patients(record_ids: Iterable[str], seed: int, validated: float = VALIDATED) -> Split:
    """70 % of patients for training, 30 % for testing.

    Of the 70 % the share ``validated`` is kept to validate on; with 0 all are trained on, as in the
    paper, and no temperature is fitted. The same for the same set of ids, in whatever order they
    come. Raises InputError for fewer than four patients: no part may be empty.
    """
    ids = sorted(set(record_ids))
    if len(ids) < 4:
        raise InputError(
            f"a split by patients needs at least 4 patients with questions, not {len(ids)}"
        )
    order = np.random.default_rng(seed).permutation(len(ids))
    seen = min(max(round(_TRAINED * len(ids)), 3), len(ids) - 1)
    held = max(round(validated * seen), 1) if validated else 0
    parts = (order[held:seen], order[:held], order[seen:])
    return Split(*(tuple(sorted(ids[i] for i in part)) for part in parts))


def fold_patients(groups: Iterable[Iterable[str]], folds: int, seed: int) -> list[Split]:
    """Splits for cross-fitting: each patient is in the test part of one of ``folds`` splits.

    ``groups`` of patients stay together; of the other groups 15 % validate. Raises InputError for
    fewer than two folds, or fewer groups than folds and two more.
    """
    every = sorted(sorted(group) for group in groups)
    if folds < 2 or len(every) < folds + 2:
        raise InputError(
            "cross-fitting needs at least 2 folds and two groups of patients more than folds, not "
            f"{folds} folds of {len(every)} groups"
        )
    order = np.random.default_rng(seed).permutation(len(every))
    splits: list[Split] = []
    for test in np.array_split(order, folds):
        others = order[~np.isin(order, test)]
        held = max(round(VALIDATED * len(others)), 1)
        parts = (others[held:], others[:held], test)
        splits.append(
            Split(*(tuple(sorted(id for i in part for id in every[i])) for part in parts))
        )
    return splits


def gates_of(
    arm: str, gate: str, card: str, load: Callable[[Path, int], T]
) -> tuple[Path, list[T]]:
    """The folder of the gate that an arm's option ``gate`` names, and what ``load`` makes of it, or
    of each fold of a cross-fitted one, by its folder and when its card was changed.

    Raises MissingModel where the option names none.
    """
    if not gate:
        command = "midchart train-gate DATA" + (" --plus" if arm == "qccs_plus" else "")
        raise MissingModel(
            f"the arm {arm!r} needs a trained gate: name its folder with the option 'gate', or "
            f"train one with: {command}"
        )
    folder = place_of(gate)
    cards = [one / card for one in gate_folders(folder, card)]
    return folder, [
        load(one.parent, one.stat().st_mtime_ns if one.exists() else 0) for one in cards
    ]


def gate_folders(folder: Path, card: str) -> list[Path]:
    """The folder of a gate, or those of a cross-fitted gate's folds, which are in it."""
    if (folder / card).exists():
        return [folder]
    return sorted(inside.parent for inside in folder.glob(f"*/{card}")) or [folder]


def not_held_out(folder: Path) -> InputError:
    """The error of a patient whom every gate of a cross-fitted one was trained on, or none."""
    return InputError(
        f"{folder}: this cross-fitted gate has no part that was tested on this patient — use it on "
        "the cohort that it was trained on, or train one gate"
    )


_REMEDY = "train one with: midchart train-gate DATA"
_Arrays = dict[str, NDArray[np.float32]]


def save_arrays(
    folder: Path,
    stem: str,
    format: str,
    arrays: Mapping[str, NDArray[np.float32]],
    card: Mapping[str, Any],
) -> None:
    """Write arrays and card, each atomically, the card last.

    An earlier card is deleted first: without one a folder holds no gate, so that arrays that a
    killed process leaves are never read with the card of others.
    """
    from safetensors.numpy import save_file

    (folder / f"{stem}.json").unlink(missing_ok=True)
    with replacing(folder / f"{stem}.safetensors") as fresh:
        save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, fresh)
    with replacing(folder / f"{stem}.json") as fresh:
        text = json.dumps({"format": format, **card}, indent=1, allow_nan=False)
        fresh.write_text(text + "\n", encoding="utf-8")


def load_arrays(folder: Path, stem: str, format: str) -> tuple[_Arrays, dict[str, Any], str]:
    """Arrays, card (without its format) and a hash of both.

    Raises DataError where a file is missing or damaged, or has another format.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    card_file = folder / f"{stem}.json"
    try:
        text = read_regular(card_file)
        raw = read_regular(folder / f"{stem}.safetensors")
    except FileNotFoundError as error:
        missing = f"no trained gate is here ({Path(str(error.filename)).name} is missing)"
        raise DataError(str(folder), None, missing, _REMEDY) from None
    except OSError as error:
        raise DataError(str(folder), None, error.strerror or "cannot be read", _REMEDY) from None
    try:
        card = json.loads(text)
        saved_format = card.pop("format")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise DataError(str(card_file), None, "is not a gate's card", _REMEDY) from None
    if saved_format != format:
        raise DataError(str(card_file), None, f"format {saved_format!r} is not {format!r}", _REMEDY)
    try:
        arrays: _Arrays = load(raw)
    except SafetensorError:
        raise DataError(str(folder), None, f"{stem}.safetensors is broken", _REMEDY) from None
    return arrays, card, blake2b(raw + text, digest_size=16).hexdigest()


STEM, FORMAT = "gate", "midchart-gate-1"
CARD = f"{STEM}.json"


@dataclass(frozen=True)
class Gate:
    """A trained gate.

    ``weights`` are float32 arrays by name (embedding.weight [buckets, dim], layers.i.weight
    [out, in], layers.i.bias [out]). ``facts`` hold how it was trained, in plain JSON values.
    """

    config: GateConfig
    weights: Mapping[str, NDArray[np.float32]]
    split: Split
    temperature: float = 1.0
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    digest: str = ""

    @property
    def salted(self) -> bool:
        """Whether it has the published error of a hash salted by the process."""
        return self.config.hashing.name == "salted"


def save_gate(folder: Path, gate: Gate) -> None:
    """Write a gate, each file atomically, the card last."""
    shape = {k: v for k, v in dataclasses.asdict(gate.config).items() if k != "hashing"}
    card = {
        "hash": dataclasses.asdict(gate.config.hashing),
        "shape": shape,
        "temperature": gate.temperature,
        "split": dataclasses.asdict(gate.split),
        **gate.facts,
    }
    save_arrays(folder, STEM, FORMAT, gate.weights, card)


def load_gate(folder: Path, hashing: Hashing | None = None) -> Gate:
    """The gate in ``folder``.

    ``hashing``: with which it must have been trained, but for the salt (the published error).
    Raises DataError where files are missing or damaged, or have another hash, n-gram length or
    table size.
    """
    weights, card, digest = load_arrays(folder, STEM, FORMAT)
    try:
        config = GateConfig(Hashing(**card.pop("hash")), **card.pop("shape"))
        split = Split(**{name: tuple(ids) for name, ids in card.pop("split").items()})
        temperature = float(card.pop("temperature"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"is not a gate of this version ({error})"
        raise DataError(str(folder), None, reason, _REMEDY) from None
    if hashing is not None:
        _require_hashing(folder, config.hashing, hashing)
    return Gate(config, weights, split, temperature, card, digest)


def _require_hashing(folder: Path, saved: Hashing, required: Hashing) -> None:
    titles = {"name": "hash", "n": "n-gram length", "buckets": "table size"}
    for name in (*titles, "characters", "ngrams"):
        value, wanted = getattr(saved, name), getattr(required, name)
        if value != wanted:
            reason = f"the gate was trained with {titles.get(name, name)} {value}, not {wanted}"
            raise DataError(str(folder), None, reason, _REMEDY)
