"""The demo cohorts that the program includes (``data/demo``), and who may overwrite a folder.

They were made by the generator of ``midchart.extras.lab`` (one seed, no real person), which also
makes others; ``demos.json`` holds the SHA-256 and the counts of each.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from midchart.core import config as settings
from midchart.core.cohorts.data_use import files_digest, generated, note_generated
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.kept_questions import QUESTIONS_FILE, SETS_FILE
from midchart.core.cohorts.manifest import read_manifest
from midchart.core.errors import DataError, InputError
from midchart.core.parsing import read_json
from midchart.core.types import Manifest

Included = Literal["clinical", "letters", "ehrshot"]
DEMOS: Mapping[Included, str] = {
    "clinical": "demo",
    "letters": "demo-letters",
    "ehrshot": "demo-laboratory",
}
"""Kind of synthetic cohort → the name of the included one."""
TAG = "midchart.toml"


@cache
def _included() -> Mapping[str, Mapping[str, Any]]:
    path = settings.ROOT / "data" / "demo" / "demos.json"
    return read_json(path.read_bytes(), str(path))


def install(kind: Included, out: Path) -> dict[str, Any]:
    """Write the included cohort of a kind into ``out`` and return its counts.

    An included or generated cohort in ``out`` is replaced. Raises InputError where it holds other
    data, DataError where the included file is damaged.
    """
    name = DEMOS[kind]
    path = settings.ROOT / "data" / "demo" / f"{name}.tar.xz"
    packed = path.read_bytes()
    if hashlib.sha256(packed).hexdigest() != _included()[name]["sha256"]:
        raise DataError(str(path), None, "is damaged", "install Midchart again")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = archive.getnames()
        replace_synthetic(out, {file.partition("/")[0] for file in files})
        archive.extractall(out, filter="data")
    note_generated(out, set(files) - {TAG})
    return dict(_included()[name]["counts"])


def replace_synthetic(out: Path, entries: Collection[str]) -> None:
    """Make the folder ``out`` ready for a synthetic cohort of these ``entries``: files of one that
    is there are removed, but for the questions that people keep with it.

    Raises InputError where it is a link, or holds anything but an unchanged synthetic cohort.
    """
    if out.is_symlink():
        raise InputError(f"{out}: is a link — choose a folder")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        out.mkdir(parents=True, exist_ok=True)
        return
    inside = out.iterdir() if out.is_dir() else ()
    names = {path.name for path in inside if not path.name.startswith(".")}
    alone = names and names <= {*entries, QUESTIONS_FILE, SETS_FILE}
    linked = any(path.is_symlink() for path in out.rglob("*"))
    tag = read_manifest(out, Manifest(""), LoadLog()) if alone and not linked else Manifest("")
    if not tag.synthetic or tag.imported or files_digest(out) not in generated():
        raise InputError(
            f"{out}: holds data that is not known as an unchanged synthetic cohort of this program "
            "— remove it, or choose an empty folder"
        )
    for path in out.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (QUESTIONS_FILE, SETS_FILE):
            path.unlink()
