"""The runs of a replication of the paper on a cohort, as page Replication and the command line
start them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core import config as settings
from core.errors import UnknownName
from core.experiments.replication.comparison import readers_of, replication
from core.experiments.replication.steps import ARMS, step_specs
from core.runs.process import enqueue
from core.runs.spec import DEMO, read_toml
from core.services.cohorts import open_data
from core.services.components import members, only_quotes

FIELDS = ("reader", "judges", "arms", "allow_hosts", "part")


def replication_specs(
    data: str | Path, reader: str, changes: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """The spec of every step and every fault alone, by its name.

    ``reader``: a name, or the label of a reader of an earlier run. With the installed arms of the
    paper and the judges of the demo, unless ``changes`` has ``reader``, ``judges``, ``arms``,
    ``allow_hosts`` or ``part`` as a spec does. Arms that use a reader are included where the
    reader writes. Raises UnknownName for another field or an unknown reader.
    """
    path = open_data(data).path
    unknown = sorted((changes or {}).keys() - set(FIELDS))
    if unknown:
        raise UnknownName("field of a replication", unknown[0], FIELDS)
    fields: dict[str, Any] = {
        "reader": readers_of(path).get(reader, reader),
        "allow_hosts": [],
        "part": "",
    }
    fields |= changes or {}
    if "judges" not in fields:
        preset = settings.ROOT / "docs" / f"{DEMO}.toml"
        fields["judges"] = read_toml(preset.read_text(encoding="utf-8"))["judges"]
    if "arms" not in fields:
        writes = not only_quotes(_name(fields["reader"]))
        fit = {c.name for c in members("arm") if c.installed and (writes or not c.problem)}
        fields["arms"] = [arm for arm in ARMS if _name(arm) in fit]
    return step_specs(
        path, *(fields[name] for name in ("arms", "reader", "judges", "allow_hosts", "part"))
    )


def replicate(data: str | Path, reader: str, changes: Mapping[str, Any] | None = None) -> list[str]:
    """Queue the runs of a replication that this installation has not made on the cohort, or with
    ``changes`` all of them; gives their ids. Imported and included runs do not count as made.

    Raises as :func:`replication_specs` and :func:`core.runs.process.enqueue` do.
    """
    specs = replication_specs(data, reader, changes)
    first = next(iter(specs.values()))
    rows = replication(first["data"], reader, first["arms"], first["judges"])
    present = {
        row["name"]
        for row in (*rows["steps"], *rows["alone"])
        if row["run"] is not None and not row["imported"]
    }
    return [enqueue(spec) for name, spec in specs.items() if changes or name not in present]


def _name(entry: str | Mapping[str, Any]) -> str:
    return entry if isinstance(entry, str) else str(entry["name"])
