"""FHIR R4 and R4B: bundles, single resources and the NDJSON of a bulk export.

Opening a cohort reads every resource once to find its patient; a patient's record is built from
its resources on access. Every resource is read, or counted and named with the reason why it is
not. Questions come from any ``.tsv`` in the same folder, in MedAlign's column names, ``filename``
being the Patient's id.
"""

from __future__ import annotations

import importlib.util
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import ValidationError

from core.errors import DataError, InputError
from core.loaders import LOADERS
from core.loaders.base import RecordLoader
from core.loaders.fhir_events import (
    READ,
    Resource,
    ResourceReader,
    clean,
    concept,
    moment,
    objects,
    reference,
)
from core.loaders.files import LARGEST_TABLE, LoadLog, check_file, data_error, shown
from core.loaders.records import (
    Entry,
    LazyRecords,
    Questions,
    build_record,
    entry,
    read_question_tables,
    tables_in,
)
from core.parsing import read_json
from core.types import Cohort, Record, Skip

Index = TypeVar("Index", bound="ResourceIndex")
LARGEST_BUNDLE = 512 << 20
"""Bytes of the largest JSON file that is read; NDJSON files may be of any size."""
LONGEST_LINE = 256 << 20
"""Bytes of the longest NDJSON line that is read."""
_SUFFIXES = {".json", ".ndjson", ".jsonl"}
_TYPED = re.compile(r"(?:^|/)([A-Z][A-Za-z]+)/([^/?#|]+)(?:/_history/[^/]+)?$")
_NOT_CLINICAL = {
    "Claim": "billing", "ClaimResponse": "billing", "ExplanationOfBenefit": "billing",
    "Coverage": "billing", "Account": "billing", "Invoice": "billing",
    "Organization": "administration", "Practitioner": "administration",
    "PractitionerRole": "administration", "Location": "administration",
    "HealthcareService": "administration", "Endpoint": "administration",
    "RelatedPerson": "administration", "Group": "administration", "CareTeam": "administration",
    "Schedule": "administration", "Slot": "administration", "Appointment": "administration",
    "Provenance": "origin of other resources", "AuditEvent": "origin of other resources",
    "OperationOutcome": "message of the server", "Parameters": "message of the server",
}  # fmt: skip
_DRAWN_ON = frozenset(("Patient", "Medication", "Binary"))
"""Types that make no entry and that records draw on."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file with its name in messages and the state it was indexed in."""

    path: Path
    name: str
    by_line: bool
    state: tuple[int, int]

    def check(self) -> None:
        """Raise DataError where the file is not as it was indexed."""
        if _state(self.path, self.name) != self.state:
            raise DataError(self.name, None, "changed since it was opened", "open the cohort again")


def _state(path: Path, name: str) -> tuple[int, int]:
    try:
        stat = check_file(path, LARGEST_TABLE)
    except OSError as error:
        raise data_error(error, name) from None
    return stat.st_size, stat.st_mtime_ns


