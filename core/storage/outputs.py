"""Files that a person names for a result: tables, reports, calibrations.

A file is written completely or not at all. It never replaces a link, a folder, a pipe or a device,
nor a file in the folders in which this installation stores its data.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from midchart.core import config as settings
from midchart.core.errors import InputError
from midchart.core.parsing import user_path
from midchart.core.storage.files import replacing, use_ordinary_mode
from midchart.core.storage.staging import temporary_root


def output_path(file: str | Path) -> Path:
    """The path of a file that a person names for a result.

    Raises InputError for what can be no path, for a folder, link, pipe or device in its place, and
    for the file of keys and a place in the folders that this installation keeps its data in.
    """
    path = user_path(file)
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(
                f"{path}: is a link, folder, pipe or device; name a regular file, or one that is "
                "not there yet"
            )
        real = path.parent.resolve() / path.name
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    if _of_installation(real):
        raise InputError(
            f"{path}: lies where Midchart stores its data (records, runs, reviews, logs, caches); "
            "name a file elsewhere"
        )
    return path


def _of_installation(path: Path) -> bool:
    data = settings.data_folder()
    stored = (
        *(settings.cohorts_folder(), settings.runs_folder(), settings.received_folder()),
        *(data / "reviews", settings.state_folder(), settings.models_folder()),
        settings.cache_folder(),
    )
    # Of the cache, calibrations are a person's, and an export may be made in a temporary folder.
    free = (settings.calibrations_folder(), temporary_root())
    in_stored, in_free = (
        any(path.is_relative_to(folder.resolve()) for folder in folders)
        for folders in (stored, free)
    )
    return (
        (in_stored and not in_free)
        or (path.parent == data.resolve() and path.name.startswith(("audit.", ".")))
        or (path.parent == data.resolve() and path.suffix == ".lock")
        or path in {one.resolve() for one in settings.secrets_files()}
    )


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
