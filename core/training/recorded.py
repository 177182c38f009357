"""A training step on a GPU that is recorded once and replayed.

A step of a small network is hundreds of short kernels, and the processor takes longer to start them
than the GPU to run them. A CUDA graph (Gray 2019, NVIDIA developer blog, "Getting Started with CUDA
Graphs") starts them all in one call. Sizes must not depend on the data, and nothing in a step may
wait for the GPU. Random numbers go on from replay to replay as they do from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_WARM_UP = 3
"""Steps before the recording, in which kernels are chosen and an optimizer's state is made."""


class RecordedStep:
    """``step``, a function of the batch's rows [n] on the device, recorded for ``n`` rows.

    It makes one step of ``optimizer`` over ``network`` and returns a tensor. Recording changes
    neither, nor the device's random state. Raises RuntimeError for a step that cannot be recorded.
    """

    def __init__(
        self,
        step: Callable[[Tensor], Tensor],
        rows: Tensor,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._rows = rows.clone()
        with _unchanged(rows.device, network, optimizer):
            aside = torch.cuda.Stream(rows.device)
            aside.wait_stream(torch.cuda.current_stream(rows.device))
            with torch.cuda.stream(aside):
                for _ in range(_WARM_UP):
                    step(self._rows)
            torch.cuda.current_stream(rows.device).wait_stream(aside)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._result = step(self._rows)

    def __call__(self, rows: Tensor) -> Tensor:
        """The step on other rows; its result is overwritten by the next call."""
        self._rows.copy_(rows)
        self._graph.replay()
        return self._result


@contextmanager
def _unchanged(
    device: torch.device, network: nn.Module, optimizer: torch.optim.Optimizer
) -> Generator[None]:
    """Restore weights, the optimizer's state and the random state after the body, in place."""
    random = torch.cuda.get_rng_state(device)
    weights = [(one, one.detach().clone()) for one in _tensors(network)]
    known = {id(one): one.clone() for one in _state(optimizer)}
    try:
        yield
    finally:
        torch.cuda.synchronize(device)
        with torch.no_grad():
            for tensor, before in weights:
                tensor.copy_(before)
            for tensor in _state(optimizer):
                # What the body made is as a new optimizer has it: zeros.
                before = known.get(id(tensor))
                tensor.zero_() if before is None else tensor.copy_(before)
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.set_rng_state(random, device)


def _tensors(network: nn.Module) -> Iterable[Tensor]:
    yield from network.parameters()
    yield from network.buffers()


def _state(optimizer: torch.optim.Optimizer) -> Iterable[Tensor]:
    for values in optimizer.state.values():
        yield from (value for value in values.values() if isinstance(value, Tensor))
