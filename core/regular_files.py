"""Files that others made or named, opened once for reading: what is checked is what was opened.

Below the configuration, which reads a file that a person names too; files are written in
:mod:`midchart.core.storage.files`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY


def watched(name: str, bytes: int) -> bool:
    """Whether a confined process may read a file, or a record; it sets this. One that may not is
    over a limit (ETIME)."""
    return True


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened for reading; nothing waits for a pipe's writer.

    Raises OSError: EXDEV for a link out of the file's folder, ENODEV or EISDIR for another kind of
    file, ETIME where a confined process may not read it.
    """
    real = os.path.realpath(path) if path.is_symlink() else path
    if real is not path and not Path(real).is_relative_to(os.path.realpath(path.parent)):
        raise OSError(errno.EXDEV, "a link out of its folder")
    file = open(real, "rb", opener=lambda name, _: os.open(name, _READ))  # noqa: SIM115 - given
    state = os.fstat(file.fileno())
    code = 0 if stat.S_ISREG(state.st_mode) else errno.ENODEV
    if not code and not watched(str(path), state.st_size):
        code = errno.ETIME
    if code:
        file.close()
        raise OSError(code, "not a regular file, or over a limit")
    return file


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file; raises as :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read()


def read_named(path: Path) -> bytes:
    """The bytes of a file that a person names, who may have linked it to another place.

    Raises OSError, at once, for another kind of file; its ``strerror`` says what is wrong and what
    to give instead.
    """
    mode = path.stat().st_mode  # of a shell's pipe realpath names no file
    if not stat.S_ISREG(mode):
        kind = "folder" if stat.S_ISDIR(mode) else "pipe or device"
        raise OSError(errno.ENODEV, f"is a {kind}, not a regular file; give a regular file")
    return read_regular(Path(os.path.realpath(path)))
