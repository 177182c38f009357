"""Files and folders that only their owner can read, and atomic writes.

The umask is 0077 from the package's import on (:mod:`midchart.core`), so whatever is written
(records, prompts, runs, caches, logs) is 0600 and every folder 0700. What a person exports to a
place of their choice gets their usual mode by :func:`use_ordinary_mode`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from midchart.core import ORDINARY_UMASK
from midchart.core.errors import InputError
from midchart.core.regular_files import open_regular, require_regular

FileState = tuple[int, int, int, int]
"""Inode, size and times of change of a file."""


def file_state(path: Path) -> FileState:
    """What changes with a file's content; raises OSError."""
    now = path.stat()
    return now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def file_state_if_any(path: Path) -> FileState | None:
    """:func:`file_state`; None where there is no file that this account can see."""
    try:
        return file_state(path)
    except OSError:
        return None


def use_ordinary_mode(path: Path) -> None:
    """Give a file, or a folder with all that is in it, the mode of the user's own umask."""
    for one in (path, *path.rglob("*")):
        one.chmod((0o777 if one.is_dir() else 0o666) & ~ORDINARY_UMASK)


def copy_regular(path: Path, target: Path) -> None:
    """Copy a regular file to a new one; raises as :func:`open_regular`."""
    with open_regular(path) as file, target.open("xb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file that this program writes, made if missing and flags say so.

    Raises OSError for a link, pipe, socket or device in its place: nothing is written over it.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    handle = os.open(path, flags, 0o600)
    try:
        require_regular(os.fstat(handle).st_mode)
    except OSError:
        os.close(handle)
        raise
    return handle


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary path in the folder of ``path``, which replaces ``path`` on success.

    The file is readable by its owner alone. The folder is created if missing. After an error the
    temporary file is removed. It survives a power cut. Raises OSError.
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
