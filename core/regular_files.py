"""Files that others made or named, opened once for reading: what is checked is what was opened.

Below the configuration, which reads a file that a person names too; files are written in
:mod:`midchart.core.storage.files`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

watched: Callable[[str, int], bool] | None = None
"""What a confined process is asked by the path and bytes of each file that it opens: whether it may
be read. One that may not is over a limit (ETIME)."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened for reading; nothing waits for a pipe's writer.

    Raises OSError: EXDEV for a link out of the file's folder, ENODEV or EISDIR for another kind of
    file, ETIME where a confined process may not read it.
    """
    handle = os.open(_inside(path) if path.is_symlink() else path, _READ)
    try:
        state = os.fstat(handle)
        require_regular(state.st_mode)
        if watched is not None and not watched(str(path), state.st_size):
            raise OSError(errno.ETIME, "over a limit")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _inside(link: Path) -> str:
    """The file that a link leads to, which has to be in the link's folder."""
    file = os.path.realpath(link)
    if not Path(file).is_relative_to(os.path.realpath(link.parent)):
        raise OSError(errno.EXDEV, "a link out of its folder")
    return file


def require_regular(mode: int) -> None:
    """Raise OSError, EISDIR or ENODEV, for the mode of anything but a regular file."""
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENODEV
        raise OSError(code, "not a regular file")


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file; raises as :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read()


LARGEST_NAMED = 256 << 20
"""Bytes of a file that a person names, unless what it holds is always smaller."""


def read_named(path: Path, largest: int = LARGEST_NAMED) -> bytes:
    """The bytes of a file that a person names, who may have linked it to another place.

    Raises OSError, at once, for another kind of file or one over ``largest`` bytes; its
    ``strerror`` says what is wrong and what to give instead.
    """
    try:
        require_regular(path.stat().st_mode)  # realpath of a shell's pipe names no file
        with open_regular(Path(os.path.realpath(path))) as file:
            data = file.read(largest + 1)
        if len(data) > largest:
            raise OSError(errno.EFBIG, "too large")
        return data
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
