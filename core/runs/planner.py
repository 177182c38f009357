"""From a spec to a plan: open the cohort, count the work, check where text would go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.arms import ARMS
from midchart.core.egress import EgressCheck, audit, gate_of, read_address
from midchart.core.errors import DataError
from midchart.core.judges import JUDGES
from midchart.core.loaders.check import resolve_position
from midchart.core.loaders.open import content_digest, open_cohort, still_allows
from midchart.core.parsing import user_path
from midchart.core.provenance import versions
from midchart.core.readers import READERS
from midchart.core.registry import Registry
from midchart.core.runs.experiment import EXPERIMENTS, MADE, Experiment
from midchart.core.runs.job import chosen
from midchart.core.runs.plan import ComponentSpec, Plan, Spec
from midchart.core.runs.spec import write_toml
from midchart.core.types import Cohort, Instruction, Manifest

CPU, GPU = "cpu", "gpu"


def wanted(plan: Spec) -> str:
    """``gpu`` for a run that trains or has a component that loads weights, else ``cpu``, as where
    the spec's ``device`` keeps training there."""
    trains = EXPERIMENTS.build(plan.kind).gpu and plan.options.get("device") != CPU
    components: list[tuple[Registry[Any], str]] = [
        *((ARMS, arm.name) for arm in plan.arms),
        *((READERS, entry.name) for entry in (*plan.reader_entries, *plan.readers_of_arms)),
        *((JUDGES, entry.name) for entry in plan.judge_entries),
    ]
    factories = [registry.get(name) for registry, name in components]
    loads = any(getattr(one, "needs", None) or hasattr(one, "mark") for one in factories)
    return GPU if trains or loads or plan.options.get("semantic") else CPU


# Egress check: a run's external endpoints, listed at planning time and again in the worker.


@dataclass(frozen=True, slots=True)
class Destination:
    """An address that a component of a run calls: ``purpose``, the family and the component's name;
    ``calls``: how many items go there at most (None: as its records need); ``encrypted``: over
    https."""

    purpose: str
    host: str
    local: bool
    encrypted: bool
    calls: int | None
    url: str

    def shown(self) -> dict[str, Any]:
        """The destination without its address's path."""
        return {name: value for name, value in asdict(self).items() if name != "url"}


def destinations(what: Spec, instructions: int) -> list[Destination]:
    """Where the text of a run of so many instructions goes, component by component."""
    answers = instructions * len(what.arms)
    verdicts = answers * len(what.readers)
    calls: list[tuple[Any, ComponentSpec, int | None]] = [
        *((READERS, reader, None) for reader in what.readers_of_arms),
        *((READERS, reader, answers) for reader in what.reader_entries),
        *((JUDGES, judge, verdicts * judge.repeats) for judge in what.judge_entries),
    ]
    listed: list[Destination] = []
    for registry, entry, items in calls:
        addresses = getattr(registry.get(entry.name), "addresses", None)
        for url in addresses(**entry.options) if addresses is not None else ():
            to, purpose = read_address(url), f"{registry.family} {entry.name}"
            https = to.scheme == "https"
            listed.append(Destination(purpose, to.host, to.local, https, items, url))
    return listed


def calls_nobody(what: Spec) -> bool:
    """Whether a run is done without a server."""
    readers = (*what.reader_entries, *what.readers_of_arms)
    listens = any(getattr(READERS.get(one.name), "listens", False) for one in readers)
    return not (listens or destinations(what, 0))


def permit(
    listed: Sequence[Destination], cohort: Cohort, hosts: Iterable[str], cluster: str = ""
) -> EgressCheck:
    """The egress gate of a run, once all destinations and the ``cluster`` are permitted; raises
    EgressRefused."""
    leaves = cluster or any(not one.local for one in listed)
    asks = partial(still_allows, cohort, "external_services_allowed")
    gate = gate_of(cohort.manifest, hosts, asks if leaves and cohort.path != MADE else None)
    if cluster:
        gate = gate.join(cluster)
    for destination in listed:
        gate.permit(destination.url)
    return gate


def open_permitted(
    plan: Plan, path: str, cluster: str
) -> tuple[Experiment, Cohort, list[Destination], EgressCheck]:
    """The kind and cohort of a planned run, where its text goes, and its egress gate; raises as
    :func:`permit`."""
    kind = EXPERIMENTS.build(plan.kind)
    cohort = kind.cohort(open_source(path), plan)
    listed = destinations(plan, len(chosen(cohort, plan)))
    return kind, cohort, listed, permit(listed, cohort, plan.allow_hosts, cluster)


def audit_destinations(run: str, cohort: str, listed: Sequence[Destination], records: int) -> None:
    """Write one audit line per component that sends text of so many records off this machine."""
    for one in listed:
        if not one.local:
            where = {"host": one.host, "encrypted": one.encrypted, "purpose": one.purpose}
            audit.note("left", run=run, cohort=cohort, records=records, items=one.calls, **where)


