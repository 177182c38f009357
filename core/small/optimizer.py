"""How the small reader's weights are changed: its matrices by Muon, all else by AdamW.

Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon; torch's own) makes every direction of
a matrix's step equally long. Embeddings, norms and biases are no such matrices.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import torch

BETAS = (0.9, 0.98)
"""AdamW's, with a shorter memory than usual for a training of thousands of steps."""
MOMENTUM = 0.95
"""Muon's."""
PARTS = 2


class Mixed:
    """Optimizers as one, over all parameters of ``model``, at one rate: Muon in ``PARTS`` parts,
    which are reckoned beside each other, and AdamW."""

    def __init__(self, model: Any, rate: float, decay: float) -> None:
        named = list(model.named_parameters())
        matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        taken = {id(p) for p in matrices}
        rest = [p for _, p in named if id(p) not in taken]
        size = -(-len(matrices) // PARTS)
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                matrices[begin : begin + size],
                lr=rate,
                weight_decay=decay,
                momentum=MOMENTUM,
                adjust_lr_fn="match_rms_adamw",
            )
            for begin in range(0, len(matrices), size)
        ]
        self.parts.append(torch.optim.AdamW(rest, lr=rate, weight_decay=decay, betas=BETAS))

    def step(self, rate: float, pool: Executor) -> None:
        """Change the weights by their gradients."""
        for one in self.parts:
            for group in one.param_groups:
                group["lr"] = rate
        for begun in [pool.submit(one.step) for one in self.parts]:
            begun.result()

    def _first(self) -> list[int]:
        """The number of each part's first parameter: they are counted through."""
        sizes = [len(one.param_groups[0]["params"]) for one in self.parts]
        return [sum(sizes[:i]) for i in range(len(sizes) + 1)]

    def state_dict(self) -> dict[str, Any]:
        """The state of every parameter."""
        parts = zip(self.parts, self._first(), strict=False)
        return {
            "state": {
                number + first: state
                for one, first in parts
                for number, state in one.state_dict()["state"].items()
            }
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state of every parameter back."""
        state, first = state_dict["state"], self._first()
        for i, one in enumerate(self.parts):
            mine = {n - first[i]: state[n] for n in range(first[i], first[i + 1]) if n in state}
            one.load_state_dict({**one.state_dict(), "state": mine})
