"""Files that others made or named, opened once for reading: what is checked is what was opened.

Below the configuration, which reads a file that a person names too; files are written in
:mod:`midchart.core.storage.files`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
"""Links on the way to a file, as the kernel's own limit."""


_roots: set[Path] = set()
"""Folders of others that were opened: no file in them is read over a link out of them."""
_apart: set[Path] = set()
"""The installation's folders, which are of no folder of others around them."""


def hold_root(root: Path, apart: Iterable[Path] = ()) -> None:
    """From now on read no file below the folder ``root`` over a link that leads out of a folder.

    ``apart``: folders below which links are the account's, wherever they are: a ``root`` around one
    of them does not reach into it.
    """
    if root.is_dir():
        _apart.update(apart)
        _roots.add(root)


def held_root(path: Path) -> Path | None:
    """The outermost folder of :func:`hold_root` that a path is in; None outside of all."""
    return _held_root(path.parent, len(_roots), len(_apart))


@lru_cache(maxsize=1 << 12)
def _held_root(folder: Path, roots: int, apart: int) -> Path | None:
    """Of one number of held folders and of those apart, which are never let go."""
    root: Path | None = None
    for one in (*reversed(folder.parents), folder):
        if one in _apart:
            root = None
        elif root is None and one in _roots:
            root = one
    return root


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
        require_regular(state.st_mode)
        if largest is not None and state.st_size > largest:
            raise OSError(errno.EFBIG, "too large")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_regular(mode: int) -> None:
    """Raise OSError, EISDIR or ENODEV, for the mode of anything but a regular file."""
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENODEV
        raise OSError(code, "not a regular file")


def _open_directly(place: Path) -> int | None:
    """The file where no part of its path is a link, as Linux says of what was opened; else None."""
    try:
        require_regular(place.lstat().st_mode)  # a device is not even opened
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
                    require_regular(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
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


def read_regular(path: Path, root: Path | None = None, largest: int | None = None) -> bytes:
    """The bytes of a regular file; raises as :func:`open_regular`."""
    with open_regular(path, largest, root) as file:
        data = file.read() if largest is None else file.read(largest + 1)
    if largest is not None and len(data) > largest:  # it grew, or is of /proc
        raise OSError(errno.EFBIG, "too large")
    return data


LARGEST_NAMED = 256 << 20
"""Bytes of a file that a person names, unless what it holds is always smaller."""


def read_named(path: Path, largest: int = LARGEST_NAMED) -> bytes:
    """The bytes of a file that a person names, who may have linked it to another place.

    Raises OSError, at once, for another kind of file or one over ``largest`` bytes; its
    ``strerror`` says what is wrong and what to give instead.
    """
    try:
        require_regular(path.stat().st_mode)  # realpath of a shell's pipe names no file
        return read_regular(Path(os.path.realpath(path)), largest=largest)
    except OSError as error:
        wrong = {
            errno.ENODEV: "is a pipe or device, not a regular file; give a regular file",
            errno.ENXIO: "is a pipe or device, not a regular file; give a regular file",
            errno.EISDIR: "is a folder, not a regular file; give a regular file",
            errno.EFBIG: f"is larger than {largest >> 20} MB; is it the right file?",
        }.get(error.errno or 0)
        if wrong is None:
            raise
        raise OSError(error.errno, wrong) from None
