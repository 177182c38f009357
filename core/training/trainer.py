"""The training loop of every model of the program, its checkpoints, its randomness, its processes.

A checkpoint holds tensors by name and the identity of their training in one safetensors file. Seeds
by epoch, a separate random state and one thread make a training repeat to the last bit.

Several processes of this machine train together through accelerate, one device each. Every one
holds the whole network and a share of each batch. Gradients are averaged as one flat vector before
each step, so all make the same step: small networks gain nothing from sharding.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import queue
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import astuple, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from midchart.core import config as settings
from midchart.core.errors import DataError, WorkFailed, missing_package
from midchart.core.parsing import read_json
from midchart.core.regular_files import read_regular
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


class Optimizer(Protocol):
    """Keeps a state for each parameter by number, as torch's optimizers do."""

    def state_dict(self) -> dict[str, Any]:
        """At least ``state``: parameter number → tensors by name."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the same."""
        ...


def _optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """An optimizer's state as tensors called ``<parameter number>.<name>``."""
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def _restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore :func:`_optimizer_tensors` in an optimizer over the same parameters."""
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


def _save_checkpoint(path: Path, identity: Any, tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint atomically; ``identity`` is any JSON value. Raises OSError."""
    from safetensors.torch import save_file

    copies = {k: v.detach().contiguous().cpu().clone() for k, v in tensors.items()}
    with replacing(path) as fresh:
        save_file(copies, fresh, metadata={"identity": _digest(identity)})


def _load_checkpoint(path: Path, identity: Any) -> dict[str, Tensor]:
    """Read a checkpoint; raises DataError where it is damaged or has another identity."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        data = read_regular(path)
        tensors = load(data)
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise DataError(str(path), None, reason, _REMEDY) from None
    except SafetensorError:
        raise DataError(str(path), None, "is not a checkpoint", _REMEDY) from None
    # The format: eight bytes with the length of its header, which is JSON, then the tensors.
    header: dict[str, Any] = read_json(data[8 : 8 + int.from_bytes(data[:8], "little")], path.name)
    saved: str = header.get("__metadata__", {}).get("identity", "")
    if saved != _digest(identity):
        reason = "belongs to a training with other data or another recipe"
        raise DataError(str(path), None, reason, _REMEDY)
    return tensors


def _digest(identity: Any) -> str:
    text = json.dumps(identity, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


N = TypeVar("N", bound=nn.Module)
E = TypeVar("E", bound="DataclassInstance")


class Trainer(ABC, Generic[N, E]):
    """Trains ``network`` part by part, a part being an epoch or a stretch of steps.

    A subclass writes :meth:`advance`, and :meth:`identity` if it keeps checkpoints. What a part
    draws must depend on its number alone, so that a resumed training equals an uninterrupted one.

    entry: what a part is recorded as: a dataclass of numbers, the first of which counts the epochs
    or steps done. total: how many there are to be. optimizer: one of torch's, or any
    :class:`midchart.core.training.trainer.Optimizer`; None where :meth:`state` holds its state.
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
        """Restore :meth:`state`; the network has its weights again, the optimizer not yet.

        Raises ValueError, with the reason, where the training cannot be resumed from it.
        """

    @cached_property
    def _identity(self) -> Any:
        return self.identity()

    def save(self, path: Path) -> None:
        """Write the checkpoint; raises OSError."""
        rows = [astuple(entry) for entry in self.history]
        tensors = {
            "history": torch.tensor(rows, dtype=torch.float64),
            **prefixed("network.", self.network.state_dict()),
            **prefixed("state.", self.state()),
        }
        if self.optimizer is not None:
            tensors |= prefixed("optimizer.", _optimizer_tensors(self.optimizer))
        _save_checkpoint(path, self._identity, tensors)

    def load(self, path: Path) -> None:
        """Restore a checkpoint; raises DataError for one of another training."""
        tensors = _load_checkpoint(path, self._identity)
        is_integer = [field.type in (int, "int") for field in fields(self.entry)]
        self.history = [
            self.entry(*(int(x) if i else x for i, x in zip(is_integer, row, strict=True)))
            for row in tensors["history"].tolist()
        ]
        self.network.load_state_dict(under("network.", tensors))
        try:
            self.restore(under("state.", tensors))
        except ValueError as error:
            raise DataError(str(path), None, str(error), _REMEDY) from None
        if self.optimizer is not None:
            _restore_optimizer(self.optimizer, under("optimizer.", tensors))


_POLL_S = 0.5
"""Seconds to wait for a message before the processes are checked."""


