"""A cohort's data-use tag: ``midchart.toml`` in its folder, or safe defaults.

What does not say that it may be used for training or sent off the machine may not be. Loading
never writes into the user's folder; :func:`write_manifest` does, when the user imports a cohort
or changes a tag.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

from core.errors import DataError
from core.loaders.files import read_text, skip_of, write_atomic
from core.types import Manifest, Skip

FILE = "midchart.toml"
MEDALIGN_TERMS = (
    "MedAlign data use agreement: test only, no training; no commercial services without a HIPAA "
    "agreement; no redistribution"
)


def cohort_root(path: Path, inner: frozenset[str] = frozenset()) -> Path:
    """The cohort's folder: ``path``, or the folder of a single file, above ``inner`` folders."""
    folder = path if path.is_dir() else path.parent
    return folder.parent if folder.name in inner else folder


def read_manifest(path: Path, default: Manifest, skipped: list[Skip]) -> Manifest:
    """The tag in folder ``path``, or ``default``; a tag that cannot be read allows nothing."""
    file = path / FILE
    if not file.exists():
        return default
    try:
        table: dict[str, Any] = tomllib.loads(read_text(file, FILE))
    except DataError as error:
        skipped.append(skip_of(error))
        return _closed(default)
    except tomllib.TOMLDecodeError as error:
        skipped.append(Skip(FILE, None, f"is not TOML ({error}) — fix it; until then it allows no"))
        return _closed(default)
    fields = {f.name: f.type for f in dataclasses.fields(Manifest)}
    given: dict[str, Any] = {}
    for name, value in table.items():
        if name not in fields:
            continue  # other tools may keep notes of their own here
        if type(value).__name__ != fields[name]:
            reason = f"field {name} is not a {fields[name]} — fix it; until then it allows no"
            skipped.append(Skip(FILE, None, reason))
            return _closed(default)
        given[name] = value
    return dataclasses.replace(Manifest(default.name), **given)


def _closed(manifest: Manifest) -> Manifest:
    return dataclasses.replace(
        manifest, training_allowed=False, external_services_allowed=False, synthetic=False
    )


def write_manifest(path: str | Path, manifest: Manifest) -> Path:
    """Write the tag into a cohort's folder (atomic); returns the file.

    Raises DataError where it cannot be written.
    """
    file = Path(path) / FILE
    lines = [
        f"{name} = {str(value).lower() if isinstance(value, bool) else json.dumps(value)}\n"
        for name, value in dataclasses.asdict(manifest).items()
    ]
    write_atomic(file, "".join(lines))
    return file
