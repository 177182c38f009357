"""Files and folders that only their owner can read, and atomic writes.

The umask is 0077 from the package's import on (:mod:`midchart.core`), so whatever is written
(records, prompts, runs, caches, logs) is 0600 and every folder 0700. What a person exports to a
place of their choice gets their usual mode by :func:`use_ordinary_mode`.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from midchart.core import ORDINARY_UMASK
from midchart.core.errors import InputError
from midchart.core.parsing import user_path
from midchart.core.regular_files import open_regular

FileState = tuple[str, int, int, int, int, int]
"""Path, device, inode, times of change of the content and of the file in ns, and bytes."""


def times_of(path: str) -> FileState | None:
    """What changes with a regular file, or with that which a link leads to; None of anything else.
    Raises OSError."""
    try:
        now = Path(path).stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(now.st_mode):
        return None
    return path, now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size


def file_state(path: Path) -> FileState | None:
    """:func:`times_of`; None where there is no file that this account can see."""
    try:
        return times_of(str(path))
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


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically; raises InputError where that fails."""
    with writing(path), replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8")


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


# Files that a person names for a result: tables, reports, calibrations.


def output_path(file: str | Path) -> Path:
    """The path of a file that a person names for a result.

    Raises InputError for what can be no path, and for a folder, link, pipe or device in its place.
    """
    path = user_path(file)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(
            f"{path}: is a link, folder, pipe or device; name a regular file, or one that is not "
            "there yet"
        )
    return path


@contextmanager
def output_file(file: str | Path) -> Generator[Path]:
    """A temporary path that becomes the file that a person names, with the mode of their umask.

    Raises InputError as :func:`output_path` does, and where the file cannot be written.
    """
    path = output_path(file)
    with writing(path):
        with replacing(path) as fresh:
            yield fresh
        use_ordinary_mode(path)
