"""Names of files and folders in specs, plans, labels and exports, which hold no absolute path.

``data/cohorts/NAME``, ``data/logs/NAME``, ``cache/gates/NAME`` and ``cache/calibrations/NAME`` are
relative to the folders that the installation's settings name (:mod:`midchart.core.config`). Any
other absolute path is written ``elsewhere/HASH/NAME``, with a hash of the path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

from midchart.core import config as settings
from midchart.core.identity import by_name_alone
from midchart.core.parsing import user_path
from midchart.core.provenance import digest

ELSEWHERE = "elsewhere"
FOLDERS: Mapping[str, Callable[[], Path]] = {
    "data/cohorts": settings.cohorts_folder,
    "data/logs": settings.received_folder,
    "cache/gates": settings.gates_folder,
    "cache/calibrations": settings.calibrations_folder,
}


def name_of(path: str) -> str:
    """The name of an absolute path (see the module); any other text unchanged."""
    if not PurePath(path).is_absolute():
        return path
    for name, folder_of in FOLDERS.items():
        for folder in (folder_of(), folder_of().resolve()):
            if folder in PurePath(path).parents:
                return f"{name}/{PurePath(path).relative_to(folder).as_posix()}"
    return f"{ELSEWHERE}/{digest(path)[:8]}/{PurePath(path).name}"


def shown_path(path: Path) -> str:
    """A path of this machine as results give it to who acts: people who sign in read a name."""
    if not by_name_alone():
        return str(path)
    folders = settings.data_folder(), settings.cache_folder(), settings.models_folder()
    for name, folder in zip(("data", "cache", "models"), folders, strict=True):
        if path.is_relative_to(folder):
            return (PurePath(name) / path.relative_to(folder)).as_posix()
    return name_of(str(path))


def place_of(written: str | Path) -> Path:
    """The path of a received file, gate or calibration given by its name; any other text is a path.

    A name is looked up in the installation's folder, never in the current one. Raises InputError
    for a text that cannot be a path.
    """
    path = user_path(written)
    for name in ("data/logs", "cache/gates", "cache/calibrations"):
        if str(written).startswith(f"{name}/"):
            return FOLDERS[name]() / path.relative_to(name)
    return path