class ProcessGroup:
    """``rank`` of ``size`` processes, and this one's device; ``accelerator`` None: one alone."""

    def __init__(self, device: torch.device, accelerator: Any = None) -> None:
        self.device, self._accelerator = device, accelerator
        self.rank = accelerator.process_index if accelerator is not None else 0
        self.size = accelerator.num_processes if accelerator is not None else 1

    def share(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """This process's share of rows that all processes hold."""
        return rows[self.rank :: self.size]

    def mean(self, value: Tensor) -> Tensor:
        """The mean over all processes; each must call it."""
        return value if self.size == 1 else self._accelerator.reduce(value, reduction="mean")

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes; each must call it."""
        return value if self.size == 1 else self._accelerator.reduce(value, reduction="sum")

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by its mean over all processes; a missing one counts as 0."""
        if self.size == 1:
            return
        trainable = [p for p in parameters if p.requires_grad]
        every = [torch.zeros_like(p) if p.grad is None else p.grad for p in trainable]
        mean = self.mean(torch.cat([one.reshape(-1) for one in every]))
        sizes = [p.numel() for p in trainable]
        for p, one in zip(trainable, mean.split(sizes), strict=True):
            p.grad = one.view_as(p).clone()


def _accelerator() -> Any:
    """accelerate's ``Accelerator``; raises MissingModel where it is not installed."""
    try:
        from accelerate import Accelerator
    except ImportError:
        raise missing_package("accelerate", "training") from None
    return Accelerator


def single_process(device: str | None) -> ProcessGroup:
    """A group of this process on ``device``, or on the one that accelerate picks (None).

    A process that accelerate's own launcher started is a member of that launcher's group.
    """
    if device is not None:
        return ProcessGroup(torch.device(device))
    accelerator = _accelerator()()
    return ProcessGroup(accelerator.device, accelerator if accelerator.num_processes > 1 else None)


def _join(rank: int, size: int, meeting: Path, cpu: bool) -> ProcessGroup:
    """Join a group of ``size`` through the file ``meeting``; blocks until all are there."""
    settings.be_member(rank, size)
    if not cpu:
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "gloo" if cpu else "nccl", init_method=meeting.as_uri(), rank=rank, world_size=size
    )
    return ProcessGroup(torch.device("cpu" if cpu else f"cuda:{rank}"), _accelerator()(cpu=cpu))


def train_distributed(
    make: Callable[..., Trainer[Any, Any]],
    size: int,
    checkpoint: Path,
    progress: Progress[Any] | None = None,
    cpu: bool = False,
) -> None:
    """Train in ``size`` processes until ``checkpoint`` is complete, resuming from it.

    ``make``, which is pickled, builds the trainer of a process from its ``group``. The caller then
    runs its trainer from the checkpoint. Raises Aborted where ``progress``, called in
    this process, stops the training, WorkFailed where a process fails or there are fewer GPUs.
    """
    if not cpu and (gpus := torch.cuda.device_count()) < size:
        raise WorkFailed(
            f"a training on {size} devices needs as many GPUs, and {gpus} are visible; "
            "lower 'devices' of the spec, or set device = \"cpu\""
        )
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="midchart-group-") as folder:
        arguments = (size, Path(folder) / "meeting", cpu, make, checkpoint, messages)
        members = [
            context.Process(target=_member, args=(rank, *arguments), daemon=True)
            for rank in range(size)
        ]
        try:
            for one in members:
                one.start()
            _listen(members, messages, progress)
        finally:
            for one in members:
                if one.is_alive():
                    one.terminate()
                one.join()


def _listen(members: list[Any], messages: Any, progress: Progress[Any] | None) -> None:
    """Pass on what the first process reports, until all have ended."""
    while True:
        try:
            message = messages.get(timeout=_POLL_S)
        except queue.Empty:
            ended = [one.exitcode for one in members]
            if any(ended):  # neither running nor ended with status 0
                raise WorkFailed("a process of a distributed training ended early") from None
            if all(code == 0 for code in ended) and messages.empty():
                return
            continue
        if isinstance(message, str):
            raise WorkFailed(message)
        if progress is not None and not progress(*message):
            raise Aborted


def _member(
    rank: int,
    size: int,
    meeting: Path,
    cpu: bool,
    make: Callable[..., Trainer[Any, Any]],
    checkpoint: Path,
    messages: Any,
) -> None:
    def report(entry: Any, total: int) -> bool:
        messages.put((entry, total))
        return True

    try:
        trainer = make(group=_join(rank, size, meeting, cpu))
        trainer.run(report if rank == 0 else None, checkpoint)
        torch.distributed.destroy_process_group()
    except Exception as error:  # noqa: BLE001 - its text may quote a record; only its type is shown
        known = isinstance(error, WorkFailed)
        messages.put(str(error) if known else f"{type(error).__name__} in one of {size} processes")
        raise SystemExit(1) from None