@dataclass
class _Reasons:
    """Why resources were not read: one line a file and reason, with the number and the first."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    first: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def add(self, file: str, line: int, reason: str) -> None:
        """Count one resource."""
        self.counts[file, reason] += 1
        self.first.setdefault((file, reason), line)

    def skips(self) -> Iterator[Skip]:
        """One Skip each, at the first resource concerned."""
        for (file, reason), count in self.counts.items():
            more = f" ({count:,} resources, the first is here)" if count > 1 else ""
            yield Skip(file, self.first[file, reason], reason + more)


@dataclass
class ResourceIndex:
    """Whose each resource is.

    ``owned``: reference as written → flat array of (file, line or entry, byte offset, length) of
    the resources that name it. ``targets``: full URL or ``Type?identifier=…`` → ``Type/id``.
    ``names``: ``Medication/id`` → text. ``stored``: ``Binary/id`` → place.
    """

    files: list[_File] = field(default_factory=list[_File])
    owned: dict[str, array[int]] = field(default_factory=dict[str, "array[int]"])
    patients: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    targets: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    stored: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    seen: set[str] = field(default_factory=set[str])
    unread: Counter[str] = field(default_factory=Counter[str])
    reasons: _Reasons = field(default_factory=_Reasons)

    def enter(self, resource: Any, url: str, place: tuple[int, ...]) -> None:
        """Enter one resource; one that cannot be used is counted with its reason."""
        file, line = self.files[place[0]].name, place[1]
        if not isinstance(resource, dict) or not isinstance(resource.get("resourceType"), str):
            self.reasons.add(file, line, "is not a FHIR resource — it names no resourceType")
            return
        kind, id = resource["resourceType"], clean(resource.get("id"))
        name = f"{kind}/{id}"
        if url:
            self.targets[url] = name
        if kind not in READ and kind not in _DRAWN_ON:
            self.unread[kind] += 1
            return
        if id and name in self.seen:
            reason = f"{kind} with an id that is there already — the first one is read"
            self.reasons.add(file, line, reason)
            return
        if id:
            self.seen.add(name)
        if kind == "Patient":
            self._enter_patient(resource, id or url, place)
        elif kind == "Medication":
            self.names[name] = concept(resource.get("code"))[1]
        elif kind == "Binary":
            self.stored[name] = place
        else:
            owner = reference(resource.get("subject") or resource.get("patient"))
            if owner:
                self.owned.setdefault(owner, array("q")).extend(place)
            else:
                self.reasons.add(file, line, f"{kind} names no patient — fill in its subject")

    def _enter_patient(self, resource: Resource, id: str, place: tuple[int, ...]) -> None:
        if not id:
            reason = "Patient has no id — give it one"
            self.reasons.add(self.files[place[0]].name, place[1], reason)
            return
        self.patients[id] = place
        for identifier in objects(resource.get("identifier")):
            if clean(identifier.get("value")):
                system, value = clean(identifier.get("system")), clean(identifier["value"])
                self.targets[f"Patient?identifier={system}|{value}"] = f"Patient/{id}"
                self.targets.setdefault(f"Patient?identifier=|{value}", f"Patient/{id}")

    def resolve(self, link: str) -> str:
        """``Type/id`` of a reference as written, or "" where it is not known."""
        if link in self.targets:
            return self.targets[link]
        bare = link.partition("#")[0]
        if "?identifier=" in bare:
            value = bare.rpartition("|")[2].rpartition("=")[2]
            return "" if "|" in bare else self.targets.get(f"Patient?identifier=|{value}", "")
        typed = _TYPED.search(bare)
        return f"{typed[1]}/{typed[2]}" if typed else ""

    def display(self, link: str) -> str:
        """The text of the Medication that a reference names, or ""."""
        return self.names.get(self.resolve(link), "")

    def read(self, place: tuple[int, ...]) -> Resource:
        """The resource at a place; raises DataError where the file changed."""
        file = self.files[place[0]]
        file.check()
        try:
            if not file.by_line:
                return _bundle_entries(file)[place[1] - 1][1]
            with file.path.open("rb") as opened:
                opened.seek(place[2])
                return read_json(opened.read(place[3]), file.name)
        except OSError as error:
            raise data_error(error, file.name) from None
        except (DataError, IndexError):
            reason = "changed while it was read"
            raise DataError(file.name, place[1], reason, "open the cohort again") from None

    def binary(self, link: str) -> Resource | None:
        """The Binary that an attachment's URL names."""
        place = self.stored.get(self.resolve(link))
        return None if place is None else self.read(place)


