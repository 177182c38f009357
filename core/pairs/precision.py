"""On what device pairs are scored, and with which numbers: bfloat16 where the chip computes in it.

Told by the hardware's own flags. On two cores with AVX512-BF16 bfloat16 scores pairs twice as
fast, with logits up to some thousandths away; without such instructions it is slower than
float32, so there it is not used.
"""

from __future__ import annotations

from typing import Any, Literal

Precision = Literal["float32", "bfloat16"]

CPU_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""Instructions that multiply bfloat16 natively, as torch names them (x86, x86, Arm)."""


def hardware() -> tuple[str, Precision]:
    """Device ("cuda" or "cpu") and precision for this machine."""
    import torch

    if torch.cuda.is_available():
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return "cuda", "bfloat16" if native else "float32"
    able: Any = torch.cpu.get_capabilities()
    return "cpu", "bfloat16" if any(able.get(flag) for flag in CPU_FLAGS) else "float32"
