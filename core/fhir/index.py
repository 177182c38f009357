"""Whose each FHIR resource is: keys by authority, references, versions, and what is left out.

A resource's authority is the server of its full URL, else the bundle (or array) that holds it,
else the export: a folder of NDJSON and single resources. ``urn:uuid`` URLs are unique by
themselves. References resolve inside their bundle and those around it first, then by full URL and
identifier, then in the export (HL7 FHIR R4, 2.36.4).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.identity import Demographics, Key, People, record_names
from midchart.core.cohorts.status import Status
from midchart.core.fhir.events import READ, contains_read
from midchart.core.fhir.files import Member, Reasons, ResourceFile, stem
from midchart.core.fhir.status import status_of, unknown_modifier
from midchart.core.fhir.values import (
    Resource,
    clean,
    codes,
    first_object,
    medicine,
    objects,
    reference,
)

NOT_CLINICAL = {
    "Claim": "billing", "ClaimResponse": "billing", "ExplanationOfBenefit": "billing",
    "Coverage": "billing", "Account": "billing", "Invoice": "billing", "ChargeItem": "billing",
    "CoverageEligibilityRequest": "billing", "CoverageEligibilityResponse": "billing",
    "PaymentNotice": "billing", "PaymentReconciliation": "billing",
    "Organization": "administration", "Practitioner": "administration",
    "PractitionerRole": "administration", "Location": "administration",
    "HealthcareService": "administration", "Endpoint": "administration",
    "RelatedPerson": "administration", "Group": "administration", "CareTeam": "administration",
    "Schedule": "administration", "Slot": "administration", "Appointment": "administration",
    "Task": "administration", "Person": "administration", "List": "administration",
    "Provenance": "origin of other resources", "AuditEvent": "origin of other resources",
    "OperationOutcome": "message of the server", "Parameters": "message of the server",
    "Subscription": "message of the server", "MessageHeader": "message of the server",
}  # fmt: skip
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
_UNIQUE = ("urn:uuid:", "urn:oid:", "http://", "https://")
"""How a URL begins that means one resource wherever it is written."""
_UNSURE = "names a patient who cannot be identified from these files — add the Patient"
_OTHER_PERSON = (
    "belongs to a patient number under which these files have two people — give each person a "
    "number, or put the files into cohorts of their own"
)


@dataclass(eq=False)
class Scope:
    """A bundle, an array or the folder of an export: where a relative reference means one resource.

    ``urls``, ``identifiers``: full URL or ``Type?identifier=…`` → key, None where several resources
    have it. ``local``: ``Type/id`` → authority of the resource of that number in it, None where
    there are several. ``loose``: whether its resources may belong to a patient of another file.
    ``bases``: servers of its absolute references to patients; ``relative``: whether it has others.
    """

    authority: str
    around: Scope | None
    loose: bool
    urls: dict[str, Key | None] = field(default_factory=dict[str, "Key | None"])
    identifiers: dict[str, Key | None] = field(default_factory=dict[str, "Key | None"])
    local: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    has_patient: bool = False
    bases: set[str] = field(default_factory=set[str])
    relative: bool = False

    def chain(self) -> Iterator[Scope]:
        """The scope and those around it, the innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.around


@dataclass(frozen=True, slots=True)
class _PatientStatement:
    """A Patient resource: its place, demographics, and its version among those of its file."""

    slot: int
    person: Demographics
    number: str
    history: bool


EXPORT, BUNDLE = "folder:", "bundle:"
"""How the authority of an export and of a bundle begins; a folder or a file's name follows."""
_DELETED = -1
"""Slot of a resource that was deleted."""
Owner = tuple[Scope, str, str]
"""Scope and server of a resource, and its reference to whom it is about."""


@dataclass(frozen=True, slots=True)
class Entered:
    """A resource with its file, its line (or its number in a JSON file), and whom it is about: the
    type of one that is about nobody.

    ``packed``: its JSON, which takes a fraction of the memory of its objects.
    """

    packed: bytes
    file: ResourceFile
    line: int
    owner: Owner | str

    @property
    def resource(self) -> dict[str, Any]:
        """The resource."""
        return msgspec.json.decode(self.packed)


