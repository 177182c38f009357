"""Files and folders are written completely or not at all, and only their owner can read them.

The umask is 0077 from the package's import on (:mod:`midchart.core`), so whatever is written
(records, prompts, runs, caches, logs) is 0600 and every folder 0700. What a person exports to a
place of their choice gets their usual mode by :func:`use_ordinary_mode`.

What is made is renamed to its name in one step; a folder that is removed is renamed first. A killed
process leaves a hidden folder whose lock nobody holds, which :func:`sweep` deletes.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from midchart.core import ORDINARY_UMASK
from midchart.core import config as settings
from midchart.core.errors import InputError
from midchart.core.parsing import user_path
from midchart.core.storage.lock import Lock, exclusive, is_locked

INCOMING, OUTGOING = ".incoming-", ".outgoing-"
LOCK = "lock"
_TRIES = 10
"""Deletions of a folder to which another process adds meanwhile, at most."""
FileState = tuple[str, int, int, int, int, int]
"""Path, device, inode, times of change of the content and of the file in ns, and bytes."""


def file_state(path: str | Path) -> FileState | None:
    """What changes with a regular file, or with that which a link leads to; None where there is
    none that this account can see."""
    try:
        now = Path(path).stat()
    except OSError:
        return None
    if not stat.S_ISREG(now.st_mode):
        return None
    return str(path), now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size


def use_ordinary_mode(path: Path) -> None:
    """Give a file, or a folder with all that is in it, the mode of the user's own umask."""
    for one in (path, *path.rglob("*")):
        one.chmod((0o777 if one.is_dir() else 0o666) & ~ORDINARY_UMASK)


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` (a new file, a rename) survive a power cut; raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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


# Folders.


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


@contextmanager
def incoming(root: Path, guard: Path) -> Generator[Path]:
    """An empty folder in ``root`` that no list shows; it is deleted at the end of the body.

    ``guard``: the lock that is held while hidden folders are swept.
    """
    with exclusive(guard):
        place = Path(tempfile.mkdtemp(prefix=INCOMING, dir=root))
        lock = Lock.take(place / LOCK)
    try:
        folder = place / "files"
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if lock is not None:
            lock.release()


def temporary_root() -> Path:
    """Where the folders of :func:`temporary_folder` are; ``LOCK`` in it guards them."""
    return settings.cache_folder() / "temporary"


@contextmanager
def temporary_folder() -> Generator[Path]:
    """An empty folder for text of records, in the cache: after a kill the next start or removal
    deletes it. Raises InputError where it cannot be made."""
    root = temporary_root()
    with ExitStack() as stack:
        with writing(root):
            root.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(incoming(root, root / LOCK))
        yield folder


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
        return undeleted(*(one for one in left if not is_locked(one / LOCK)))
