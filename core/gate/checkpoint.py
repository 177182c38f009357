"""A gate: its shape and recipe, the patients it was trained on, and its files (no torch).

A checkpoint is ``NAME.safetensors`` and a card ``NAME.json`` with hash, shape and training.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midchart.core.errors import DataError, InputError
from midchart.core.gate.ngrams import Hashing
from midchart.core.storage.files import replacing

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
class GateEpoch:
    """Mean losses of an epoch, and AUROC on the validation pairs."""

    epoch: int
    loss: float
    validation_loss: float
    validation_auroc: float


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


STEM, FORMAT = "gate", "midchart-gate-1"
CARD = f"{STEM}.json"
_REMEDY = "train one with: midchart train-gate DATA"


def gate_folders(folder: Path) -> list[Path]:
    """The folder of a gate, or those of a cross-fitted gate's folds, which are in it."""
    if (folder / CARD).exists():
        return [folder]
    return sorted(inside.parent for inside in folder.glob(f"*/{CARD}")) or [folder]


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
    """Write a gate, each file atomically, the card last.

    An earlier card is deleted first: without one a folder holds no gate, so that arrays that a
    killed process leaves are never read with the card of others.
    """
    from safetensors.numpy import save_file

    shape = {k: v for k, v in dataclasses.asdict(gate.config).items() if k != "hashing"}
    card = {
        "format": FORMAT,
        "hash": dataclasses.asdict(gate.config.hashing),
        "shape": shape,
        "temperature": gate.temperature,
        "split": dataclasses.asdict(gate.split),
        **gate.facts,
    }
    (folder / CARD).unlink(missing_ok=True)
    with replacing(folder / f"{STEM}.safetensors") as fresh:
        save_file({k: np.ascontiguousarray(v) for k, v in gate.weights.items()}, fresh)
    with replacing(folder / CARD) as fresh:
        fresh.write_text(json.dumps(card, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_arrays(folder: Path) -> tuple[dict[str, NDArray[np.float32]], dict[str, Any], str]:
    """Arrays, card (without its format) and a hash of both.

    Raises DataError where a file is missing or damaged, or has another format.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    def refused(path: Path, reason: str) -> DataError:
        return DataError(str(path), None, reason, _REMEDY)

    try:
        text = (folder / CARD).read_bytes()
        raw = (folder / f"{STEM}.safetensors").read_bytes()
        card = json.loads(text)
        saved_format = card.pop("format")
        arrays = load(raw)
    except FileNotFoundError as error:
        missing = f"no trained gate is here ({Path(str(error.filename)).name} is missing)"
        raise refused(folder, missing) from None
    except OSError as error:
        raise refused(folder, error.strerror or "cannot be read") from None
    except SafetensorError:
        raise refused(folder, f"{STEM}.safetensors is broken") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise refused(folder / CARD, "is not a gate's card") from None
    if saved_format != FORMAT:
        raise refused(folder / CARD, f"format {saved_format!r} is not {FORMAT!r}")
    return arrays, card, blake2b(raw + text, digest_size=16).hexdigest()


def load_gate(folder: Path, hashing: Hashing | None = None) -> Gate:
    """The gate in ``folder``.

    ``hashing``: with which it must have been trained, but for the salt (the published error).
    Raises DataError where files are missing or damaged, or have another hash, n-gram length or
    table size.
    """
    weights, card, digest = read_arrays(folder)
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