class ResourceIndex:
    """The resources of a cohort by patient; what is left out, with the reason."""

    def __init__(self, log: LoadLog) -> None:
        self.log = log
        self.skipped, self.left_out, self.named = Reasons(), Reasons(), Reasons()
        self.unread: Counter[tuple[str, str]] = Counter()
        """Resources by file and type that are not part of a record."""
        self.totals: Counter[str] = Counter()
        """Resources by file."""
        self._entered: list[Entered] = []
        """The resources by slot, their number."""
        self._owners: dict[Owner, Owner] = {}
        self._scopes: dict[str, Scope] = {}
        self._known: dict[Key, int] = {}
        """Key → slot."""
        self._urls: dict[str, Key | None] = {}
        self._identifiers: dict[str, Key | None] = {}
        self._canonical: dict[str, Key | None] = {}
        """Canonical URL of a questionnaire → its key."""
        self._loose: dict[str, list[str]] = {}
        """``Type/id`` → the authorities of loose scopes that have it."""
        self._patients: dict[Key, list[_PatientStatement]] = {}
        self._links: list[tuple[int, Owner]] = []
        self._replaced: list[tuple[int, Owner]] = []
        self._dropped: dict[int, tuple[Reasons, str]] = {}
        self._names: dict[Key, Callable[[], str]] = {}
        self._current: set[int] = set()
        """Slots of the Patient resources that count."""

    # Entering resources.

    def scope(self, authority: str, around: Scope | None, loose: bool) -> Scope:
        """The scope of an authority, made on first use."""
        if authority not in self._scopes:
            self._scopes[authority] = Scope(authority, around, loose)
        return self._scopes[authority]

    def enter(self, member: Member, scope: Scope, place: ResourceFile, line: int) -> None:
        """Enter one resource; one that cannot be used is counted with its reason."""
        resource, file = member.resource, place.name
        if member.deleted:
            self._delete(member, scope, place)
            if resource is None:
                return
        # Its kind, and the names by which others refer to it.
        self.totals[file] += 1
        kind = resource.get("resourceType") if isinstance(resource, dict) else None
        if not isinstance(kind, str):
            reason = "is not a FHIR resource — it names no resourceType"
            self.skipped.add(file, line, reason)
            return
        id, url = clean(resource.get("id")), member.url
        base, key = self._key(kind, id, url, scope)
        if kind in _REFERRED and key is not None and not (kind in _DOCUMENTS and scope.loose):
            self._make_known(kind, id, url, key, resource, scope)
        if kind in _IDENTIFIED and key is not None:
            for name in _identifiers(kind, resource):
                for one in scope.chain():
                    _enter_once(one.identifiers, name, key)
                _enter_once(self._identifiers, name, key)
        # Kinds, modifiers and patients without an id that are not read.
        is_billing = NOT_CLINICAL.get(kind) == "billing"
        is_read = kind in READ or (not is_billing and contains_read(resource))
        if not is_read and kind != "Patient" and kind not in DRAWN_ON:
            self.unread[file, kind] += 1
            return
        packed = msgspec.json.encode(resource)
        modifier = unknown_modifier(resource, b'"modifierExtension"' in packed)
        if modifier:
            reason = f"{kind} {modifier} — it is not read"
            self.skipped.add(file, line, reason)
            return
        if kind == "Patient" and key is None:
            self.skipped.add(file, line, "Patient has no id — give it one")
            return
        # Its place in the index, and its patient.
        slot = len(self._entered)
        owner: Owner | str = kind
        if is_read:
            subject = reference(resource.get("subject") or resource.get("patient"))
            if not subject:
                reason = f"{kind} names no patient — fill in its subject"
                self.skipped.add(file, line, reason)
                return
            owner = self._owner(scope, base, subject)
        self._entered.append(Entered(packed, place, line, owner))
        if member.deleted:
            self._drop(slot, f"{kind} was deleted")
            return
        if kind == "Patient" and key is not None:
            self._enter_patient(member, slot, key, id or url, scope, base)
        elif key is not None and not self._is_newest(slot, key, kind, member.history):
            return
        # Whether its content holds, and what it replaces.
        if is_read:
            status, words = status_of(resource)
            if status is Status.RETRACTED:
                self._drop(slot, f"{kind} {words}")
            elif kind in _DOCUMENTS:
                links = _replaced_by(resource)
                self._replaced += [(slot, (scope, base, link)) for link in links]

    def _key(self, kind: str, id: str, url: str, scope: Scope) -> tuple[str, Key | None]:
        """The server that a full URL names, and the key of its resource."""
        if not url:
            return "", (scope.authority, f"{kind}/{id}") if id else None
        if url.startswith(("http://", "https://")):
            typed = _TYPED.search(url)
            if typed and typed[1] == kind and typed.start():
                base = url[: typed.start()]
                return base, (base, f"{kind}/{typed[2]}")
        elif url.startswith(_UNIQUE):
            return "", ("", url)
        return "", (scope.authority, f"{kind}/{id}" if id else url)

    def _make_known(
        self, kind: str, id: str, url: str, key: Key, resource: Resource, scope: Scope
    ) -> None:
        """Let references find a resource that records draw on."""
        number = f"{kind}/{id}" if id else ""
        nested = scope.around is not None and not scope.around.authority.startswith(EXPORT)
        for one in scope.chain() if url or nested else ():
            if one is not scope and one.authority.startswith(EXPORT):
                break  # what a bundle holds is not part of the export around it
            if url:
                _enter_once(one.urls, url, key)
            if number and key[0] != one.authority:
                authority = key[0] or key[1]
                if one.local.setdefault(number, authority) != authority:
                    one.local[number] = None
        if url.startswith(_UNIQUE):
            _enter_once(self._urls, url, key)
        if kind in _DOCUMENTS:
            return
        if kind == "Questionnaire" and resource.get("url"):
            _enter_once(self._canonical, clean(resource["url"]), key)
        if kind == "Patient":
            for one in scope.chain():
                one.has_patient = one.has_patient or not (
                    one is not scope and one.authority.startswith(EXPORT)
                )
        if scope.loose and number and key[0] == scope.authority:
            authorities = self._loose.setdefault(number, [])
            if key[0] not in authorities:
                authorities.append(key[0])
        if kind in ("Medication", "Substance"):
            base = key[0] if key[0].startswith("http") else ""
            self._names[key] = partial(medicine, resource, partial(self.display, scope, base))
        elif kind == "Practitioner":
            self._names[key] = partial(_full_name, resource)

    def _owner(self, scope: Scope, base: str, link: str) -> Owner:
        stated = (scope, base, link)
        if stated not in self._owners:
            self._owners[stated] = stated
            typed = _TYPED.search(link)
            if typed and link.startswith(("http://", "https://")):
                scope.bases.add(link[: typed.start()])
            elif typed:
                scope.relative = True
        return self._owners[stated]

    def _enter_patient(
        self, member: Member, slot: int, key: Key, number: str, scope: Scope, base: str
    ) -> None:
        family, _ = _name(member.resource)
        born, sex = (clean(member.resource.get(name)) for name in ("birthDate", "gender"))
        statement = _PatientStatement(slot, Demographics(family, born, sex), number, member.history)
        self._patients.setdefault(key, []).append(statement)
        if self._known.get(key) == _DELETED:
            self._drop(slot, "Patient was deleted")
        self._known[key] = slot
        for link in objects(member.resource.get("link")):
            other = reference(link.get("other"))
            if other:
                self._links.append((slot, (scope, base, other)))

    # Versions.

    def _is_newest(self, slot: int, key: Key, kind: str, history: bool) -> bool:
        """Whether a resource counts among those of its key; the others are dropped by reason."""
        earlier = self._known.setdefault(key, slot)
        if earlier == slot:
            return True
        if earlier == _DELETED:
            self._drop(slot, f"{kind} was deleted")
            return False
        loser, reason = self._older(earlier, slot, history)
        if not reason:
            if self._entered[earlier].owner != self._entered[slot].owner:
                return True  # one number of two patients
            reason = "with an id that is there already, and no version — the first one is read"
            self._dropped[slot] = self.skipped, f"{kind} {reason}"
            return False
        self._drop(loser, f"{kind} {reason}")
        if loser == earlier:
            self._known[key] = slot
        return loser == earlier

    def _older(self, earlier: int, later: int, history: bool) -> tuple[int, str]:
        """Which of two resources of one key does not count, and why: "" where nothing says so."""
        before, after = self._entered[earlier].resource, self._entered[later].resource
        if before == after:
            return later, "is an exact duplicate of another one"
        order = _compare(before, after, history)
        reason = "" if order is None else "is an older version of another one"
        return (earlier if order else later), reason

    def _delete(self, member: Member, scope: Scope, place: ResourceFile) -> None:
        typed = _TYPED.search(member.deleted) or _TYPED.search(member.url)
        if typed is None:
            return
        kind, id = typed[1], typed[2]
        key = self._key(kind, id, member.url, scope)[1]
        if key is None:
            return
        slot = self._known.get(key)
        if slot is not None and slot != _DELETED:
            if member.history and self._entered[slot].file is place:
                return  # it was created again
            self._drop(slot, f"{kind} was deleted")
        self._known[key] = _DELETED

    def _drop(self, slot: int, reason: str) -> None:
        self._dropped[slot] = self.left_out, reason

    # Records.

    def finish(self) -> dict[str, PatientResources]:
        """The resources of each record by its name; what is left out enters the log's account."""
        conflicts: dict[Key, frozenset[str]] = {}
        patients: dict[Key, tuple[int, str]] = {}
        people = People(self.log)
        for key, statements in self._patients.items():
            self._settle(key, statements, people, conflicts, patients)
        self._drop_replaced()
        owned = self._by_patient(conflicts, patients)
        names = self._record_names(owned, patients)
        people.name_shared(names)
        self._name_linked(names)
        self._account(owned)
        return {
            names[key]: PatientResources(
                self._entered[patients[key][0]] if key in patients else None,
                [self._entered[slot] for slot in slots],
            )
            for key, slots in owned.items()
        }

    def _settle(
        self,
        key: Key,
        statements: list[_PatientStatement],
        people: People,
        conflicts: dict[Key, frozenset[str]],
        patients: dict[Key, tuple[int, str]],
    ) -> None:
        """Choose the Patient resource of a key; where two people have it, name the files whose
        resources are the first one's."""
        stated: set[str] = set()
        refused: set[str] = set()
        current: _PatientStatement | None = None
        histories: set[str] = set()
        for one in statements:
            place = self._entered[one.slot]
            file = place.file.name
            if one.slot in self._dropped:
                continue
            if one.history and file in histories:
                self._drop(one.slot, "Patient is an older version of another one")
                continue
            histories |= {file} if one.history else set()
            line = place.line if place.file.by_line else None
            if not people.same(key, one.person, file, line):
                refused.add(file)
                self._dropped[one.slot] = self.named, "Patient is another person"
                continue
            stated.add(file)
            current = one if current is None else self._newer(current, one)
        if current is not None:
            patients[key] = current.slot, current.number
            self._current.add(current.slot)
        if refused:
            conflicts[key] = frozenset(stated - refused)

    def _newer(self, current: _PatientStatement, other: _PatientStatement) -> _PatientStatement:
        """The statement of a patient that counts; the other one is dropped."""
        loser, reason = self._older(current.slot, other.slot, other.history)
        reason = reason or "is stated again — the first statement is read"
        self._drop(loser, f"Patient {reason}")
        return other if loser == current.slot else current

    def _drop_replaced(self) -> None:
        """Drop the documents that another document, itself not dropped, replaces."""
        for slot, link in self._replaced:
            if slot in self._dropped:
                continue
            for kind in sorted(_DOCUMENTS):
                key = self.resolve(*link, kind)
                known = self._known.get(key, _DELETED) if key else _DELETED
                if known not in (slot, _DELETED) and known not in self._dropped:
                    self._drop(known, f"{kind} was replaced by another document")

    def _by_patient(
        self, conflicts: Mapping[Key, frozenset[str]], patients: Mapping[Key, tuple[int, str]]
    ) -> dict[Key, list[int]]:
        """Key → slots of its resources; what names nobody is counted by reason."""
        owned: dict[Key, list[int]] = {key: [] for key in patients}
        keys = {owner: self.resolve(*owner) for owner in self._owners}
        for slot, one in enumerate(self._entered):
            owner, file, line = one.owner, one.file.name, one.line
            dropped = self._dropped.get(slot)
            if dropped is not None:
                dropped[0].add(file, line, dropped[1])
                continue
            if isinstance(owner, str):
                if owner != "Patient":
                    self.unread[file, owner] += 1
                continue
            key = keys[owner]
            if key is None:
                self.skipped.add(file, line, _UNSURE)
            elif key in conflicts and file not in conflicts[key]:
                self.skipped.add(file, line, _OTHER_PERSON)
            else:
                owned.setdefault(key, []).append(slot)
        if len(owned) > len(patients):
            self.log.warn(
                f"{len(owned) - len(patients)} patients are only named in references — their "
                "records have no demographics; add their Patient resources"
            )
        return owned

    def _record_names(
        self, owned: Mapping[Key, Sequence[int]], patients: Mapping[Key, tuple[int, str]]
    ) -> dict[Key, str]:
        """The name of each key's record: the Patient's id, with its authority where it is shared.

        The authority is short where that is enough: a file's or folder's name without the path.
        """
        numbers = {
            key: patients[key][1] if key in patients else key[1].rpartition("/")[2] for key in owned
        }
        shared = Counter(numbers.values())
        labels: dict[Key, str] = {}
        for key in owned:
            if shared[numbers[key]] > 1:
                file = self._entered[patients[key][0]].file.name if key in patients else ""
                labels[key] = key[0] or f"{BUNDLE}{file}"
        short = {key: _label(authority, False) for key, authority in labels.items()}
        long = {key: _label(authority, True) for key, authority in labels.items()}
        ambiguous = Counter((numbers[key], text) for key, text in short.items())
        renamed: dict[Key, Key] = {}
        taken: set[Key] = set()
        for key in owned:
            text = short.get(key, "")
            if text and ambiguous[numbers[key], text] > 1:
                text = long[key]
            unique, count = (text, numbers[key]), 1
            while unique in taken:
                count += 1
                unique = (f"{text}-{count}", numbers[key])
            taken.add(unique)
            renamed[key] = unique
        names = record_names(renamed.values())
        return {key: names[unique] for key, unique in renamed.items()}

    def _name_linked(self, names: Mapping[Key, str]) -> None:
        """Warn of patients that another Patient resource links to."""
        by_slot = {s.slot: key for key, stated in self._patients.items() for s in stated}
        for slot, link in self._links:
            key, other = by_slot[slot], self.resolve(*link)
            if other is None or other == key or slot in self._dropped:
                continue
            if key in names and other in names:
                self.log.warn(
                    f"the records {names[key]} and {names[other]} are linked (Patient.link) and "
                    "may be one person — they stay apart"
                )

    def _account(self, owned: Mapping[Key, Sequence[int]]) -> None:
        """Enter what became of each file's resources that are not part of a record."""
        reasons: dict[str, Counter[str]] = {}
        for left in (self.skipped, self.left_out, self.named):
            for (file, reason), count in left.counts.items():
                reasons.setdefault(file, Counter())[reason.partition(" — ")[0]] += count
        for (file, kind), count in self.unread.items():
            reasons.setdefault(file, Counter())[f"{kind}: {why_unread(kind)}"] += count
        in_records: Counter[str] = Counter()
        for slots in owned.values():
            in_records.update(self._entered[slot].file.name for slot in slots)
        in_records.update(self._entered[slot].file.name for slot in self._current)
        for file, total in self.totals.items():
            apart = total - in_records[file]
            if not apart and file not in reasons:
                continue
            self.log.account(file, "resources", total=apart, shown=0, reasons=reasons.get(file))

    # References.

    def resolve(self, scope: Scope, base: str, link: str, kind: str = "Patient") -> Key | None:
        """The key of the resource of a type that a reference, as written, names; None where it
        cannot be known.

        ``base``: the server of the resource with the reference.
        """
        for one in scope.chain():
            if link in one.urls:
                return one.urls[link]
        if link in self._urls:
            return self._urls[link]
        bare = link.partition("#")[0]
        if "?identifier=" in bare:
            return self._identified(scope, bare, kind)
        typed = _TYPED.search(bare)
        if typed is None or typed[1] != kind:
            return None
        number, server = f"{typed[1]}/{typed[2]}", ""
        if bare.startswith(("http://", "https://")):
            server = bare[: typed.start()]
            if self._is_known((server, number)):
                return server, number
            if scope.bases - {server} or (kind == "Patient" and scope.relative):
                return server, number
        elif base and self._is_known((base, number)):
            return base, number
        for one in scope.chain():
            is_known = self._is_known((one.authority, number))
            if number in one.local:
                authority = None if is_known else one.local[number]
                if authority is None:
                    return None
                return ("", authority) if authority.startswith("urn:") else (authority, number)
            if is_known:
                return one.authority, number
        exports = (s.authority for s in scope.chain() if s.authority.startswith(EXPORT))
        folder = _folder(next(exports, scope.authority))
        loose = self._loose.get(number, []) if scope.loose else []
        elsewhere = [one for one in loose if _folder(one) == folder]  # another file of the export
        if elsewhere and (kind != "Patient" or not any(s.has_patient for s in scope.chain())):
            return (elsewhere[0], number) if len(elsewhere) == 1 else None
        return server or base or scope.authority, number

    def _is_known(self, key: Key) -> bool:
        return key in self._names or key in self._known

    def _identified(self, scope: Scope, link: str, kind: str) -> Key | None:
        stated, _, value = link.rpartition("?identifier=")
        if stated.rpartition("/")[2] != kind:
            return None
        system, bar, value = value.rpartition("|")
        name = f"{kind}?identifier={system}{bar or '|'}{value}"
        for one in scope.chain():
            if name in one.identifiers:
                return one.identifiers[name]
        return self._identifiers.get(name)

    def display(self, scope: Scope, base: str, link: str) -> str:
        """The text of the Medication or Practitioner that a reference names, or ""."""
        for kind in ("Medication", "Substance", "Practitioner"):
            key = self.resolve(scope, base, link, kind)
            if key is not None and key in self._names:
                return self._names[key]()
        return ""

    def target(self, scope: Scope, base: str, link: str) -> Resource | None:
        """The Binary that an attachment's URL names, or the Questionnaire of a response's."""
        for kind in ("Binary", "Questionnaire"):
            key = self._canonical.get(link.partition("|")[0]) or self.resolve(
                scope, base, link, kind
            )
            slot = None if key is None else self._known.get(key)
            if slot is not None and slot not in self._dropped:
                return self._entered[slot].resource
        return None


