"""Files read with care: one-line reasons, files that change while they are read, atomic writes.

Whatever goes wrong with a file becomes a DataError that names it and says what would be right;
loaders turn those into Skips, so that one bad file never takes the good ones with it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from core.errors import DataError
from core.files import replacing
from core.types import Skip

T = TypeVar("T")

_REASONS = {
    errno.ENOENT: ("there is no such file", "check the path"),
    errno.EACCES: ("may not be read", "give yourself read permission"),
    errno.EPERM: ("may not be read", "give yourself read permission"),
    errno.ELOOP: ("is a symbolic link that leads in a circle", "remove or repair the link"),
    errno.EISDIR: ("is a folder where a file should be", "move it out of the cohort"),
}


def data_error(error: OSError, shown: str) -> DataError:
    """The one-line form of an operating system's error about the file ``shown``."""
    reason, remedy = _REASONS.get(
        error.errno or 0, (f"cannot be read ({error.strerror or type(error).__name__})", "")
    )
    return DataError(shown, None, reason, remedy)


def skip_of(error: DataError) -> Skip:
    """The Skip that a DataError becomes when the rest of the cohort still loads."""
    reason = error.reason + (f" — {error.remedy}" if error.remedy else "")
    return Skip(error.file, error.line, reason)


def shown(path: Path, root: Path) -> str:
    """How messages name a file: from the cohort's folder on, or its name alone."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _state(path: Path, name: str) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError as error:
        raise data_error(error, name) from None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def stably(path: Path, name: str, read: Callable[[], T]) -> T:
    """What ``read()`` makes of a file that did not change meanwhile.

    A file that changed is read once more; raises DataError if it changed again, and for every
    error of the operating system.
    """
    for last in (False, True):
        before = _state(path, name)
        failure: DataError | None = None
        result: T | None = None
        try:
            result = read()
        except OSError as error:
            failure = data_error(error, name)
        except DataError as error:
            failure = error
        if _state(path, name) == before:
            if failure is not None:
                raise failure
            return result  # pyright: ignore[reportReturnType]
        if last:
            break
    raise DataError(name, None, "changed while it was read", "load it once it is complete")


def read_text(path: Path, name: str) -> str:
    """A UTF-8 file, a byte-order mark dropped, line ends as they are.

    Raises DataError with the line of the first byte that is not UTF-8.
    """
    data = stably(path, name, path.read_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(name, line, "is not UTF-8 text", "save it as UTF-8") from None


def write_atomic(path: Path, text: str) -> None:
    """Write a file whole or not at all; raises DataError where that fails."""
    try:
        with replacing(path) as fresh:
            fresh.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritten(error, path) from None


def _unwritten(error: OSError, path: Path) -> DataError:
    reason = f"cannot be written ({error.strerror or type(error).__name__})"
    return DataError(str(path), None, reason, "free space or name another folder")
