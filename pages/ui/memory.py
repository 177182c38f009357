"""Memory of the server's process."""

from __future__ import annotations

import ctypes
import platform

M_MMAP_THRESHOLD = -3
"""Of glibc's ``mallopt``: from how many bytes on a block has a mapping of its own."""
OWN_MAPPING = 128 << 10
"""Glibc's first threshold."""


def return_freed_blocks() -> bool:
    """Let the system have every block of 128 KiB or more again when it is freed; whether it will.

    Glibc raises the threshold by itself, up to 32 MB, when such a block is freed. The next ones
    then come from heaps, which the many short threads of a server fragment: they grow with the
    reruns, and most of them is free. Other C libraries are left as they are.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, OWN_MAPPING))
