"""How a shipped reader was trained, by its weights file, and whether its files belong together."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import safe_open

HASHED = ("config.json", "tokenizer.json", "tokenizer_config.json")
"""Files whose hashes the metadata of the weights hold."""


def made_with(folder: Path) -> dict[str, Any]:
    """Recipe, shape and steps; fails where a file is not the one the weights were saved with."""
    with safe_open(folder / "model.safetensors", "pt") as file:
        metadata = file.metadata()
    for name in HASHED:
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert digest == metadata[name], name
    return json.loads(metadata["made"])
