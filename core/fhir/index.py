"""Whose each FHIR resource is: keys by authority, references, versions, and what is left out.

A resource's authority is the server of its full URL, else the bundle (or array) that holds it,
else the export: a folder of NDJSON and single resources. ``urn:uuid`` URLs are unique by
themselves. References resolve inside their bundle and those around it first, then by full URL and
identifier, then in the export (HL7 FHIR R4, 2.36.4).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.identity import Demographics, Key, People, record_names
from midchart.core.cohorts.status import Status
from midchart.core.fhir.events import READ, contains_read, subject_of
from midchart.core.fhir.files import Member, MemberPlace, Reasons
from midchart.core.fhir.status import status_of, unknown_modifier
from midchart.core.fhir.values import (
    Resource,
    clean,
    codes,
    first_object,
    moment,
    objects,
    person_name,
    reference,
)
from midchart.core.storage.sources import name_parts

NOT_CLINICAL = {
    kind: why
    for why, kinds in {
        "billing": "Claim ClaimResponse ExplanationOfBenefit Coverage Account Invoice ChargeItem "
        "CoverageEligibilityRequest CoverageEligibilityResponse PaymentNotice "
        "PaymentReconciliation",
        "administration": "Organization Practitioner PractitionerRole Location HealthcareService "
        "Endpoint RelatedPerson Group CareTeam Schedule Slot Task Person",
        "origin of other resources": "Provenance AuditEvent",
        "message of the server": "OperationOutcome Parameters Subscription MessageHeader",
    }.items()
    for kind in kinds.split()
}
DRAWN_ON = {
    "Medication": "named by the resources that refer to it",
    "Binary": "shown by the documents that refer to it",
    "Substance": "named by the medicines that contain it",
    "Questionnaire": "names the items of its responses",
}
"""Types that make no entry and that records draw on."""
_DOCUMENTS = frozenset(("DocumentReference", "Composition"))
_REFERRED = _DOCUMENTS | {"Patient", "Practitioner", *DRAWN_ON}
"""Types that references are resolved to."""
_IDENTIFIED = _DOCUMENTS | {"Patient", "Practitioner"}
"""Those that may be named by an identifier alone."""
_TYPED = re.compile(r"(?:^|/)([A-Z][A-Za-z]+)/([^/?#|]+)(?:/_history/[^/]+)?$")
_SERVED = ("http://", "https://")
_UNIQUE = ("urn:uuid:", "urn:oid:", *_SERVED)
"""How a URL begins that means one resource wherever it is written."""
_NEAR = "near "
"""In place of a scope, with an export's authority: numbers of its folder, arrays and files."""
_UNSURE = "names a patient who cannot be identified from these files — add the Patient"
_OTHER_PERSON = (
    "belongs to a patient number under which these files have two people — give each person a "
    "number, or put the files into cohorts of their own"
)


@dataclass(eq=False, slots=True)
class Scope:
    """A bundle, an array or the folder of an export: where a relative reference means one resource.

    ``loose``: whether its resources may belong to a patient of another file. ``servers``: those of
    its references to patients, "" for a relative one. ``has_patient``: whether it holds a Patient.
    """

    authority: str
    around: Scope | None
    loose: bool
    servers: set[str] = field(default_factory=set[str])
    has_patient: bool = False

    def chain(self) -> Iterator[Scope]:
        """The scope and those around it, the innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.around

    def holders(self) -> Iterator[Scope]:
        """The scope and the bundles around it: what a bundle holds is no part of an export."""
        yield self
        for one in self.around.chain() if self.around else ():
            if one.authority.startswith(EXPORT):
                return
            yield one

    def export(self) -> str:
        """The authority of the export that it is part of."""
        exports = (one.authority for one in self.chain() if one.authority.startswith(EXPORT))
        return next(exports, self.authority)


EXPORT, BUNDLE = "folder:", "bundle:"
"""How the authority of an export and of a bundle begins; a folder or a file's name follows."""
_ANYWHERE = ""
"""In place of a scope: names that mean one resource wherever they are written."""
_DELETED = -1
"""Slot of a resource that was deleted."""
Owner = tuple[Scope, str, str]
"""Scope and server of a resource, and its reference to whom it is about, "" for nobody."""


