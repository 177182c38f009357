"""From a spec to a plan: find and open the cohort, count the work, refuse what cannot be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core import settings
from core.errors import DataError
from core.loaders.open import open_cohort
from core.run.kinds import KINDS
from core.run.leaving import destinations, permit
from core.run.provenance import content_digest, versions
from core.run.spec import Spec
from core.types import Cohort, Instruction


def find_data(data: str, base: str = "") -> Path:
    """The cohort a spec means by ``data``.

    Tried in this order: the path as it stands, beside the spec file (``base``), under the data
    folder (with or without a leading ``data/``), and a cohort's name. Raises DataError.
    """
    path = Path(data).expanduser()
    places = [path]
    if not path.is_absolute():
        if base:
            places.append(Path(base) / path)
        inside = Path(*path.parts[1:]) if path.parts and path.parts[0] == "data" else path
        places += [settings.data_folder() / inside, settings.cohorts_folder() / path]
    for place in places:
        if place.exists():
            return place.resolve()
    raise DataError(data, None, "there is no such cohort", "'data' takes a folder or a record file")


def chosen(cohort: Cohort, limit: int | None) -> tuple[Instruction, ...]:
    """The first ``limit`` instructions (None: all), in the cohort's order."""
    return cohort.instructions[:limit]


def by_record(instructions: Sequence[Instruction]) -> dict[str, list[Instruction]]:
    """Instructions grouped by record, so that a record is read and indexed once."""
    groups: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        groups.setdefault(instruction.record_id, []).append(instruction)
    return groups


def plan(spec: Spec) -> dict[str, Any]:
    """The document ``spec.json`` for a spec.

    Raises DataError where the cohort cannot be opened, SpecError where it lacks what the kind of
    run needs, DataUseError where text of its records would go where it may not.
    """
    path = find_data(spec.data, spec.base)
    cohort = open_cohort(str(path))
    instructions = chosen(cohort, spec.limit)
    found = destinations(spec.arms, spec.readers, spec.judges, len(instructions))
    permit(found, cohort.manifest, spec.allow_hosts)
    items = KINDS.build(spec.kind).planned(spec, cohort, instructions)
    return {
        "spec": {
            "name": spec.name,
            "kind": spec.kind,
            "data": spec.data,
            "arms": [asdict(entry) for entry in spec.arms],
            "readers": [asdict(entry) for entry in spec.readers],
            "judges": [asdict(entry) for entry in spec.judges],
            "limit": spec.limit,
            "options": dict(spec.options),
            "allow_hosts": list(spec.allow_hosts),
        },
        "protocol": spec.protocol.as_dict(),
        "cohort": {
            "path": str(path),
            "format": cohort.format,
            "digest": content_digest(path),
            "data_use": _data_use(cohort),
        },
        "versions": versions(),
        "instructions": len(instructions),
        "planned": items,
    }


def _data_use(cohort: Cohort) -> Mapping[str, Any]:
    return asdict(cohort.manifest)
