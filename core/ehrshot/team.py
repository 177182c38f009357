"""The processes that train one network: one alone, or several on a device each, through accelerate.

Every process has all of the network and a share of each batch. Gradients are averaged as one flat
vector before each step, so all make the same step: for networks as small as these that is all the
sharding there is to gain.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core import settings


class Team:
    """``rank`` of ``size`` processes, and the device this one works on.

    ``accelerator`` None: a process alone.
    """

    def __init__(self, device: torch.device, accelerator: Any = None) -> None:
        self.device, self._accelerator = device, accelerator
        self.rank = accelerator.process_index if accelerator is not None else 0
        self.size = accelerator.num_processes if accelerator is not None else 1

    def share(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """This process's part of rows that all of them hold."""
        return rows[self.rank :: self.size]

    def mean(self, value: Tensor) -> Tensor:
        """The mean over all processes; each must call it."""
        return value if self.size == 1 else self._accelerator.reduce(value, reduction="mean")

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes; each must call it."""
        return value if self.size == 1 else self._accelerator.reduce(value, reduction="sum")

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by its mean over all processes; one that is missing counts 0."""
        if self.size == 1:
            return
        own = [p for p in parameters if p.requires_grad]
        every = [torch.zeros_like(p) if p.grad is None else p.grad for p in own]
        mean = self.mean(torch.cat([one.reshape(-1) for one in every]))
        sizes = [p.numel() for p in own]
        for p, one in zip(own, mean.split(sizes), strict=True):
            p.grad = one.view_as(p).clone()


def alone(device: str | None) -> Team:
    """A process by itself, on ``device``, or on the one that accelerate picks (None).

    One that accelerate's own launcher started is a member of that launcher's team.
    """
    if device is not None:
        return Team(torch.device(device))
    from accelerate import Accelerator

    made = Accelerator()
    return Team(made.device, made if made.num_processes > 1 else None)


def join(rank: int, size: int, meeting: Path, cpu: bool) -> Team:
    """Become member ``rank`` of a team of ``size`` on this machine, by a file that all can reach.

    ``cpu``: all work on the processor, else each on the GPU of its rank. Blocks until all are
    there; :func:`part` ends it.
    """
    settings.be_member(rank, size)
    if not cpu:
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "gloo" if cpu else "nccl", init_method=meeting.as_uri(), rank=rank, world_size=size
    )
    from accelerate import Accelerator

    return Team(torch.device("cpu" if cpu else f"cuda:{rank}"), Accelerator(cpu=cpu))


def part() -> None:
    """Leave the team that this process joined."""
    torch.distributed.destroy_process_group()
