"""Hidden folders in which something is made until it is complete, or deleted.

What is made is renamed to its name in one step; what is deleted is renamed first. A killed process
leaves a hidden folder whose lock nobody holds, which :func:`sweep` deletes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from midchart.core import config as settings
from midchart.core.errors import InputError
from midchart.core.regular_files import read_regular
from midchart.core.storage.files import writing
from midchart.core.storage.lock import Lock, exclusive, is_locked

INCOMING, OUTGOING = ".incoming-", ".outgoing-"
UNLOCKED = (".new-", ".import-", ".removed-", ".probe-")
"""Beginnings of hidden folders without a lock: of a run that is being made, and of versions before
locks. Those of a killed process are recognised by their age."""
EXPORTED = ".export-"
_EXPORTED = re.compile(re.escape(EXPORTED) + "[0-9a-f]{16}")
_ELSEWHERE = "elsewhere"
_HIDDEN = ".*-*"
_AGE_S = 600.0
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
    in it is renamed to its name there. After a kill the next start deletes it too, as it is
    written down in a temporary folder first. Raises OSError where it cannot be made."""
    with temporary_folder() as notes:
        folder = place / f"{EXPORTED}{secrets.token_hex(8)}"
        (notes / _ELSEWHERE).write_bytes(os.fsencode(folder.absolute()))
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if os.path.lexists(folder):  # it stays written down, so that the next start tries again
                notes.parent.rename(temporary_root() / f"{OUTGOING}{secrets.token_hex(8)}")


def _delete_elsewhere(temporary: Path) -> list[str]:
    """:func:`undeleted` what :func:`folder_at` noted in a temporary folder that was left."""
    note = temporary / "files" / _ELSEWHERE
    if not note.is_file():
        return []
    folder = Path(os.fsdecode(read_regular(note)))
    return undeleted(folder) if _EXPORTED.fullmatch(folder.name) and folder.is_dir() else []


def sweep_temporary() -> list[str]:
    """:func:`sweep` the temporary folders."""
    root = temporary_root()
    try:
        if any(root.glob(_HIDDEN)):
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


def sweep(root: Path, spared: tuple[str, ...] = ()) -> list[str]:
    """Delete the hidden folders in ``root`` that killed processes have left, with what they note
    elsewhere; gives one line for each that cannot be deleted, which stays for the next start.

    The caller holds the guard of :func:`incoming`. ``spared``: beginnings of names that are left.
    """
    try:
        places = list(root.glob(_HIDDEN))
    except OSError as error:
        return [_not_deleted(root, error)]
    problems: list[str] = []
    for place in places:
        try:
            if not place.name.startswith(spared) and _is_left(place):
                problems += _delete_elsewhere(place) or undeleted(place)
        except OSError as error:
            problems.append(_not_deleted(place, error))
    return problems


def _is_left(place: Path) -> bool:
    """Whether it is a hidden folder that a killed process has left; raises OSError."""
    if place.is_symlink() or not place.is_dir():
        return False
    if place.name.startswith(UNLOCKED):
        with suppress(FileNotFoundError):
            return time.time() - place.stat().st_mtime > _AGE_S
    return place.name.startswith(OUTGOING) or (
        place.name.startswith(INCOMING) and not is_locked(place / _LOCK)
    )