class Entered(NamedTuple):
    """A resource with its place, its type, and whom it is about.

    ``packed``: its JSON, which takes a fraction of the memory of its objects.
    """

    packed: bytes
    place: MemberPlace
    kind: str
    owner: Owner

    @property
    def resource(self) -> dict[str, Any]:
        """The resource."""
        return msgspec.json.decode(self.packed)


class ResourceIndex:
    """The resources of a cohort by patient; what is left out, with the reason."""

    def __init__(self, log: LoadLog) -> None:
        self.log = log
        self.skipped, self.left_out, self.named = Reasons(), Reasons(), Reasons()
        self.unread = Reasons()
        """Resources by type that are not part of a record."""
        self._totals: Counter[str] = Counter()
        """Resources by file."""
        self._entered: list[Entered] = []
        """The resources by slot, their number."""
        self._owners: dict[Owner, Owner] = {}
        self._scopes: dict[str, Scope] = {}
        self._names: dict[tuple[str, str], Key | None] = {}
        """Authority of a scope and URL, number (``Type/id``) or ``Type?identifier=…`` → key; None
        where several resources have the name."""
        self._current: dict[Key, int] = {}
        """Key → slot of the resource that counts."""
        self._dropped: dict[int, tuple[Reasons, str]] = {}
        self._practitioners: dict[Key, Resource] = {}
        self._people = People(log)
        self._numbers: dict[Key, str] = {}
        """Key → number of a patient."""
        self._stating: dict[Key, set[str]] = {}
        """Key → files with the Patient, and with another person of that key."""
        self._refused: dict[Key, set[str]] = {}
        self._histories: dict[Key, str] = {}
        """Key → file with a history of the Patient, the newest version first."""
        self._links: list[tuple[int, Key, Owner]] = []
        self._replaced: list[tuple[int, Owner]] = []

    # Entering resources.

    def scope(self, authority: str, around: Scope | None, loose: bool) -> Scope:
        """The scope of an authority, made on first use."""
        if authority not in self._scopes:
            self._scopes[authority] = Scope(authority, around, loose)
        return self._scopes[authority]

    def enter(self, member: Member, scope: Scope, place: MemberPlace) -> None:
        """Enter one resource; one that cannot be used is counted with its reason."""
        resource, file = member.resource, place.file
        if member.deleted:
            self._delete(member, scope, file)
            if resource is None:
                return
        # Its kind, and the names by which others refer to it.
        self._totals[file] += 1
        kind = resource.get("resourceType") if isinstance(resource, dict) else None
        if not isinstance(kind, str):
            self.skipped.add(*place[:2], "is not a FHIR resource — it names no resourceType")
            return
        id, url = clean(resource.get("id")), member.url
        base, key = _key(kind, id, url, scope)
        if kind in _REFERRED and key is not None:
            self._name(kind, id, url, key, resource, scope)
        # Kinds, modifiers and patients without an id that are not read.
        is_billing = NOT_CLINICAL.get(kind) == "billing"
        is_read = kind in READ or (not is_billing and contains_read(resource))
        if not is_read and kind != "Patient" and kind not in DRAWN_ON:
            self.unread.add(*place[:2], kind)
            return
        packed = msgspec.json.encode(resource)
        modifier = unknown_modifier(resource, b'"modifierExtension"' in packed)
        subject = subject_of(resource) if is_read else ""
        reason = ""
        if modifier:
            reason = f"{kind} {modifier} — it is not read"
        elif kind == "Patient" and key is None:
            reason = "Patient has no id — give it one"
        elif is_read and not subject:
            reason = f"{kind} names no patient — fill in its subject"
        if reason:
            self.skipped.add(*place[:2], reason)
            return
        # Its place in the index, which version it is, and what it replaces.
        slot, owner = len(self._entered), self._owner(scope, base, subject)
        self._entered.append(Entered(packed, place, kind, owner))
        if member.deleted:
            self._drop(slot, f"{kind} was deleted")
            return
        if kind == "Patient" and key is not None:
            self._numbers.setdefault(key, id or url)
            links = (reference(link.get("other")) for link in objects(resource.get("link")))
            self._links += [(slot, key, (scope, base, link)) for link in links if link]
        is_current = key is None or self._is_current(slot, key, member)
        if is_current and is_read:
            status, words = status_of(resource)
            if status is Status.RETRACTED:
                self._drop(slot, f"{kind} {words}")
            elif kind in _DOCUMENTS:
                links = _replaced_by(resource)
                self._replaced += [(slot, (scope, base, link)) for link in links]

    def _name(
        self, kind: str, id: str, url: str, key: Key, resource: Resource, scope: Scope
    ) -> None:
        """Let references find a resource."""
        number = f"{kind}/{id}" if id else ""
        names = [(one.authority, name) for one in scope.holders() for name in (url, number) if name]
        names += [(_ANYWHERE, url)] if url.startswith(_UNIQUE) else ()
        if kind == "Questionnaire":
            names += [(_ANYWHERE, clean(resource.get("url")))]
        if scope.loose and number and key[0] == scope.authority and kind not in _DOCUMENTS:
            names += [(f"{_NEAR}{scope.export()}", number)]
        if kind in _IDENTIFIED:
            authorities = (_ANYWHERE, *(one.authority for one in scope.chain()))
            names += [(at, name) for name in _identifiers(kind, resource) for at in authorities]
        for name in names:
            if self._names.setdefault(name, key) != key:
                self._names[name] = None
        if kind == "Practitioner":
            self._practitioners[key] = resource
        for one in scope.holders() if kind == "Patient" else ():
            one.has_patient = True

    def _owner(self, scope: Scope, base: str, link: str) -> Owner:
        owner = (scope, base, link)
        if owner not in self._owners:
            self._owners[owner] = owner
            if typed := _TYPED.search(link):
                scope.servers.add(link[: typed.start()] if link.startswith(_SERVED) else "")
        return self._owners[owner]

    # Versions.

    def _is_current(self, slot: int, key: Key, member: Member) -> bool:
        """Whether a resource counts among those of its key so far; the others are dropped."""
        one = self._entered[slot]
        kind, file = one.kind, one.place.file
        earlier = self._current.setdefault(key, slot)
        if earlier == _DELETED:
            self._drop(slot, f"{kind} was deleted")
            return False
        if kind == "Patient":
            is_older = member.history and self._histories.get(key) == file
            if not (is_older or self._people.same(key, _demographics(one), file, one.place.line)):
                self._refused.setdefault(key, set()).add(file)
                self._dropped[slot] = self.named, "Patient is another person"
                return False
            self._stating.setdefault(key, set()).add(file)
            self._histories |= {key: file} if member.history else {}
        if earlier == slot:
            return True
        before, after = self._entered[earlier].resource, one.resource
        order = _compare(before, after, member.history)
        if before == after:
            self._drop(slot, f"{kind} is an exact duplicate of another one")
        elif order is not None:
            self._drop(earlier if order else slot, f"{kind} is an older version of another one")
        elif kind == "Patient":
            self._drop(slot, "Patient is stated again — the first statement is read")
        elif one.owner[2] and self._entered[earlier].owner != one.owner:
            return True  # one number of two patients
        else:
            reason = "with an id that is there already, and no version — the first one is read"
            self._dropped[slot] = self.skipped, f"{kind} {reason}"
        if slot in self._dropped:
            return False
        self._current[key] = slot
        return True

    def _delete(self, member: Member, scope: Scope, file: str) -> None:
        typed = _TYPED.search(member.deleted) or _TYPED.search(member.url)
        key = _key(typed[1], typed[2], member.url, scope)[1] if typed else None
        if typed is None or key is None:
            return
        self._names.setdefault((scope.authority, f"{typed[1]}/{typed[2]}"), key)
        slot = self._current.get(key, _DELETED)
        if slot != _DELETED:
            if member.history and self._entered[slot].place.file == file:
                return  # it was created again
            self._drop(slot, f"{typed[1]} was deleted")
        self._current[key] = _DELETED

    def _drop(self, slot: int, reason: str) -> None:
        self._dropped[slot] = self.left_out, reason

    # Records.

    def finish(self) -> dict[str, tuple[Entered | None, list[Entered]]]:
        """The Patient, where it is there, and the resources of each record by its name; what is
        left out enters the log's account."""
        self._drop_replaced()
        patients = {
            key: slot
            for key in self._stating
            if (slot := self._current[key]) != _DELETED and slot not in self._dropped
        }
        owned = self._by_patient(patients)
        names = self._record_names(owned, patients)
        self._people.name_shared(names)
        for slot, key, link in self._links:
            other = self.resolve(*link)
            if other != key and slot not in self._dropped and {key, other} <= names.keys():
                self.log.warn(
                    f"the records {names[key]} and {names[other or key]} are linked (Patient.link) "
                    "and may be one person — they stay apart"
                )
        self._account(owned, patients)
        entered = self._entered
        return {
            names[key]: (
                entered[patients[key]] if key in patients else None, [entered[n] for n in slots],
            )
            for key, slots in owned.items()
        }  # fmt: skip

    def _drop_replaced(self) -> None:
        """Drop the documents that another document, itself not dropped, replaces."""
        for slot, link in self._replaced:
            for kind in sorted(_DOCUMENTS) if slot not in self._dropped else ():
                key = self.resolve(*link, kind)
                known = self._current.get(key, _DELETED) if key else _DELETED
                if known not in (slot, _DELETED) and known not in self._dropped:
                    self._drop(known, f"{kind} was replaced by another document")

    def _by_patient(self, patients: Mapping[Key, int]) -> dict[Key, list[int]]:
        """Key → slots of its resources; what names nobody is counted by reason."""
        owned: dict[Key, list[int]] = {key: [] for key in patients}
        keys = {owner: self.resolve(*owner) for owner in self._owners if owner[2]}
        for slot, one in enumerate(self._entered):
            file, number, _ = one.place
            key = keys.get(one.owner)
            if dropped := self._dropped.get(slot):
                dropped[0].add(file, number, dropped[1])
            elif not one.owner[2]:
                if one.kind != "Patient":
                    self.unread.add(file, number, one.kind)
            elif key is None:
                self.skipped.add(file, number, _UNSURE)
            elif key in self._refused and file not in self._stating[key] - self._refused[key]:
                self.skipped.add(file, number, _OTHER_PERSON)
            else:
                owned.setdefault(key, []).append(slot)
        if len(owned) > len(patients):
            self.log.warn(
                f"{len(owned) - len(patients)} patients are only named in references — their "
                "records have no demographics; add their Patient resources"
            )
        return owned

    def _record_names(
        self, owned: Mapping[Key, Sequence[int]], patients: Mapping[Key, int]
    ) -> dict[Key, str]:
        """Key → name of its record: the Patient's id, with its authority where it is shared."""
        numbers = {key: self._numbers.get(key) or key[1].rpartition("/")[2] for key in owned}
        shared = Counter(numbers.values())
        unique: dict[Key, Key] = {}
        for key, number in numbers.items():
            file = self._entered[patients[key]].place.file if key in patients else ""
            text = _label(key[0] or f"{BUNDLE}{file}") if shared[number] > 1 else ""
            one, count = (text, number), 1
            while one in unique:
                count += 1
                one = (f"{text}-{count}", number)
            unique[one] = key
        return {unique[one]: name for one, name in record_names(unique).items()}

    def _account(self, owned: Mapping[Key, Sequence[int]], patients: Mapping[Key, int]) -> None:
        """Enter what became of each file's resources that are not part of a record."""
        reasons: dict[str, Counter[str]] = {}
        for left in (self.skipped, self.left_out, self.named):
            for (file, reason), count in left.counts.items():
                reasons.setdefault(file, Counter())[reason.partition(" — ")[0]] += count
        for (file, kind), count in self.unread.counts.items():
            reasons.setdefault(file, Counter())[f"{kind}: {why_unread(kind)}"] += count
        slots = chain(patients.values(), *owned.values())
        in_records = Counter(self._entered[slot].place.file for slot in slots)
        for file, total in self._totals.items():
            apart = total - in_records[file]
            if apart or file in reasons:
                self.log.account(file, "resources", total=apart, shown=0, reasons=reasons.get(file))

    # References.

    def resolve(self, scope: Scope, base: str, link: str, kind: str = "Patient") -> Key | None:
        """The key of the resource of a type that a reference, as written, names; None where it
        cannot be known.

        ``base``: the server of the resource with the reference.
        """
        around = [one.authority for one in scope.chain()]
        bare = link.partition("#")[0]
        stated, by_identifier, value = bare.rpartition("?identifier=")
        if by_identifier:
            if stated.rpartition("/")[2] != kind:
                return None
            link = f"{kind}?identifier={value if '|' in value else f'|{value}'}"
        if by_identifier or ":" in link:
            for key in self._named(link, *around, _ANYWHERE):
                return key
        typed = _TYPED.search(bare)
        if by_identifier or typed is None or typed[1] != kind:
            return None
        number = f"{typed[1]}/{typed[2]}"
        server = bare[: typed.start()] if bare.startswith(_SERVED) else ""
        if server:
            others = scope.servers - {server, "" if kind != "Patient" else server}
            if others or self._is_known((server, number)):
                return server, number
        elif base and self._is_known((base, number)):
            return base, number
        for key in self._named(number, *around):
            return key
        if scope.loose and (kind != "Patient" or not any(s.has_patient for s in scope.chain())):
            for key in self._named(number, f"{_NEAR}{scope.export()}"):
                return key
        return server or base or scope.authority, number

    def _named(self, name: str, *places: str) -> Iterator[Key | None]:
        """The keys that a name has in places, in their order."""
        return (self._names[place, name] for place in places if (place, name) in self._names)

    def _is_known(self, key: Key) -> bool:
        return key in self._current or key in self._practitioners

    def find(self, scope: Scope, base: str, link: str) -> Resource | None:
        """The Medication, Practitioner, Binary or Questionnaire that a reference names."""
        stated = link if "?" in link else link.partition("|")[0]  # without a canonical's version
        for kind in (*DRAWN_ON, "Practitioner"):
            key = self.resolve(scope, base, stated, kind)
            slot = self._current.get(key, _DELETED) if key else _DELETED
            if key in self._practitioners:
                return self._practitioners[key]
            if slot != _DELETED and slot not in self._dropped:
                return self._entered[slot].resource
        return None


