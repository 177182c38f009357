"""Hidden folders in which something is made until it is complete, or from which it is deleted.

What is made is renamed to its name in one step; what is removed is renamed first. A killed process
leaves a hidden folder whose lock nobody holds, which :func:`sweep` deletes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from midchart.core import config as settings
from midchart.core.storage.files import sync_folder, writing
from midchart.core.storage.lock import Lock, exclusive, is_locked

INCOMING, OUTGOING = ".incoming-", ".outgoing-"
_LOCK = "lock"
_TRIES = 10
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


def temporary_lock() -> Path:
    """The lock that is held while temporary folders are swept."""
    return temporary_root() / _LOCK


@contextmanager
def temporary_folder() -> Generator[Path]:
    """An empty folder for text of records, in the cache: after a kill the next start or removal
    deletes it. Raises InputError where it cannot be made."""
    root = temporary_root()
    with ExitStack() as stack:
        with writing(root):
            root.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(incoming(root, temporary_lock()))
        yield folder


@contextmanager
def folder_at(place: Path) -> Generator[Path]:
    """An empty hidden folder in ``place``, which may be any folder of the account's: what is made
    in it is renamed to its name there. Raises OSError where it cannot be made."""
    with tempfile.TemporaryDirectory(
        prefix=".export-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@contextmanager
def complete_folder(folder: Path) -> Generator[Path]:
    """A hidden folder that becomes ``folder``, in place of a damaged one, when the body has
    succeeded, and else is removed; the caller holds a lock on it. Raises OSError."""
    fresh = folder.with_name(f".{folder.name}.fresh")
    shutil.rmtree(fresh, ignore_errors=True)  # of a killed process
    fresh.mkdir(parents=True)
    try:
        yield fresh
        for file in fresh.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def undeleted(*places: Path) -> list[str]:
    """Delete folders, to which another process may add, or links and files themselves; gives one
    line for each where that cannot be done, once all else in it is deleted."""
    for place in places:
        for _ in range(_TRIES):
            if place.is_symlink() or place.is_file():
                place.unlink(missing_ok=True)
            else:
                shutil.rmtree(place, ignore_errors=True)
            if not os.path.lexists(place):
                break
    left = filter(os.path.lexists, places)
    return [f"{one}: cannot be deleted; fix its permissions, or delete it" for one in left]


def sweep(root: Path, guard: Path | None = None) -> list[str]:
    """Delete the folders of :func:`incoming` in ``root`` that killed processes have left; gives one
    line for each that cannot be deleted, which stays for the next start.

    The caller holds the guard of :func:`incoming` where it is not given.
    """
    left = [one for one in root.glob(f"{INCOMING}*") if one.is_dir()]
    with exclusive(guard) if left and guard is not None else nullcontext():
        return undeleted(*(one for one in left if not is_locked(one / _LOCK)))
