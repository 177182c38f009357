"""FHIR R4 and R4B in JSON or XML: bundles, single resources and the NDJSON of a bulk export.

Every resource is parsed once, to find its patient; then a patient's record is built from its
resources. Every resource is read, or counted and named with the reason why it is
not. Questions come from any ``.tsv`` in the same folder, in MedAlign's column names, ``filename``
being the Patient's id, or the file of a bundle of one patient.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.records import (
    Entry,
    PatientEntries,
    Questions,
    ReadRecords,
    build_record,
    entry,
    in_one_zone,
    read_question_tables,
    tables_in,
)
from midchart.core.documents.payloads import payload_text
from midchart.core.errors import InputError
from midchart.core.fhir.events import READ, ResourceReader
from midchart.core.fhir.files import (
    NAMESPACE,
    SUFFIXES,
    Member,
    MemberPlace,
    Reasons,
    names_type,
    read_members,
)
from midchart.core.fhir.index import (
    BUNDLE,
    DRAWN_ON,
    EXPORT,
    NOT_CLINICAL,
    Entered,
    ResourceIndex,
    Scope,
    why_unread,
)
from midchart.core.fhir.values import Resource, clean, concept, moment, objects
from midchart.core.loaders import LOADERS
from midchart.core.storage.sources import DEEP, Source, name_parts
from midchart.core.types import Cohort, Record, Skip

_TYPE_NAMES = frozenset(kind.lower() for kind in (*READ, *NOT_CLINICAL, "Patient", "Medication"))


def _facts(resource: Resource) -> dict[str, str]:
    facts = {"birthdate": clean(resource.get("birthDate")), "gender": clean(resource.get("gender"))}
    for extension in objects(resource.get("extension")):
        name = clean(extension.get("url")).rpartition("/")[2]
        if name in ("us-core-race", "us-core-ethnicity"):
            texts = (clean(p.get("valueString")) for p in objects(extension.get("extension")))
            facts[name.removeprefix("us-core-")] = next(filter(None, texts), "")
    facts["marital status"] = concept(resource.get("maritalStatus"))[1]
    facts["record"] = "not in active use" if resource.get("active") is False else ""
    return {name: value for name, value in facts.items() if value}


def _death(resource: Resource) -> list[Entry]:
    died = resource.get("deceasedDateTime")
    if not died and resource.get("deceasedBoolean") is not True:
        return []
    return [entry(moment(died), "death", name="Death", text="recorded")]


def _record(
    index: ResourceIndex, name: str, patient: Entered | None, resources: Sequence[Entered]
) -> Record:
    """The record of one patient; warnings name what of its resources was not read."""
    raw: list[Entry] = []
    reasons, problems = Reasons(), Reasons()
    facts: dict[str, str] = {}
    if patient is not None:
        facts, raw = _facts(patient.resource), _death(patient.resource)
    for one in resources:
        reader = ResourceReader(partial(index.find, *one.owner[:2]), payload_text)
        try:
            entries = reader.entries(one.resource, one.place.line)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            reasons.add(*one.place[:2], f"{one.kind} does not follow FHIR R4 — export it again")
            continue
        for problem in reader.problems:
            problems.add(*one.place[:2], f"{one.kind} {problem}")
        if not entries:
            reasons.add(*one.place[:2], f"{one.kind} states nothing that is read")
        raw += entries
    left_out = Counter[str]()
    for (_, reason), count in reasons.counts.items():
        left_out[reason.partition(" — ")[0]] += count
    total = len(resources) + (patient is not None)
    read = total - left_out.total()
    index.log.account(f"record {name}", "resources", total=total, shown=read, reasons=left_out)
    raw.sort(key=lambda one: one[0] is not None)  # what is undated comes first
    entries = in_one_zone(name, raw, index.log)
    for skip in (*reasons.skips(), *problems.skips()):
        index.log.warn(f"{skip.file}:{skip.line}: {skip.reason}")
    source = (patient or resources[0]).place.file
    return build_record(name, entries, facts, source)


@LOADERS.register("fhir")
class Fhir(RecordLoader):
    """A FHIR bundle, a resource, an NDJSON file, or a folder of them."""

    name = "fhir"
    title = "FHIR R4 (bundles and resources in JSON or XML, NDJSON of a bulk export)"
    source = "FHIR R4"

    def accepts(self, place: Source) -> bool:
        """Whether a file names a resourceType, or is FHIR in XML."""
        return any(_is_fhir(file, unread=False) for file in place.entries(DEEP))

    def files(self, place: Source) -> list[Source]:
        """The files that name a resourceType or are FHIR in XML, also those in sub-folders."""
        return list(filter(_is_fhir, place.entries(DEEP)))

    def read(self, place: Source, log: LoadLog) -> tuple[ReadRecords, Questions]:
        """All resources indexed by patient."""
        index = ResourceIndex(log)
        for file in filter(Source.is_file, place.entries(DEEP)):
            if _is_fhir(file):
                with log.reading(file):
                    folder = _folder(index, file)
                    for member, at in read_members(file, index.skipped):
                        index.enter(member, _scope(index, member, at, folder), at)
            elif file.ending in SUFFIXES:
                log.opened.add(file)
                log.warn(f"{file.name}: names no resourceType — the file is not read")
        patients = index.finish()
        for skip in index.skipped.skips():
            log.skip(skip.file, skip.line, skip.reason)
        for skip in index.left_out.skips():
            log.warn(f"{skip.file}:{skip.line}: {skip.reason}")
        unread = Counter[str]()
        for (_, kind), count in index.unread.counts.items():
            unread[kind] += count
        for kind in sorted(unread.keys() - DRAWN_ON.keys()):
            why = why_unread(kind)
            log.warn(f"{unread[kind]:,} {kind} resources are not part of a record — {why}")
        if not patients:
            raise log.nothing_read(place.own_name, "holds no Patient")
        records = ReadRecords(
            patients,
            lambda name: _record(index, name, *patients[name]),
            log,
            _aliases(patients, log),
        )
        return records, read_question_tables(tables_in(place), records, log)


def _is_fhir(file: Source, unread: bool = True) -> bool:
    """Whether a file holds FHIR; ``unread`` of one of its endings that may not be opened."""
    if file.ending == ".xml":
        head = file.start(1 << 16).replace(b"\0", b"") if file.is_file() else b""
        return NAMESPACE.encode() in head and b"ClinicalDocument" not in head
    return file.ending in SUFFIXES and file.is_file() and names_type(file, unread)


def _folder(index: ResourceIndex, file: Source) -> Scope:
    """The scope of the export that a file is part of: its folder, unless that is named after a
    resource type; then the folder around it."""
    parts = file.name.split("/")[:-1]
    scope = index.scope(EXPORT, None, True)
    for depth, part in enumerate(parts, 1):
        name = re.sub(r"[^a-z]", "", part.partition(".")[0].lower())
        if not {name, name.removesuffix("s")} & _TYPE_NAMES:
            scope = index.scope(EXPORT + "/".join(parts[:depth]), scope, True)
    return scope


def _scope(index: ResourceIndex, member: Member, at: MemberPlace, folder: Scope) -> Scope:
    """The scope of a resource: the innermost bundle that holds it, or its folder."""
    scope = folder
    for depth in range(len(member.bundle)):
        numbers = [at.number] * at.by_line + [*member.bundle[1 : depth + 1]]
        number = "#" + ".".join(map(str, numbers)) if numbers else ""
        is_array = depth == 0 and member.bundle[0] == 1
        scope = index.scope(f"{BUNDLE}{at.file}{number}", scope, is_array)
    return scope


def _aliases(
    patients: Mapping[str, tuple[Entered | None, list[Entered]]], log: LoadLog
) -> dict[str, str | None]:
    """Name of a file with one patient, with and without its ending → record."""
    named = PatientEntries(log)
    for name, (patient, resources) in patients.items():
        for file in {one.place.file for one in (patient, *resources) if one}:
            named.name(name, file, name_parts(file)[0])
    return {alias: id for alias, id in named.aliases.items() if alias not in patients}


# Validation against R4B by fhir.resources, an optional package. R4B and R4 agree on the clinical
# resources. Reading a cohort does not need this: what follows FHIR in each resource is read.

INSTALL = "pip install -r docs/optional/fhir.txt"
_PROBLEMS = {"missing": "is missing", "extra_forbidden": "has an element that R4B does not define"}


def can_validate() -> bool:
    """Whether fhir.resources is installed."""
    return importlib.util.find_spec("fhir") is not None


def _invalid(resource: Any) -> list[str]:
    """Each element that is not valid and why, without its value."""
    from fhir.resources.R4B import get_fhir_model_class

    kind = resource.get("resourceType") if isinstance(resource, dict) else None
    try:
        model = get_fhir_model_class(str(kind))
    except ValueError:
        return ["names a resourceType that R4B does not define"]
    try:
        model.model_validate(resource)
    except ValidationError as error:
        return [_reason(str(kind), e["loc"], e["type"]) for e in error.errors(include_input=False)]
    except (KeyError, TypeError):  # its own code fails where a nested resourceType is none
        return [f"{kind} cannot be validated — fhir.resources fails on it"]
    return []


def _reason(kind: str, place: tuple[int | str, ...], problem: str) -> str:
    names = [name for name in place if isinstance(name, str)]
    if problem == "extra_forbidden":
        names.pop()  # it comes from the file
    reason = _PROBLEMS.get(problem, "has a value that does not follow R4B")
    return f"{'.'.join([kind, *names])} {reason}"


def invalid_resources(cohort: Cohort) -> list[Skip]:
    """What does not follow FHIR R4B: one line a file and reason, with the number of resources.

    Raises InputError where the cohort is not in FHIR or fhir.resources is not installed.
    """
    if cohort.format != "fhir":
        raise InputError(f"validate: {cohort.manifest.name} is not in FHIR — leave it out")
    if not can_validate():
        raise InputError(f"validate: fhir.resources is not installed — {INSTALL}")
    log, reasons = LoadLog(), Reasons()
    for file in Fhir().files(Source.at(cohort.path)):
        with log.skipping():
            for member, at in read_members(file, reasons):
                if member.resource is not None or not member.deleted:
                    for reason in sorted({*_invalid(member.resource)}):
                        reasons.add(*at[:2], reason)
    return [skip for skip in reasons.skips() if skip not in cohort.skipped]
