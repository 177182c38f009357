"""The training loop of every model of the program, its checkpoints, its randomness.

A checkpoint is one file of torch that holds the identity of its training. Seeds by epoch, a
separate random state and one thread make a training repeat to the last bit.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from functools import cached_property
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from midchart.core.errors import DataError
from midchart.core.storage.files import replacing
from midchart.core.training import Aborted, Progress

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


CPU = torch.device("cpu")


def seed_of(*parts: int) -> int:
    """A seed for torch from integers such as (seed, epoch)."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def epoch_order(seed: int, epoch: int, rows: int) -> NDArray[np.int64]:
    """The order [rows] in which an epoch visits its examples."""
    return np.random.default_rng([seed, epoch]).permutation(rows)


@contextmanager
def forked_rng(device: torch.device = CPU, seed: int | None = None) -> Generator[None]:
    """Restore torch's random state of the CPU and ``device`` after the body; seed it first where
    ``seed`` is given."""
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        if seed is not None:
            torch.manual_seed(seed)
        yield


@contextmanager
def one_thread(device: torch.device = CPU) -> Generator[None]:
    """Run torch on one thread within the body where ``device`` is a CPU.

    Small matrices gain nothing from threads, and several threads sum the gradients of gathers in
    varying order, which changes the last bits of the weights.
    """
    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_REMEDY = "delete it to start again"


N = TypeVar("N", bound=nn.Module)
E = TypeVar("E", bound="DataclassInstance")


class Trainer(ABC, Generic[N, E]):
    """Trains ``network`` part by part, a part being an epoch or a stretch of steps.

    A subclass writes :meth:`advance`, and :meth:`identity` if it keeps checkpoints. What a part
    draws must depend on its number alone, so that a resumed training equals an uninterrupted one.

    entry: what a part is recorded as: a dataclass of numbers, the first of which counts the epochs
    or steps done. total: how many there are to be. optimizer: one of torch's, or None.
    """

    entry: type[E]

    def __init__(
        self,
        network: N,
        total: int,
        optimizer: Any = None,
        device: torch.device = CPU,
    ) -> None:
        self.network, self.total = network, total
        self.optimizer, self.device = optimizer, device
        self.history: list[E] = []

    @property
    def done(self) -> int:
        """How many epochs or steps are done."""
        return astuple(self.history[-1])[0] if self.history else 0

    def run(self, progress: Progress[E] | None = None, checkpoint: Path | None = None) -> None:
        """Do what is left of the training.

        ``checkpoint``: a file to resume from where it exists, and to update after each part.
        Raises Aborted where ``progress`` stops the training, WorkFailed for a loss that is not
        finite, DataError for a checkpoint of another training.
        """
        with one_thread(self.device), forked_rng(self.device):
            if checkpoint is not None and checkpoint.exists():
                self.load(checkpoint)
            self.network.train()
            while self.done < self.total:
                self.history.append(self.advance())
                if checkpoint is not None:
                    self.save(checkpoint)
                if progress is not None and not progress(self.history[-1], self.total):
                    raise Aborted
            self.network.eval()

    @abstractmethod
    def advance(self) -> E:
        """Train the part that follows ``done``; returns its history entry."""

    def identity(self) -> Any:
        """A JSON value that names model, recipe and data; a checkpoint of another is refused."""
        raise TypeError(f"{type(self).__name__} defines no identity, so it saves no checkpoint")

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint needs besides network, optimizer and history, by name."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore :meth:`state`; the network has its weights again, the optimizer not yet."""

    @cached_property
    def _identity(self) -> str:
        text = json.dumps(self.identity(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def save(self, path: Path) -> None:
        """Write the checkpoint atomically; raises OSError."""
        content = {
            "identity": self._identity,
            "history": [astuple(entry) for entry in self.history],
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict() if self.optimizer is not None else None,
            "state": self.state(),
        }
        with replacing(path) as fresh:
            torch.save(content, fresh)

    def load(self, path: Path) -> None:
        """Restore a checkpoint; raises DataError where it is damaged or of another training."""
        try:
            data = BytesIO(path.read_bytes())
            content: dict[str, Any] = torch.load(data, "cpu", weights_only=True)
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
            raise DataError(str(path), None, reason, _REMEDY) from None
        except (UnpicklingError, RuntimeError, EOFError):
            raise DataError(str(path), None, "is not a checkpoint", _REMEDY) from None
        if content["identity"] != self._identity:
            reason = "belongs to a training with other data or another recipe"
            raise DataError(str(path), None, reason, _REMEDY)
        self.history = [self.entry(*row) for row in content["history"]]
        self.network.load_state_dict(content["network"])
        self.restore(content["state"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(content["optimizer"])
