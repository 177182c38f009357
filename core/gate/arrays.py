"""Learned arrays on disk: ``NAME.safetensors`` and a card ``NAME.json``; nothing that runs code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError
from core.files import replacing

REMEDY = "train one with: python -m core train-gate DATA"
Arrays = dict[str, NDArray[np.float32]]


def save_arrays(
    folder: Path,
    stem: str,
    format: str,
    arrays: Mapping[str, NDArray[np.float32]],
    card: Mapping[str, Any],
) -> None:
    """Write arrays and card; each file is there whole or not at all, the card last."""
    from safetensors.numpy import save_file

    with replacing(folder / f"{stem}.safetensors") as fresh:
        save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, fresh)
    with replacing(folder / f"{stem}.json") as fresh:
        text = json.dumps({"format": format, **card}, indent=1, allow_nan=False)
        fresh.write_text(text + "\n", encoding="utf-8")


def load_arrays(folder: Path, stem: str, format: str) -> tuple[Arrays, dict[str, Any], str]:
    """Arrays, card (without its format) and a hash of both; raises DataError, one line, where a
    file is missing or broken, or the format is another."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    card_file = folder / f"{stem}.json"
    try:
        text = card_file.read_bytes()
        raw = (folder / f"{stem}.safetensors").read_bytes()
    except FileNotFoundError as error:
        missing = f"no trained gate is here ({Path(str(error.filename)).name} is missing)"
        raise DataError(str(folder), None, missing, REMEDY) from None
    except OSError as error:
        raise DataError(str(folder), None, error.strerror or "cannot be read", REMEDY) from None
    try:
        card = json.loads(text)
        found = card.pop("format")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise DataError(str(card_file), None, "is not a gate's card", REMEDY) from None
    if found != format:
        raise DataError(str(card_file), None, f"format {found!r} is not {format!r}", REMEDY)
    try:
        arrays: Arrays = load(raw)
    except SafetensorError:
        raise DataError(str(folder), None, f"{stem}.safetensors is broken", REMEDY) from None
    return arrays, card, blake2b(raw + text, digest_size=16).hexdigest()
