"""How a training keeps its memory: what it frees it takes again a moment later."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

# Parameters of mallopt, by the numbers that glibc's malloc.h gives them.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8


def keep_memory() -> bool:
    """Let this process keep what it frees, in one heap of which nothing goes back to the system.

    A lesson's tensors are large, and freed at its end; glibc would give their pages back, and the
    system clear them for the next lesson (measured: docs/log.md). False where the C library is not
    glibc: then nothing is changed. To be called before a training's threads begin.
    """
    if sys.platform != "linux":
        return False
    library: Any = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    wanted = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**26), (_ARENA_MAX, 1))
    return all(library.mallopt(parameter, value) == 1 for parameter, value in wanted)
