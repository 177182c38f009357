"""From a spec to a plan: find and open the cohort, count the work, refuse what cannot be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from core import settings
from core.errors import DataError
from core.loaders.position import resolve_position
from core.run.gating.training import split_of
from core.run.job import Job
from core.run.kind import KINDS, MADE
from core.run.leaving import destinations, permit
from core.run.opening import digest_of, opened
from core.run.plan import Plan, Spec
from core.run.preflight import preflight
from core.run.provenance import versions, weights_used
from core.types import Cohort, Instruction


def find_data(data: str, base: str = "") -> Path:
    """The cohort a spec means by ``data``.

    Tried in this order: the path as it stands, beside the spec file (``base``), under the data
    folder (with or without a leading ``data/``), and a cohort's name. Raises DataError.
    """
    if data == MADE:
        return Path(MADE)
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


def chosen(cohort: Cohort, what: Spec | Plan) -> tuple[Instruction, ...]:
    """The instructions a spec or plan asks, in the cohort's order.

    Those of the patients of its ``part`` (all where it names none), the first ``limit`` of them.
    The parts are those of the split that gates are trained by. Raises InputError for a part of a
    cohort too small to be split.
    """
    asked = cohort.instructions
    if what.part:
        patients = getattr(split_of(cohort, what.protocol), what.part)
        asked = tuple(i for i in asked if i.record_id in patients)
    return asked[: what.limit]


def by_record(instructions: Sequence[Instruction]) -> dict[str, list[Instruction]]:
    """Instructions grouped by record, so that a record is read and indexed once."""
    groups: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        groups.setdefault(instruction.record_id, []).append(instruction)
    return groups


def own_records(job: Job) -> dict[str, list[Instruction]]:
    """The instructions that a job's pass asks, by record."""
    asked = by_record(chosen(job.cohort, job.plan))
    return {record: those for record, those in asked.items() if job.mine(record)}


def positioned(spec: Spec, cohort: Cohort) -> tuple[Spec, dict[str, Any] | None]:
    """A spec with the position of evidence that its tables go by, and why it is that one
    (:func:`core.loaders.position.resolve_position`); None for a kind without evidence."""
    if not KINDS.build(spec.kind).has_evidence:
        return spec, None
    protocol, why = resolve_position(spec.protocol, cohort)
    return replace(spec, protocol=protocol), why


def plan(spec: Spec, cluster: str = "") -> dict[str, Any]:
    """The document ``spec.json`` for a spec; ``cluster``: whose machines are to do its work.

    Raises DataError where the cohort cannot be opened, SpecError where it lacks what the kind of
    run needs, DataUseError where text of its records would go where it may not, InputError where a
    server that a reader calls does not say what every prompt needs (:mod:`core.run.preflight`).
    """
    path = find_data(spec.data, spec.base)
    kind = KINDS.build(spec.kind)
    source = opened(str(path))
    spec, position = positioned(spec, source)
    cohort = kind.cohort(source, spec)
    instructions = chosen(cohort, spec)
    found = destinations(spec.arms, spec.readers, spec.judges, len(instructions))
    egress = permit(found, cohort.manifest, spec.allow_hosts, cluster)
    items = kind.planned(spec, cohort, instructions)
    if not cluster:  # its machines may reach servers that this one does not
        preflight(spec.arms, spec.readers, spec.protocol, egress)
    return {
        "spec": {
            "name": spec.name,
            "kind": spec.kind,
            "data": spec.data,
            "arms": [asdict(entry) for entry in spec.arms],
            "readers": [asdict(entry) for entry in spec.readers],
            "judges": [asdict(entry) for entry in spec.judges],
            "limit": spec.limit,
            "part": spec.part,
            "options": dict(spec.options),
            "allow_hosts": list(spec.allow_hosts),
        },
        "protocol": spec.protocol.as_dict(),
        "position": position,
        "cohort": {
            "path": str(path),
            "format": cohort.format,
            "digest": digest_of(str(path)),
            "data_use": _data_use(cohort),
        },
        "versions": versions(),
        "weights": weights_used(spec.arms, spec.readers),
        "instructions": len(instructions),
        "planned": items,
        "found": dict(kind.found(cohort)),
    }


def _data_use(cohort: Cohort) -> Mapping[str, Any]:
    return asdict(cohort.manifest)
