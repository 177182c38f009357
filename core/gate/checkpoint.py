"""A gate on disk: ``gate.safetensors`` and ``gate.json``, nothing that could run code.

The JSON names the hash, so that weights are never used with another; the shape; how it was
trained and on whom (the split); its curve and its temperature. A folder that says something else
than what was asked for is refused in one line.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError
from core.files import replacing
from core.gate.ngrams import Hashing
from core.gate.shape import GateConfig, expected_shapes
from core.gate.split import Split

WEIGHTS, CARD = "gate.safetensors", "gate.json"
FORMAT = "midchart-gate-1"


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
        """Whether its hash is the published fault."""
        return self.config.hashing.name == "salted"


def save_gate(folder: Path, gate: Gate) -> None:
    """Write a gate; each file is there whole or not at all, the card last."""
    from safetensors.numpy import save_file

    with replacing(folder / WEIGHTS) as fresh:
        save_file({k: np.ascontiguousarray(v) for k, v in gate.weights.items()}, fresh)
    hashing = dataclasses.asdict(gate.config.hashing)
    shape = {k: v for k, v in dataclasses.asdict(gate.config).items() if k != "hashing"}
    card = {
        "format": FORMAT,
        "hash": hashing,
        "shape": shape,
        "temperature": gate.temperature,
        "split": dataclasses.asdict(gate.split),
        **gate.facts,
    }
    with replacing(folder / CARD) as fresh:
        fresh.write_text(json.dumps(card, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load_gate(folder: Path, hashing: Hashing | None = None) -> Gate:
    """The gate in ``folder``.

    ``hashing``: what it must have been trained with; under the hash "salted" the salt may
    differ, for that is the published fault. Raises DataError, one line, where files are missing
    or broken, or say another hash, n-gram length or size.
    """
    from hashlib import blake2b

    from safetensors import SafetensorError
    from safetensors.numpy import load

    card_file, weights_file = folder / CARD, folder / WEIGHTS
    remedy = "train one with: python -m core train-gate DATA"
    try:
        card: dict[str, Any] = json.loads(card_file.read_text(encoding="utf-8"))
        raw = weights_file.read_bytes()
    except FileNotFoundError as error:
        name = Path(str(error.filename)).name
        raise DataError(
            str(folder), None, f"no trained gate is here ({name} is missing)", remedy
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not JSON"
        raise DataError(str(card_file), None, reason, remedy) from None
    try:
        if card["format"] != FORMAT:
            raise ValueError(f"format {card['format']!r} is not {FORMAT!r}")
        config = GateConfig(Hashing(**card["hash"]), **card["shape"])
        split = Split(**{name: tuple(ids) for name, ids in card["split"].items()})
        weights: dict[str, NDArray[np.float32]] = load(raw)
        _fit(config, weights)
        temperature = float(card["temperature"])
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise DataError(
            str(folder), None, f"is not a gate of this version ({error})", remedy
        ) from None
    if hashing is not None:
        _same(folder, config.hashing, hashing, remedy)
    own = ("format", "hash", "shape", "temperature", "split")
    facts = {k: v for k, v in card.items() if k not in own}
    digest = blake2b(raw + json.dumps(card["hash"]).encode(), digest_size=16).hexdigest()
    return Gate(config, weights, split, temperature, facts, digest)


def _fit(config: GateConfig, weights: Mapping[str, NDArray[np.float32]]) -> None:
    wanted = expected_shapes(config)
    for name in wanted.keys() | weights.keys():
        here = weights[name].shape if name in weights else None
        if here != wanted.get(name):
            raise ValueError(f"{name} is {here}, its card makes it {wanted.get(name)}")


def _same(folder: Path, here: Hashing, asked: Hashing, remedy: str) -> None:
    for name in ("name", "n", "buckets", "characters", "ngrams"):
        mine, wanted = getattr(here, name), getattr(asked, name)
        if mine != wanted:
            what = {"name": "hash", "n": "n-gram length", "buckets": "table size"}.get(name, name)
            raise DataError(
                str(folder), None, f"the gate was trained with {what} {mine}, not {wanted}", remedy
            )
