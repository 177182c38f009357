"""Names of files and folders, which specs, plans, labels and exports have in place of their places.

``data/cohorts/NAME``, ``data/logs/NAME``, ``cache/gates/NAME`` and ``cache/calibrations/NAME`` are
of this installation, wherever its folders are; what lies elsewhere is told apart by a hash of its
path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

from midchart.core import config as settings
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
    """The name of an absolute path: of one elsewhere, a hash of it and its last name. Another text
    is as it was written."""
    if not PurePath(path).is_absolute():
        return path
    for name, folder_of in FOLDERS.items():
        for folder in (folder_of(), folder_of().resolve()):
            if folder in PurePath(path).parents:
                return f"{name}/{PurePath(path).relative_to(folder).as_posix()}"
    return f"{ELSEWHERE}/{digest(path)[:8]}/{PurePath(path).name}"


def place_of(written: str | Path) -> Path:
    """The received file, gate or calibration that a name stands for, in the installation's folder
    alone; of another text, the path that a person wrote. Raises InputError for what can be none."""
    path = user_path(written)
    for name in ("data/logs", "cache/gates", "cache/calibrations"):
        if str(written).startswith(f"{name}/"):
            return FOLDERS[name]() / path.relative_to(name)
    return path