@dataclass(frozen=True, slots=True)
class PatientResources:
    """A patient's resources; that of the Patient is None where it is only named."""

    patient: Entered | None
    resources: list[Entered]


def why_unread(kind: str) -> str:
    """Why resources of a type are not part of a record by themselves."""
    return NOT_CLINICAL.get(kind) or DRAWN_ON.get(kind, "a type that this version does not read")


def _enter_once(table: dict[str, Key | None], name: str, key: Key) -> None:
    """Enter a key under a name; under a name of two keys there is None."""
    if table.setdefault(name, key) != key:
        table[name] = None


def _identifiers(kind: str, resource: Resource) -> Iterator[str]:
    """``Type?identifier=system|value`` of each identifier, and without its system."""
    stated = (resource.get("masterIdentifier"), *_listed(resource.get("identifier")))
    for identifier in objects([one for one in stated if one is not None]):
        system, value = clean(identifier.get("system")), clean(identifier.get("value"))
        if value:
            yield f"{kind}?identifier=|{value}"
            if system:
                yield f"{kind}?identifier={system}|{value}"


def _full_name(resource: Resource) -> str:
    return _name(resource)[1]


_PAST = frozenset(("old", "maiden", "temp", "nickname", "anonymous"))
"""Uses of a name that is not a person's official one."""


