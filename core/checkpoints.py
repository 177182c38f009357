"""The state of a training in one file, so that one that was cut off goes on exactly.

Tensors and the optimizer's state lie side by side in safetensors; beside them stands what the
training was (its identity), so that a file of another one is refused instead of gone on from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core.errors import DataError
from core.files import replacing

if TYPE_CHECKING:
    from torch import Tensor

ADAM = "adamw."


class Optimizer(Protocol):
    """What keeps a state of each parameter, by number, as torch's optimizers do."""

    def state_dict(self) -> dict[str, Any]:
        """At least ``state``: of each parameter's number its tensors by name."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the same back."""
        ...


def identity_of(said: Any) -> str:
    """A hash of what a training is: anything that JSON can hold."""
    text = json.dumps(said, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Saved:
    """What a file held: ``tensors`` by name, the optimizer's ``state``, and what was ``said``."""

    tensors: Mapping[str, Tensor]
    state: Mapping[int, Mapping[str, Tensor]]
    said: Mapping[str, str]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with ``prefix``, without it."""
        named = self.tensors.items()
        return {k.removeprefix(prefix): v for k, v in named if k.startswith(prefix)}

    def put_back(self, optimizer: Optimizer) -> None:
        """Give an optimizer over the same parameters the state it had."""
        optimizer.load_state_dict({**optimizer.state_dict(), "state": dict(self.state)})


def save_training(
    path: Path,
    identity: str,
    tensors: Mapping[str, Tensor],
    optimizer: Optimizer,
    said: Mapping[str, str] | None = None,
) -> None:
    """Write the state, in one file, put in place at once; raises OSError."""
    import torch
    from safetensors.torch import save_file

    whole: dict[str, Any] = dict(tensors)
    for number, state in optimizer.state_dict()["state"].items():
        whole |= {f"{ADAM}{number}.{k}": torch.as_tensor(v) for k, v in state.items()}
    with replacing(path) as fresh:
        kept = {k: v.detach().contiguous().cpu().clone() for k, v in whole.items()}
        save_file(kept, fresh, metadata={**(said or {}), "identity": identity})


def load_training(path: Path, identity: str) -> Saved:
    """Read a state back; raises DataError for a file that is none or of another training."""
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, Any] = {}
    state: dict[int, dict[str, Any]] = {}
    try:
        with safe_open(path, "pt") as file:
            said: dict[str, str] = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 - not a mapping
                if name.startswith(ADAM):
                    number, what = name.removeprefix(ADAM).split(".", 1)
                    state.setdefault(int(number), {})[what] = file.get_tensor(name)
                else:
                    tensors[name] = file.get_tensor(name)
    except SafetensorError:
        raise DataError(str(path), None, "is no checkpoint", "delete it to begin anew") from None
    if said.get("identity") != identity:
        reason = "was left by a training with other data or another recipe"
        raise DataError(str(path), None, reason, "delete it to begin anew")
    return Saved(tensors, state, said)
