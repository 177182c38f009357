"""A cohort's data-use tag: ``midchart.toml`` in its folder, or safe defaults.

Training and external services are allowed only where the tag says so and a person confirmed it
(:mod:`midchart.core.cohorts.data_use`). Loading never writes into
the user's folder; :func:`write_manifest` does, when a cohort is imported or its tag changed.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from midchart.core import config as settings
from midchart.core.cohorts.columns import SETTINGS
from midchart.core.cohorts.data_use import refused
from midchart.core.cohorts.files import LoadLog
from midchart.core.errors import DataError
from midchart.core.parsing import read_toml, toml_string
from midchart.core.storage.files import write_text
from midchart.core.storage.sources import Source
from midchart.core.types import Manifest

FILE = "midchart.toml"
FIELDS = ("external_services_allowed", "training_allowed")
"""What a tag permits; each change is audited."""


def read_manifest(path: Path, default: Manifest, log: LoadLog) -> Manifest:
    """The tag in folder ``path``, or ``default``; a tag that cannot be read allows nothing.

    A permission that nobody confirmed for these files (:mod:`midchart.core.cohorts.data_use`) is
    no.
    """
    manifest = _stated(path, default, log)
    doubted = unconfirmed(path, default)
    data = path.name if path.parent == settings.cohorts_folder() else str(path)
    for name, why in doubted.items():
        log.warn(
            f"{FILE} sets {name} = true, but {why}: treated as false until a person confirms it "
            f"with a reason (page Data, or midchart data-use {shlex.quote(data)} {name} yes "
            "--reason TEXT)"
        )
    return dataclasses.replace(manifest, **dict.fromkeys(doubted, False))


def column_settings(path: Path, log: LoadLog) -> dict[str, str]:
    """The table ``columns`` of the tag in folder ``path``: how columns of tables are read.

    "table.column" in lower case → one of :data:`midchart.core.cohorts.columns.SETTINGS`; another
    value is skipped by name.
    """
    file = path / FILE
    try:
        table = read_toml(Source.at(file).text(), FILE).get("columns", {}) if file.exists() else {}
    except DataError:
        return {}  # read_manifest names it
    settings: dict[str, str] = {}
    for column, setting in table.items() if isinstance(table, dict) else ():
        if setting in SETTINGS:
            settings[column.lower()] = setting
        else:
            reason = f"sets the column {column} to none of: {', '.join(SETTINGS)}"
            log.skip(FILE, None, f"{reason} — choose one")
    return settings


def write_column_settings(path: Path, columns: Mapping[str, str]) -> None:
    """Replace the table ``columns`` of the tag in folder ``path``; the rest of the file stays.

    Raises DataError where it cannot be read or written.
    """
    file = path / FILE
    text = Source.at(file).text() if file.exists() else ""
    others = re.sub(r"(?ms)^\[columns\]\n.*?(?=^\[|\Z)", "", text)
    lines = (f"{toml_string(column)} = {toml_string(value)}\n" for column, value in columns.items())
    write_text(file, others + ("\n" if others else "") + "[columns]\n" + "".join(lines))


def unconfirmed(path: Path, default: Manifest) -> dict[str, str]:
    """The permissions that the tag in folder ``path`` states and nobody confirmed, and why they do
    not count."""
    manifest = _stated(path, default, LoadLog())
    set_ones = [name for name in FIELDS if getattr(manifest, name)]
    return refused(path, set_ones) if set_ones else {}


def _stated(path: Path, default: Manifest, log: LoadLog) -> Manifest:
    """The tag as the file in folder ``path`` states it."""
    file = path / FILE
    if not file.exists():
        return default
    restricted = dataclasses.replace(
        default, training_allowed=False, external_services_allowed=False, synthetic=False
    )
    try:
        table = read_toml(Source.at(file).text(), FILE)
    except DataError as error:
        log.skip(FILE, None, f"{error.reason} — {error.remedy}; until then it allows nothing")
        return restricted
    types = {f.name: f.type for f in dataclasses.fields(Manifest)}
    values = {name: value for name, value in table.items() if name in types}
    for name, value in values.items():  # other fields may be notes of other tools
        if type(value).__name__ != types[name]:
            reason = f"field {name} is not a {types[name]} — fix it; until then it allows no"
            log.skip(FILE, None, reason)
            return restricted
    return dataclasses.replace(Manifest(default.name) if values else restricted, **values)


def write_manifest(path: str | Path, manifest: Manifest) -> Path:
    """Write the tag into a cohort's folder (atomically) and return the file.

    Raises DataError where it cannot be written.
    """
    file = Path(path) / FILE
    lines = [
        f"{name} = {str(value).lower() if isinstance(value, bool) else toml_string(value)}\n"
        for name, value in dataclasses.asdict(manifest).items()
        if name != "imported" or value
    ]
    write_text(file, "".join(lines))
    return file
