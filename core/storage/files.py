"""Files and folders that only their owner can read, and atomic writes.

Every process of the program calls :func:`protect_new_files` first, so whatever it writes (records,
prompts, runs, caches, logs) is 0600 and every folder 0700. What a person exports to a place of
their choice gets their usual mode by :func:`use_ordinary_mode`.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from midchart.core.errors import InputError

_PRIVATE_UMASK = 0o077
_ordinary_umask: list[int] = []
"""The umask that this process was started with, once it has been replaced."""


def protect_new_files() -> None:
    """Make new files of this process, and of those it starts, readable by their owner alone."""
    if not _ordinary_umask:
        _ordinary_umask.append(os.umask(_PRIVATE_UMASK))


FileState = tuple[int, int, int, int]
"""Inode, size and times of change of a file."""


def file_state(path: Path) -> FileState:
    """What changes with a file's content; raises OSError."""
    now = path.stat()
    return now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def use_ordinary_mode(path: Path) -> None:
    """Give a file, or a folder with all that is in it, the mode of the user's own umask."""
    if not _ordinary_umask:
        return
    for one in (path, *path.rglob("*")):
        one.chmod((0o777 if one.is_dir() else 0o666) & ~_ordinary_umask[0])


def open_regular(path: Path, largest: int | None = None) -> BinaryIO:
    """A regular file, opened once for reading; a pipe, device or folder is refused unread.

    What is checked is what was opened. Raises OSError: ENODEV or EISDIR for another kind of file,
    EFBIG over ``largest`` bytes.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            code = errno.EISDIR if stat.S_ISDIR(state.st_mode) else errno.ENODEV
            raise OSError(code, "not a regular file")
        if largest is not None and state.st_size > largest:
            raise OSError(errno.EFBIG, "too large")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary path in the folder of ``path``, which replaces ``path`` on success.

    The file is readable by its owner alone. The folder is created if missing. After an error the
    temporary file is removed. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    fresh = Path(name)
    try:
        yield fresh
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.chmod(0o600)
        fresh.replace(path)
        sync_folder(path.parent)
    finally:
        fresh.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` (a new file, a rename) survive a power cut; raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder if missing and check that it is writable; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Raise InputError, one line, where a folder cannot be written or the disk is full."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); free space or fix its permissions. "
            "Existing files are kept"
        ) from None
