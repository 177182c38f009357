"""Files that a person names for a result: tables, reports, calibrations.

A file is written completely or not at all. It never replaces a link, a folder, a pipe or a device.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from midchart.core.errors import InputError
from midchart.core.parsing import user_path
from midchart.core.storage.files import replacing, use_ordinary_mode


def output_path(file: str | Path) -> Path:
    """The path of a file that a person names for a result.

    Raises InputError for what can be no path, and for a folder, link, pipe or device in its place.
    """
    path = user_path(file)
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(
                f"{path}: is a link, folder, pipe or device; name a regular file, or one that is "
                "not there yet"
            )
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    return path


@contextmanager
def output_file(file: str | Path) -> Generator[Path]:
    """A temporary path that becomes the file that a person names, with the mode of their umask.

    Raises InputError as :func:`output_path` does, and where the file cannot be written.
    """
    path = output_path(file)
    try:
        with replacing(path) as fresh:
            yield fresh
        use_ordinary_mode(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