def why_unread(kind: str) -> str:
    """Why resources of a type are not part of a record by themselves."""
    return NOT_CLINICAL.get(kind) or DRAWN_ON.get(kind, "a type that this version does not read")


def _key(kind: str, id: str, url: str, scope: Scope) -> tuple[str, Key | None]:
    """The server that a full URL names, and the key of its resource."""
    number = f"{kind}/{id}" if id else url
    if url.startswith(_SERVED):
        typed = _TYPED.search(url)
        if typed and typed[1] == kind and typed.start():
            base = url[: typed.start()]
            return base, (base, f"{kind}/{typed[2]}")
    elif url.startswith(_UNIQUE):
        return "", ("", url)
    return "", (scope.authority, number) if number else None


def _identifiers(kind: str, resource: Resource) -> Iterator[str]:
    """``Type?identifier=system|value`` of each identifier, and without its system."""
    for name in ("masterIdentifier", "identifier"):
        for identifier in objects(resource.get(name)):
            system, value = clean(identifier.get("system")), clean(identifier.get("value"))
            for one in {"", system} if value else ():
                yield f"{kind}?identifier={one}|{value}"


def _demographics(one: Entered) -> Demographics:
    resource = one.resource
    born, sex = (clean(resource.get(name)) for name in ("birthDate", "gender"))
    return Demographics(person_name(resource)[0], born, sex)