@lru_cache(maxsize=2)
def _bundle_entries(file: _File) -> list[tuple[str, Any]]:
    """Full URL and resource of each entry of a JSON file; raises DataError.

    A file of one resource is a bundle of one.
    """
    if file.state[0] > LARGEST_BUNDLE:
        limit = f"{LARGEST_BUNDLE >> 20:,} MB"
        reason = f"is a JSON file of more than {limit}"
        raise DataError(file.name, None, reason, "export it as NDJSON")
    try:
        held: Any = read_json(file.path.read_bytes(), file.name)
    except OSError as error:
        raise data_error(error, file.name) from None
    if not isinstance(held, dict) or held.get("resourceType") != "Bundle":
        return [("", held)]
    entries = held.get("entry") or []
    if not isinstance(entries, list):
        raise DataError(file.name, None, "has entries that are not a list", "export it again")
    return [
        (clean(e.get("fullUrl")), e.get("resource")) if isinstance(e, dict) else ("", None)
        for e in entries
    ]


def _index_lines(index: ResourceIndex, number: int, opened: BinaryIO) -> None:
    file, offset, line = index.files[number], 0, 0
    while content := opened.readline(LONGEST_LINE):
        line += 1
        length = len(content)
        if length >= LONGEST_LINE and not content.endswith(b"\n"):
            reason = f"is a line of more than {LONGEST_LINE >> 20} MB — split the resource"
            index.reasons.add(file.name, line, reason)
            while content and not content.endswith(b"\n"):
                content = opened.readline(LONGEST_LINE)
                length += len(content)
        elif content.strip():
            try:
                resource = read_json(content, file.name, line, "one resource a line")
            except DataError as error:
                index.reasons.add(file.name, line, f"{error.reason} — {error.remedy}")
            else:
                index.enter(resource, "", (number, line, offset, length))
        offset += length


def index_resources(files: Sequence[Path], root: Path, log: LoadLog, index: Index) -> Index:
    """Enter every resource of FHIR files into ``index``."""
    for path in files:
        name = shown(path, root)
        with log.skipping(name):
            file = _File(path, name, path.suffix.lower() != ".json", _state(path, name))
            index.files.append(file)
            number = len(index.files) - 1
            if file.by_line:
                with path.open("rb") as opened:
                    _index_lines(index, number, opened)
            else:
                for position, (url, resource) in enumerate(_bundle_entries(file), 1):
                    index.enter(resource, url, (number, position, 0, 0))
            file.check()
    _bundle_entries.cache_clear()
    return index


def _facts(resource: Resource) -> dict[str, str]:
    facts = {"birthdate": clean(resource.get("birthDate")), "gender": clean(resource.get("gender"))}
    for extension in objects(resource.get("extension")):
        name = clean(extension.get("url")).rpartition("/")[2]
        if name in ("us-core-race", "us-core-ethnicity"):
            texts = (clean(p.get("valueString")) for p in objects(extension.get("extension")))
            facts[name.removeprefix("us-core-")] = next(filter(None, texts), "")
    facts["marital status"] = concept(resource.get("maritalStatus"))[1]
    return {name: value for name, value in facts.items() if value}


def _death(resource: Resource) -> list[Entry]:
    died = resource.get("deceasedDateTime")
    if not died and resource.get("deceasedBoolean") is not True:
        return []
    return [entry(moment(died), "death", name="Death", text="recorded")]


def _record(index: ResourceIndex, id: str, places: array[int]) -> tuple[Record, list[str]]:
    """The record of one patient; the warnings name what of its resources was not read."""
    reader = ResourceReader(index.display, index.binary)
    raw: list[Entry] = []
    reasons = _Reasons()
    facts: dict[str, str] = {}
    source = ""
    if id in index.patients:
        resource = index.read(index.patients[id])
        facts, source = _facts(resource), index.files[index.patients[id][0]].name
        raw += _death(resource)
    for at in range(0, len(places), 4):
        place = tuple(places[at : at + 4])
        file = index.files[place[0]].name
        resource = index.read(place)
        kind = resource["resourceType"]
        try:
            entries = reader.entries(resource)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            reasons.add(file, place[1], f"{kind} does not follow FHIR R4 — export it again")
            continue
        for problem in reader.problems:
            reasons.add(file, place[1], f"{kind} {problem}")
        if not entries and not reader.problems:
            reasons.add(file, place[1], f"{kind} states nothing that is read")
        reader.problems.clear()
        line = place[1] if index.files[place[0]].by_line else None
        raw += [(*one[:8], line, one[9]) for one in entries]
        source = source or file
    raw.sort(key=lambda one: one[0] is not None)  # what is undated comes first
    warnings = [f"{s.file}:{s.line}: {s.reason}" for s in reasons.skips()]
    return build_record(id, raw, facts, source), warnings