def _name(resource: Resource) -> tuple[str, str]:
    """Family name and full name of a person, in current use where that is stated."""
    if (stated := resource.get("name")) is None:
        return "", ""
    names = sorted(
        objects(stated),
        key=lambda name: (clean(name.get("use")) in _PAST, name.get("use") != "official"),
    )
    name = next(iter(names), {})
    family, text = " ".join(map(clean, _listed(name.get("family")))), clean(name.get("text"))
    parts = (*_listed(name.get("prefix")), *_listed(name.get("given")), family)
    return family or text, text or " ".join(filter(None, map(clean, parts)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _compare(before: Resource, after: Resource, history: bool) -> bool | None:
    """Whether ``after`` is a newer version than ``before``; None where nothing says so.

    ``history``: they are of a history, which has the newest first.
    """
    first, second = first_object(before.get("meta")), first_object(after.get("meta"))
    times = _instant(first.get("lastUpdated")), _instant(second.get("lastUpdated"))
    if times[0] and times[1] and times[0] != times[1]:
        return times[0] < times[1]
    numbers = clean(first.get("versionId")), clean(second.get("versionId"))
    counted = all(number.isdecimal() and len(number) < 19 for number in numbers)
    if counted and int(numbers[0]) != int(numbers[1]):
        return int(numbers[0]) < int(numbers[1])
    return False if history else None


def _instant(value: Any) -> datetime | None:
    """A moment as UTC; one without an offset counts as UTC."""
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
        if parsed is None:
            return None
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


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


def _folder(authority: str) -> str:
    """The folder of an export, or of the file of a bundle or array."""
    kind, _, name = authority.partition(":")
    return name if f"{kind}:" == EXPORT else name.rpartition("/")[0]


def _label(authority: str, long: bool) -> str:
    """An authority in the name of a record: a server, folder or file, with its path if ``long``."""
    kind, _, name = authority.partition(":")
    if kind in ("http", "https"):
        return re.sub(r"[^\w.]+", "-", name).strip("-")
    name, _, number = name.partition("#")
    path = PurePosixPath(name)
    if f"{kind}:" == BUNDLE:
        path = path.with_name(stem(Path(path)))
    text = str(path).replace("/", "-") if long else path.name
    return "-".join(filter(None, (text.strip(".") or "export", number)))
