"""Changing a cohort's data-use tag: with a reason, in the audit file first, then in the manifest.

The line of the field is replaced where it stands, so what people noted in ``midchart.toml`` stays.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

from core.egress import audit
from core.errors import DataError, InputError, UnknownName
from core.loaders.files import read_text, write_atomic
from core.loaders.manifest import FILE, cohort_root, write_manifest
from core.loaders.medalign import RECORD_FOLDERS
from core.loaders.open import open_cohort
from core.types import Manifest

FIELDS = ("external_services_allowed", "training_allowed")


def set_data_use(data: str | Path, field: str, value: bool, reason: str) -> Manifest:
    """Set a field of the tag of the cohort at ``data``; gives the tag as it then is.

    Raises UnknownName for a field that is none of :data:`FIELDS`, InputError without a reason,
    DataError where the manifest cannot be read or written. The reason goes to the audit file.
    """
    if field not in FIELDS:
        raise UnknownName("field of the data-use tag", field, FIELDS)
    path = Path(data)
    manifest = open_cohort(str(path)).manifest
    before = getattr(manifest, field)
    root = _root(path)
    text = _text(root)  # what cannot be mended is told before anything is noted
    audit.tag_changed(cohort=manifest.name, field=field, before=before, after=value, reason=reason)
    if text is None:
        write_manifest(root, dataclasses.replace(manifest, **{field: value}))
    else:
        write_atomic(root / FILE, _with(text, field, value))
    after = open_cohort(str(path)).manifest
    if getattr(after, field) is not value:
        raise InputError(f"{root / FILE} was written but does not apply to {path}; check both")
    return after


def _root(path: Path) -> Path:
    """The folder whose manifest the loader reads for ``path``."""
    return cohort_root(path, frozenset(RECORD_FOLDERS))


def _text(root: Path) -> str | None:
    if not (root / FILE).exists():
        return None
    text = read_text(root / FILE, FILE)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise DataError(
            str(root / FILE), None, "is not TOML", "fix it before you change it"
        ) from None
    return text


def _with(text: str, field: str, value: bool) -> str:
    """The manifest's text with one field set; a field it lacks comes first, before any table."""
    line = f"{field} = {str(value).lower()}"
    table = re.search(r"(?m)^[ \t]*\[", text)
    top, rest = (text[: table.start()], text[table.start() :]) if table else (text, "")
    changed, found = re.subn(rf"(?m)^[ \t]*{field}[ \t]*=[ \t]*(?:true|false)", line, top, count=1)
    return (changed if found else f"{line}\n{top}") + rest
