"""Memory of the server's process."""

from __future__ import annotations

import ctypes
import platform

M_MMAP_THRESHOLD = -3
"""Parameter of glibc's ``mallopt``: the size in bytes from which a block is allocated by mmap."""
INITIAL_THRESHOLD = 128 << 10
"""Glibc's own value of it at the start of a process."""


def return_freed_blocks() -> bool:
    """Return every freed block of 128 KiB or more to the operating system; gives whether the
    allocator was set so.

    Glibc raises its threshold up to 32 MB when larger blocks are freed. Later blocks are then taken
    from its heaps, which the short-lived threads of a server fragment: the heaps grow with the
    number of reruns while most of their memory is free. Other C libraries are not changed.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, INITIAL_THRESHOLD))
