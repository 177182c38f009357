"""Exclusive locks on files (``flock``, by filelock), which the kernel releases at any death.

A process number can be reused by another process; a lock cannot. A launcher may take a run's lock
and hand its descriptor to the worker it starts, so that there is no moment in between. Locks are
taken on descriptors, so filelock never falls back to a lock file that outlives its holder.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

_PATIENCE_S = 1.0
"""Seconds for which taking a lock is retried: :func:`is_locked` holds it for microseconds, a
worker that has just finished while it writes its last lines."""
POLL_S = 0.01
_FLAGS = os.O_RDWR | os.O_CREAT


class Lock:
    """An exclusive lock that this process, or a child that inherits ``fd``, holds."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def take(cls, path: Path, patience_s: float = _PATIENCE_S) -> Lock | None:
        """Take the lock on ``path``, created if missing; None while another process holds it."""
        lock = cls(os.open(path, _FLAGS, 0o600))
        deadline = time.monotonic() + patience_s
        try:
            while not lock_descriptor(lock.fd, blocking=False):
                if time.monotonic() >= deadline:
                    lock.release()
                    return None
                time.sleep(POLL_S)
        except BaseException:
            lock.release()
            raise
        return lock

    @classmethod
    def inherited(cls, fd: int) -> Lock:
        """The lock of a descriptor that the launcher handed over; children do not get it."""
        os.set_inheritable(fd, False)
        return cls(fd)

    def release(self) -> None:
        """Close this descriptor; the lock ends when its last descriptor is closed."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@contextmanager
def exclusive(path: Path) -> Generator[None]:
    """Hold the lock on ``path`` (created if missing) for the body; other processes wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, _FLAGS, 0o600)
    try:
        lock_descriptor(handle, poll_interval=POLL_S)
        yield
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether any process holds the lock on ``path``.

    The test takes a shared lock, which filelock lacks on descriptors, so that two concurrent tests
    do not see each other.
    """
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
