"""Checkpoints: tensors by name and the identity of their training in one safetensors file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from core.errors import DataError
from core.storage.files import replacing

REMEDY = "delete it to start again"


class Optimizer(Protocol):
    """Keeps a state for each parameter by number, as torch's optimizers do."""

    def state_dict(self) -> dict[str, Any]:
        """At least ``state``: parameter number → tensors by name."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the same."""
        ...


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """An optimizer's state as tensors called ``<parameter number>.<name>``."""
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore :func:`optimizer_tensors` in an optimizer over the same parameters."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with ``prefix`` before each name."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix``, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def save_checkpoint(path: Path, identity: Any, tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint atomically; ``identity`` is any JSON value. Raises OSError."""
    from safetensors.torch import save_file

    copies = {k: v.detach().contiguous().cpu().clone() for k, v in tensors.items()}
    with replacing(path) as fresh:
        save_file(copies, fresh, metadata={"identity": _digest(identity)})


def load_checkpoint(path: Path, identity: Any) -> dict[str, Tensor]:
    """Read a checkpoint; raises DataError where it is damaged or has another identity."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            saved: str = (file.metadata() or {}).get("identity", "")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError:
        raise DataError(str(path), None, "is not a checkpoint", REMEDY) from None
    if saved != _digest(identity):
        reason = "belongs to a training with other data or another recipe"
        raise DataError(str(path), None, reason, REMEDY)
    return tensors


def _digest(identity: Any) -> str:
    text = json.dumps(identity, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
