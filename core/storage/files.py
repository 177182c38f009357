"""Files and folders that only their owner can read, and atomic writes.

Every process of the program calls :func:`protect_new_files` first, so whatever it writes (records,
prompts, runs, caches, logs) is 0600 and every folder 0700. What a person exports to a place of
their choice gets their usual mode by :func:`use_ordinary_mode`.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
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


def file_state_if_any(path: Path) -> FileState | None:
    """:func:`file_state`; None where there is no file that this account can see."""
    try:
        return file_state(path)
    except OSError:
        return None


def use_ordinary_mode(path: Path) -> None:
    """Give a file, or a folder with all that is in it, the mode of the user's own umask."""
    if not _ordinary_umask:
        return
    for one in (path, *path.rglob("*")):
        one.chmod((0o777 if one.is_dir() else 0o666) & ~_ordinary_umask[0])


_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
"""Links on the way to a file, as the kernel's own limit."""


_roots: set[Path] = set()
"""Folders of others that were opened: no file in them is read over a link out of them."""


def hold_root(root: Path) -> None:
    """From now on read no file below the folder ``root`` over a link that leads out of a folder."""
    if root.is_dir():
        _roots.add(root)


def held_root(path: Path) -> Path | None:
    """The outermost folder of :func:`hold_root` that a path is in; None outside of all."""
    return _held_root(path.parent, len(_roots))


@lru_cache(maxsize=1 << 12)
def _held_root(folder: Path, roots: int) -> Path | None:
    """Of one number of held folders, which are never let go."""
    return next((one for one in (*reversed(folder.parents), folder) if one in _roots), None)


def open_regular(path: Path, largest: int | None = None, root: Path | None = None) -> BinaryIO:
    """A regular file, opened once for reading: what is checked is what was opened.

    Below ``root`` (default: the folder of :func:`hold_root` that it is in, else its own) no folder
    on the way and no file may be a link out of the folder that the link is in, whatever another
    process does to them meanwhile; nothing waits for a pipe's writer. Raises OSError: EXDEV for
    such a link, ENODEV or EISDIR for another kind of file, EFBIG over ``largest`` bytes.
    """
    base = root or held_root(path) or path.parent
    place = Path(os.path.normpath(f"{os.path.realpath(base)}/{path.relative_to(base)}"))
    handle = _open_directly(place)
    if handle is None:
        handle = _open_by_folders(place)
    try:
        state = os.fstat(handle)
        _require_regular(state.st_mode)
        if largest is not None and state.st_size > largest:
            raise OSError(errno.EFBIG, "too large")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENODEV
        raise OSError(code, "not a regular file")


def _open_directly(place: Path) -> int | None:
    """The file where no part of its path is a link, as Linux says of what was opened; else None."""
    try:
        _require_regular(place.lstat().st_mode)  # a device is not even opened
        handle = os.open(place, _READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENODEV) and place.is_symlink():
            return None
        raise
    try:
        opened = os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115
    except OSError:  # no such list on this system: the folders are opened one by one
        opened = None
    if opened == str(place):
        return handle
    os.close(handle)
    return None


def _open_by_folders(place: Path) -> int:
    """The file by each folder of its path, none of them a link out of the folder that it is in."""
    for _ in range(_MOST_LINKS):
        folder, inside = os.open("/", _FOLDER), Path("/")
        try:
            for number, part in enumerate(place.parts[1:], 2):
                last = number == len(place.parts)
                target = _link_target(part, folder)
                if target is not None:
                    led = Path(os.path.normpath(inside / target))
                    if not led.is_relative_to(inside):
                        raise OSError(errno.EXDEV, "a link out of its folder")
                    place = led.joinpath(*place.parts[number:])
                    break
                if last:
                    _require_regular(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
                    return os.open(part, _READ, dir_fd=folder)
                following = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder, inside = following, inside / part
        finally:
            os.close(folder)
    raise OSError(errno.ELOOP, "too many links")


def _link_target(name: str, folder: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:  # no link
            return None
        raise


def read_regular(path: Path, root: Path | None = None) -> bytes:
    """The bytes of a regular file; raises as :func:`open_regular`."""
    with open_regular(path, root=root) as file:
        return file.read()


def copy_regular(path: Path, target: Path, largest: int | None = None) -> None:
    """Copy a regular file to a new one; raises as :func:`open_regular`."""
    with open_regular(path, largest) as file, target.open("xb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file that this program writes, made if missing and flags say so.

    Raises OSError for a link, pipe, socket or device in its place: nothing is written over it.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    handle = os.open(path, flags, 0o600)
    try:
        _require_regular(os.fstat(handle).st_mode)
    except OSError:
        os.close(handle)
        raise
    return handle


@contextmanager
def replacing(path: Path, lasting: bool = True) -> Generator[Path]:
    """A temporary path in the folder of ``path``, which replaces ``path`` on success.

    The file is readable by its owner alone. The folder is created if missing. After an error the
    temporary file is removed. It survives a power cut if ``lasting``, which takes milliseconds; a
    reader of another one must notice that it is damaged. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    fresh = Path(name)
    try:
        yield fresh
        if lasting:
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
        fresh.chmod(0o600)
        fresh.replace(path)
        if lasting:
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
