"""The lock by which a run is alive: ``flock`` on a file, released by the kernel at any death.

A process number can be taken over by another process; a lock cannot. A launcher may take the
lock and hand its descriptor to the worker it starts, so that there is no moment in between.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

PATIENCE_S = 1.0
"""How long taking the lock goes on trying: a look at :func:`held` holds it for microseconds,
a worker that has just finished for as long as its last lines take."""


class Lock:
    """An exclusive lock that this process (or a child that inherits ``fd``) holds."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def take(cls, path: Path, patience_s: float = PATIENCE_S) -> Lock | None:
        """Take the lock on ``path``, made if it is not there; None while another holds it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return cls(fd)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(fd)
                    return None
                time.sleep(0.02)
            except BaseException:
                os.close(fd)
                raise

    @classmethod
    def inherited(cls, fd: int) -> Lock:
        """The lock behind a descriptor that the launcher handed over; children do not get it."""
        os.set_inheritable(fd, False)
        return cls(fd)

    def release(self) -> None:
        """Close this descriptor; the lock ends when its last descriptor is closed."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def held(path: Path) -> bool:
    """Whether any process holds the lock on ``path``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)