@LOADERS.register("fhir")
class Fhir(RecordLoader):
    """A FHIR bundle, a resource, an NDJSON file, or a folder of them."""

    name = "fhir"
    title = "FHIR R4 (bundles, resources, NDJSON of a bulk export)"
    source = "FHIR R4"
    marks = (b'"resourceType"',)

    def files(self, place: Path) -> list[Path]:
        """The files that name a resourceType, also those in sub-folders."""
        return [path for path in _json_files(place) if self.has_marks(path)]

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        """All resources indexed by patient."""
        files = self.files(place)
        log.opened.update(_json_files(place))
        index = index_resources(files, root, log, ResourceIndex())
        owned = _by_patient(index, log)
        for skip in index.reasons.skips():
            log.skip(skip.file, skip.line, skip.reason)
        for kind, count in sorted(index.unread.items()):
            why = _NOT_CLINICAL.get(kind, "a type that this version does not read")
            log.warn(f"{count:,} {kind} resources are not part of a record — {why}")
        for path in sorted({*_json_files(place)} - {*files}):
            log.warn(f"{shown(path, root)}: names no resourceType — the file is not read")
        if not owned:
            raise log.nothing_read(place.name, "holds no Patient")
        readers = {id: partial(_record, index, id, places) for id, places in owned.items()}
        records = LazyRecords(readers, log)
        return records, read_question_tables(tables_in(place), records, log)


def _by_patient(index: ResourceIndex, log: LoadLog) -> Mapping[str, array[int]]:
    """Patient id → places of its resources; what names nobody goes to the index's reasons."""
    owned = {id: array("q") for id in index.patients}
    known = len(owned)
    for link, places in index.owned.items():
        kind, _, id = index.resolve(link).partition("/")
        if kind == "Patient" and id:
            owned.setdefault(id, array("q")).extend(places)
            continue
        for at in range(0, len(places), 4):
            file = index.files[places[at]].name
            reason = "names a patient who cannot be identified from these files — add the Patient"
            index.reasons.add(file, places[at + 1], reason)
    if len(owned) > known:
        log.warn(
            f"{len(owned) - known} patients are only named in references — their records have no "
            "demographics; add their Patient resources"
        )
    return owned


def _json_files(place: Path) -> list[Path]:
    """A file, or the files of a folder and of its sub-folders, that may hold resources."""
    inside = [place] if place.is_file() else sorted(place.rglob("*"))
    return [path for path in inside if path.suffix.lower() in _SUFFIXES and path.is_file()]


# Validation against R4B by fhir.resources, an optional package. R4B and R4 agree on the clinical
# resources. Reading a cohort does not need this: what follows FHIR in each resource is read.

INSTALL = "pip install -r docs/optional/fhir.txt"
_PROBLEMS = {"missing": "is missing", "extra_forbidden": "has an element that R4B does not define"}


def can_validate() -> bool:
    """Whether fhir.resources is installed."""
    return importlib.util.find_spec("fhir") is not None


@dataclass
class _Validation(ResourceIndex):
    """An index that keeps the reasons why resources are not valid, and nothing else."""

    def enter(self, resource: Any, url: str, place: tuple[int, ...]) -> None:
        """Validate one resource."""
        file = self.files[place[0]].name
        for reason in set(_invalid(resource)):
            self.reasons.add(file, place[1], reason)


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
    place = Path(cohort.path)
    files, root = Fhir().files(place), Fhir().root(place)
    validation = index_resources(files, root, LoadLog(), _Validation())
    return [skip for skip in validation.reasons.skips() if skip not in cohort.skipped]