def _compare(before: Resource, after: Resource, history: bool) -> bool | None:
    """Whether ``after`` is a newer version than ``before``; None where nothing says so.

    ``history``: they are of a history, which has the newest first.
    """
    first, second = (first_object(one.get("meta")) for one in (before, after))
    times = [moment(meta.get("lastUpdated")) for meta in (first, second)]
    moments = [time.replace(tzinfo=time.tzinfo or UTC) for time in times if time]
    versions = [clean(meta.get("versionId")) for meta in (first, second)]
    numbers = [int(one) for one in versions if one.isdecimal() and len(one) < 19]
    if len({*moments}) == 2:
        return moments[0] < moments[1]
    if len({*numbers}) == 2:
        return numbers[0] < numbers[1]
    return False if history else None


def _replaced_by(resource: Resource) -> Iterator[str]:
    """References of the documents that a document replaces."""
    for related in objects(resource.get("relatesTo")):
        if "replaces" in (*codes(related.get("code")), *codes(related.get("type"))):
            for name in ("target", "targetReference", "resourceReference"):
                link = reference(related.get(name))
                if link.startswith("Patient?"):  # an identifier whose type is not stated
                    yield from (link.replace("Patient", kind, 1) for kind in sorted(_DOCUMENTS))
                elif link:
                    yield link


def _label(authority: str) -> str:
    """An authority in the name of a record: a server, folder or file with its path."""
    kind, _, name = authority.partition(":")
    if kind in ("http", "https"):
        return re.sub(r"[^\w.]+", "-", name).strip("-")
    name, _, number = name.partition("#")
    path = PurePosixPath(name)
    if f"{kind}:" == BUNDLE:
        path = path.with_name(name_parts(name)[0])
    return "-".join(filter(None, (str(path).replace("/", "-").strip(".") or "export", number)))