def preflight(what: Spec, egress: EgressCheck) -> None:
    """Query the services of a run's readers for what every item needs; raises InputError."""
    for entry in (*what.readers_of_arms, *what.reader_entries):
        ask = getattr(READERS.get(entry.name), "preflight", None)
        if ask is not None:
            ask(what.protocol, egress, **entry.options)


def open_source(path: str) -> Cohort:
    """The cohort at a path; an empty synthetic one for :data:`midchart.core.runs.experiment.MADE`.
    Raises DataError."""
    if path != MADE:
        return open_cohort(path)
    manifest = Manifest(
        name=MADE, synthetic=True, training_allowed=True, external_services_allowed=True
    )
    return Cohort(MADE, "made", manifest, {})


def digest_of(path: str) -> str:
    """The hash of a cohort's content; generated records depend on seed and code alone."""
    return MADE if path == MADE else content_digest(path)


def find_data(data: str, base: str = "") -> Path:
    """The cohort that a spec means by ``data``: the path as written or in the spec file's folder
    (``base``), a cohort's name, or a path in the data folder. Raises DataError."""
    if data == MADE:
        return Path(MADE)
    path = user_path(data)
    paths = [path]
    if not path.is_absolute():
        if base:
            paths.append(Path(base) / path)
        inside = Path(*path.parts[1:]) if path.parts and path.parts[0] == "data" else path
        paths += [settings.cohorts_folder() / path, settings.data_folder() / inside]
    for one in paths:
        if one.exists():
            return one.resolve()
    raise DataError(data, None, "there is no such cohort", "'data' takes a folder or a record file")


def weights_used(what: Spec) -> dict[str, str]:
    """Label → hash of the weights of every reader with a class method ``mark``, arms' included;
    raises MissingModel."""
    hashes: dict[str, str] = {}
    for entry in (*what.reader_entries, *what.readers_of_arms):
        mark = getattr(READERS.get(entry.name), "mark", None)
        if mark is not None:
            hashes[entry.label] = mark(**entry.options)
    return hashes


def opened(
    spec: Spec,
) -> tuple[str, Spec, dict[str, Any] | None, Cohort, tuple[Instruction, ...]]:
    """The path of a spec's cohort, the spec with its resolved position of evidence, the reason for
    it (None for a kind without evidence), the run's cohort and the instructions that it asks;
    raises DataError where the cohort cannot be opened."""
    path, kind = str(find_data(spec.data, spec.base)), EXPERIMENTS.build(spec.kind)
    source, position = open_source(path), None
    if kind.has_evidence:
        protocol, position = resolve_position(spec.protocol, source)
        spec = replace(spec, protocol=protocol)
    cohort = kind.cohort(source, spec)
    return path, spec, position, cohort, chosen(cohort, spec)


def plan(spec: Spec, cluster: str = "") -> dict[str, Any]:
    """The document ``spec.json`` for a spec, and its TOML (``written``); ``cluster``: whose
    machines are to do its work.

    Raises DataError where the cohort cannot be opened, SpecError where it lacks what the kind
    needs, DataUseError where text would go where it may not, InputError where a reader's server
    does not report what every prompt needs.
    """
    # The run's cohort, questions and items, and where text would be sent.
    path, spec, position, cohort, instructions = opened(spec)
    kind = EXPERIMENTS.build(spec.kind)
    listed = destinations(spec, len(instructions))
    egress = permit(listed, cohort, spec.allow_hosts, cluster)
    items = kind.planned(spec, cohort, instructions)
    if not cluster:  # its machines may reach servers that this one does not
        preflight(spec, egress)
    # The document ``spec.json``.
    return {
        "spec": {
            "name": spec.name,
            "kind": spec.kind,
            "data": spec.data,
            "arms": [asdict(entry) for entry in spec.arms],
            "readers": [asdict(entry) for entry in spec.reader_entries],
            "judges": [asdict(entry) for entry in spec.judge_entries],
            **({"primary_judge": spec.primary_judge} if spec.judge_entries else {}),
            "limit": spec.limit,
            "part": spec.part,
            "options": dict(spec.options),
            "allow_hosts": list(spec.allow_hosts),
            **({"group": spec.group} if spec.group else {}),
        },
        "protocol": spec.protocol.as_dict(),
        "position": position,
        "cohort": {
            "path": path,
            "format": cohort.format,
            "digest": digest_of(path),
            "data_use": asdict(cohort.manifest),
        },
        "versions": versions(),
        "weights": weights_used(spec),
        "instructions": len(instructions),
        "planned": items,
        "found": dict(kind.cohort_facts(cohort)),
        "written": write_toml(spec.written),
    }
