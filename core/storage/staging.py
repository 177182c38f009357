"""Hidden folders in which something is made until it is complete, or from which it is deleted.

What is made is renamed to its name in one step; what is removed is renamed first. A killed process
leaves a hidden folder whose lock nobody holds, which :func:`sweep` deletes.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from midchart.core import config as settings
from midchart.core.errors import InputError
from midchart.core.storage.files import writing
from midchart.core.storage.lock import Lock, exclusive, is_locked

INCOMING, OUTGOING = ".incoming-", ".outgoing-"
_LOCK = "lock"
_TRIES = 100
"""Deletions of a folder to which another process adds meanwhile, at most."""


@contextmanager
def incoming(root: Path, guard: Path) -> Generator[Path]:
    """An empty folder in ``root`` that no list shows; it is deleted at the end of the body.

    ``guard``: the lock that is held while hidden folders are swept.
    """
    with exclusive(guard):
        place = Path(tempfile.mkdtemp(prefix=INCOMING, dir=root))
        lock = Lock.take(place / _LOCK)
    try:
        folder = place / "files"
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if lock is not None:
            lock.release()


def temporary_root() -> Path:
    """Where the folders of :func:`temporary_folder` are."""
    return settings.cache_folder() / "temporary"


@contextmanager
def temporary_folder() -> Generator[Path]:
    """An empty folder for text of records, in the cache: after a kill the next start or removal
    deletes it. Raises InputError where it cannot be made."""
    root = temporary_root()
    with ExitStack() as stack:
        with writing(root):
            root.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(incoming(root, root / _LOCK))
        yield folder


@contextmanager
def folder_at(place: Path) -> Generator[Path]:
    """An empty hidden folder in ``place``, which may be any folder of the account's: what is made
    in it is renamed to its name there. Raises OSError where it cannot be made."""
    with tempfile.TemporaryDirectory(
        prefix=".export-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def sweep_temporary() -> list[str]:
    """:func:`sweep` the temporary folders."""
    root = temporary_root()
    try:
        if any(root.glob(f"{INCOMING}*")):
            with exclusive(root / _LOCK):
                return sweep(root)
        return []
    except OSError as error:
        return [_not_deleted(root, error)]


def undeleted(folder: Path) -> list[str]:
    """Delete as :func:`delete_tree`; gives one line where that cannot be done."""
    try:
        delete_tree(folder)
    except OSError as error:
        return [_not_deleted(folder, error)]
    return []


def undeleted_in(folder: Path) -> list[str]:
    """:func:`undeleted` all that is in a folder."""
    try:
        inside = list(folder.iterdir())
    except OSError as error:
        return [_not_deleted(folder, error)]
    return [line for one in inside for line in undeleted(one)]


def _not_deleted(place: Path, error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    remedy = "fix its permissions, or delete it"
    return str(InputError(f"{place}: cannot be deleted ({reason}); {remedy}"))


def delete_tree(folder: Path) -> None:
    """Delete a folder, to which another process may add, or parts of which it may delete; of a
    link or file, itself. Raises OSError where that cannot be done, once all else is deleted."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink(missing_ok=True)
        return
    tries = 0
    while folder.exists():
        tries += 1
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or tries == _TRIES:
                shutil.rmtree(folder, ignore_errors=True)  # all else in it
                raise


def sweep(root: Path) -> list[str]:
    """Delete the folders of :func:`incoming` in ``root`` that killed processes have left; gives one
    line for each that cannot be deleted, which stays for the next start.

    The caller holds the guard of :func:`incoming`.
    """
    problems: list[str] = []
    try:
        for place in root.glob(f"{INCOMING}*"):
            if place.is_dir() and not place.is_symlink() and not is_locked(place / _LOCK):
                problems += undeleted(place)
    except OSError as error:
        problems.append(_not_deleted(root, error))
    return problems
