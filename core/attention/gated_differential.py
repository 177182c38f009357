"""Differential attention whose second map is weighed by a gate, key by key.

The paper's QCCS-DiffAttn, equation (qccs): entry (i, j) of what is subtracted is
λ·g_j·softmax(Q₂K₂ᵀ/√d)_ij, one g for all heads of a layer.
"""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import Keys, Shape
from midchart.core.attention.differential import Differential

Sign = Literal["g", "1-g"]


@ATTENTIONS.register("gated_differential")
class GatedDifferential(Differential):
    """Differential attention with λ·g_j in λ's place.

    ``sign`` "g" is the paper's equation, in which a key that the gate finds relevant loses *more*
    attention; "1-g" is what its words call for: relevant keys are spared. A gate of 1 ("1-g": 0)
    everywhere is plain differential attention, of 0 ("1-g": 1) none at all. ``lambda_init``,
    ``norm`` and ``per_head`` are those of :class:`Differential`.
    """

    name = "gated_differential"
    title = "Gated differential"
    gated = True

    def __init__(
        self,
        shape: Shape,
        *,
        sign: Sign = "g",
        lambda_init: float | None = None,
        norm: bool = True,
        per_head: bool = False,
    ) -> None:
        super().__init__(shape, lambda_init=lambda_init, norm=norm, per_head=per_head)
        if sign not in get_args(Sign):
            raise ValueError(f"{self.name}: sign is {sign!r}. Valid: {', '.join(get_args(Sign))}")
        self.sign = sign
        self.neutral_gate = 1.0 if sign == "g" else 0.0

    def inhibition(self, keys: Keys) -> Tensor | None:
        """g, or 1 − g."""
        assert keys.gate is not None  # the base refuses a call without it
        return keys.gate if self.sign == "g" else 1 - keys.gate
