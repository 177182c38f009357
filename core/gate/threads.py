"""One thread for small networks: the same sums in the same order, and no waiting for each other."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Generator[None]:
    """Run torch on one thread within the body: gradients of gathers are sums whose order several
    threads would change, and so the last bits of a training; another processor changes them too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
