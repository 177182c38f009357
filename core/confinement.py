"""What a process gives up for good: of a run the network where it calls no server, and more before
files are read that others made.

Memory, processor time, the size of what it writes and core dumps are limited everywhere. On Linux
it also opens no network connection and starts no program (seccomp), and reads and writes nothing
but what it names (Landlock); :func:`confine` says what of this the machine lacks.
"""

from __future__ import annotations

import contextlib
import errno
import re
import resource
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from socket import AF_UNIX, socket

_CALLS = (
    *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "io_uring_setup"),
    *("execve", "execveat", "ptrace", "process_vm_writev", "pidfd_getfd"),
)
"""System calls that fail: those of networks, and those that start or change another program."""
SECONDS, SECONDS_PER_MB = 20, 2
"""Processor time of a file: this, and this for each MB of it."""
MEMORY, MEMORY_PER_BYTE = 3 << 30, 8
"""Memory that a conversion may take: this, and as many times the bytes of the files."""
OVER_LIMIT = (
    f"needs more than {SECONDS} s and {SECONDS_PER_MB} s a MB, "
    f"or {MEMORY >> 30} GB and {MEMORY_PER_BYTE} times its size"
)
_SECRETS = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


def without_secrets(environment: dict[str, str]) -> dict[str, str]:
    """The variables whose names say of no key, token, secret or password."""
    return {name: value for name, value in environment.items() if not _SECRETS.search(name)}


@cache
def prepare() -> None:
    """Import what confines, which starts a program to find libseccomp; for every process that is
    forked from this one."""
    for name in ("landlock", "pyseccomp") if sys.platform == "linux" else ():
        with contextlib.suppress(ImportError, OSError, RuntimeError):
            import_module(name)


def confine(
    memory: int, output: int, readable: Sequence[Path], writable: Sequence[Path]
) -> tuple[str, ...]:
    """Limit this process; gives what this machine cannot take from it.

    ``memory`` and ``output``: bytes that it may allocate from now on, and of a file that it writes.
    ``readable`` and ``writable``: folders and files.
    """
    # RLIMIT_DATA, not RLIMIT_AS: threads reserve addresses that they never use.
    prepare()
    allocated = 0
    with contextlib.suppress(OSError):  # it is not known everywhere
        pages = Path("/proc/self/statm").read_text().split()[5]
        allocated = int(pages) * resource.getpagesize()
    data, file, core = resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE
    for kind, most in ((data, allocated + memory), (file, output), (core, 0)):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    if sys.platform != "linux":
        return "network", "programs", "files"
    calls = () if _refuse(*_CALLS) else ("network", "programs")
    return (*calls, *_only_these_files(readable, writable))


def give_up_network() -> bool:
    """Open no connection to a network from now on, in any thread and in what this process starts;
    gives whether an attempt fails. Sockets of this machine alone (AF_UNIX) stay: GPUs need them."""
    _refuse("io_uring_setup", socket=AF_UNIX)
    try:
        socket().close()
    except PermissionError:
        return True
    return False


def allow_seconds(bytes: int = 0) -> None:
    """Let this process use the processor time of a file of so many bytes from now on, and ten times
    as much time in all; it is ended after either."""
    seconds = SECONDS + SECONDS_PER_MB * bytes / 1e6
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + seconds) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def _only_these_files(readable: Iterable[Path], writable: Iterable[Path]) -> tuple[str, ...]:
    try:
        from landlock import FSAccess, Ruleset

        rules = Ruleset()
        reading = FSAccess.READ_FILE | FSAccess.READ_DIR
        for place in readable:
            if place.exists():
                rules.allow(str(place), rules=reading if place.is_dir() else FSAccess.READ_FILE)
        for place in writable:
            rules.allow(str(place))
        rules.apply()
    except (ImportError, OSError, RuntimeError):  # not installed, or a kernel without it
        return ("files",)
    return ()


def _refuse(*calls: str, **but: int) -> bool:
    """Let system calls fail from now on, those of ``but`` unless their first argument is as stated;
    gives whether this machine can."""
    try:
        import pyseccomp

        rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
        rules.set_attr(pyseccomp.Attr.CTL_TSYNC, 1)
        refusal = pyseccomp.ERRNO(errno.EPERM)
        for name in calls:
            rules.add_rule(refusal, name)
        for name, allowed in but.items():
            rules.add_rule(refusal, name, pyseccomp.Arg(0, pyseccomp.NE, allowed))
        rules.load()
    except (ImportError, OSError, RuntimeError):  # not installed, or without libseccomp
        return False
    return True
