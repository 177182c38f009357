"""Softmax attention whose keys are weighed by a gate: it is taught what a gate is taught, and
subtracts nothing.

The control of gated differential attention: what this gains over softmax comes of the gate and of
what its own loss teaches it, not of inhibition.
"""

from __future__ import annotations

from torch import Tensor

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import AttentionModule, Keys, per_query, softmax_map, softmax_mix

LEAST = 1e-6
"""The least weight of a key, so that its logarithm is finite."""


@ATTENTIONS.register("gated_softmax")
class GatedSoftmax(AttentionModule):
    """softmax(QKᵀ/√d + log g)·V: entry (i, j) of softmax's map times g_j, each row scaled to 1.

    A gate of 1 everywhere (or of any one value of at least 1e-6) is plain softmax; smaller gates
    count as 1e-6. It adds no parameters.
    """

    name = "gated_softmax"
    title = "Gated softmax"
    gated = True

    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Softmax of the scores plus log g over the keys that are there."""
        return softmax_map(q, k, keys.mask, self._bias(keys, q))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """PyTorch's fused kernel, with log g as what it adds to the scores."""
        return softmax_mix(q, k, v, keys.mask, bias=self._bias(keys, q))

    def _bias(self, keys: Keys, q: Tensor) -> Tensor:
        assert keys.gate is not None  # the base refuses a call without it
        # In the gate's own numbers: a bfloat16 gate of .99 and one of 1 are the same.
        return per_query(keys.gate.clamp_min(LEAST).log().to(q.dtype))
