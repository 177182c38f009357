"""C-CDA documents as text: each section is a note of the patient.

The patient is the record target's id, root and extension; the time is the document's
``effectiveTime`` (local clock time), or that of a fact's entry (:mod:`.ccda_sections`). A document
that another one replaces is left out. A body that is no text leaves a dated note that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from xml.etree.ElementTree import Element

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import BY_FILE, BY_NUMBER, PATIENTS
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.identity import Demographics, Key, People, record_names
from midchart.core.cohorts.manifest import column_settings
from midchart.core.cohorts.parallel import each_file
from midchart.core.cohorts.records import Entry, PatientEntries, entry, tables_in
from midchart.core.documents.ccda_entries import code_text, date_of, each, inside, joined
from midchart.core.documents.ccda_sections import (
    CLINICAL_DOCUMENT,
    document_time,
    documents_in,
    passages_of,
)
from midchart.core.documents.payloads import payload_text
from midchart.core.loaders import LOADERS
from midchart.core.storage.sources import DEEP, Source

_LARGEST_STYLESHEET = 1 << 24
"""Bytes of a stylesheet in which a clinical document is looked for."""
_SOCIAL_SECURITY = "2.16.840.1.113883.4.1"


@dataclass(frozen=True, slots=True)
class _CcdaDocument:
    """A document: whose it is, which version of what, and its notes."""

    name: str
    key: Key
    person: Demographics
    facts: dict[str, str]
    notes: Sequence[Entry]
    ids: tuple[Key, ...]
    replaces: tuple[Key, ...]
    series: Key | None
    version: int
    exact: bool
    """Whether its time names the day."""
    denied: int
    dated: int
    """Lines of text that their entries alone negate, and facts of a day of their own."""
    patients: int


def _id(element: Element) -> Key:
    return element.get("root", "").strip(), " ".join(element.get("extension", "").split())


def _ids(element: Element | None, tag: str = "id") -> list[Key]:
    """The ids of an element that name something."""
    stated = (_id(one) for one in each(element, tag) if not one.get("nullFlavor"))
    return [one for one in stated if any(one)]


def _patient_key(role: Element | None, name: str) -> Key:
    """Root and number of the patient; a social security number only where there is no other id.

    A root without an extension is itself the number; without any id the file is the patient.
    """
    ids = sorted(_ids(role), key=lambda one: one[0] == _SOCIAL_SECURITY)
    root, extension = ids[0] if ids else (name, PurePosixPath(name).stem)
    return (root, extension) if extension else ("", root)


def _person(patient: Element | None) -> Demographics:
    names = list(each(patient, "name"))
    legal = next((one for one in names if one.get("use") == "L"), names[0] if names else None)
    family = " ".join(map(joined, each(legal, "family"))) or joined(legal)
    born = inside(patient, "birthTime")
    sex = inside(patient, "administrativeGenderCode")
    return Demographics(
        family,
        date_of(born),
        "" if sex is None else sex.get("code", "") or sex.get("displayName", ""),
    )


def _read_file(file: Source, log: LoadLog) -> list[_CcdaDocument]:
    name, roots = file.name, documents_in(file.xml())
    names = [f"{name}#{n}" for n in range(1, len(roots) + 1)] if roots[1:] else [name]
    return list(map(_read_document, roots, names))


def _read_document(root: Element, name: str) -> _CcdaDocument:
    role = inside(root, "recordTarget", "patientRole")
    patient = inside(role, "patient")
    person = _person(patient)
    sex = code_text(inside(patient, "administrativeGenderCode"))
    time, date = document_time(root)
    author = joined(inside(root, "author", "assignedAuthor", "assignedPerson", "name"))
    stem = PurePosixPath(name).with_suffix("").as_posix()
    number = inside(root, "versionNumber")
    version = "" if number is None else number.get("value", "")
    related = [one for one in each(root, "relatedDocument") if one.get("typeCode") == "RPLC"]
    passages = passages_of(root, payload_text)
    notes = [
        entry(one.time or time, "note", code=one.code, name=one.title, text=one.text,
              note_id=f"{stem}-{at}", visit_id=stem, author=author)
        for at, one in enumerate(passages, 1)
    ]  # fmt: skip
    return _CcdaDocument(
        name,
        _patient_key(role, name),
        person,
        {n: text for n, text in (("birthdate", person.born), ("gender", sex)) if text},
        notes,
        tuple(_ids(root)),
        tuple(key for one in related for key in _ids(inside(one, "parentDocument"))),
        next(iter(_ids(root, "setId")), None),
        int(version) if version.isdecimal() and len(version) < 10 else 0,
        len(date) == 10 or not date,
        sum(one.denied for one in passages),
        sum(one.time is not None for one in passages),
        len(each(root, "recordTarget")),
    )


def _replaced(documents: Sequence[_CcdaDocument]) -> dict[str, str]:
    """Name of each document that is out of date → the name of the newer one of the patient."""
    by_id: dict[tuple[Key, Key], list[_CcdaDocument]] = {}
    newest: dict[tuple[Key, Key], _CcdaDocument] = {}
    for one in documents:
        for id in one.ids:
            by_id.setdefault((one.key, id), []).append(one)
        if one.series is not None:
            held = newest.setdefault((one.key, one.series), one)
            if one.version > held.version:
                newest[one.key, one.series] = one
    replaced: dict[str, str] = {}
    for one in documents:
        for id in (id for id in one.replaces if id not in one.ids):
            replaced |= {old.name: one.name for old in by_id.get((one.key, id), ())}
        current = one if one.series is None else newest[one.key, one.series]
        if current.version > one.version:
            replaced[one.name] = current.name
    return replaced


@LOADERS.register("ccda")
class Ccda(RecordLoader):
    """C-CDA documents, one XML file each; several of one patient make one record."""

    name = "ccda"
    title = "C-CDA documents (XML; sections as notes)"
    source = "C-CDA"
    suffix, deep = (".xml", ".ccd", ".ccda", ".cda", ".txt"), True
    unit = "document that can be read"

    def files(self, place: Source) -> list[Source]:
        """The documents; text files among them only where each is one, else they are notes."""
        documents = super().files(place)
        texts = {one for one in place.entries(DEEP) if one.ending == ".txt"}
        return (
            documents if texts <= {*documents} else [one for one in documents if one not in texts]
        )

    def has_marks(self, file: Source) -> bool:
        """Whether a clinical document begins at the head of a file, or in its stylesheet."""
        head = file.start(self.sniffed)
        if b"XSL/Transform" in head:
            head = file.start(_LARGEST_STYLESHEET)
        return bool(CLINICAL_DOCUMENT.search(head.replace(b"\0", b"").decode("latin-1")))

    def enter(self, place: Source, patients: PatientEntries) -> list[Source]:
        """Records of the documents' patients, and the questions of tables in the folder."""
        log = patients.log
        files = each_file(self.files(place), log, _read_file, list[_CcdaDocument])
        documents = [document for _, inside_file in files for document in inside_file]
        setting = column_settings(place.root, log).get(PATIENTS)
        if setting == BY_FILE:
            documents = [
                replace(one, key=(PurePosixPath(one.name).stem, one.key[1])) for one in documents
            ]
        people = People(log)
        same = [one for one in documents if people.same(one.key, one.person, one.name)]
        if (others := len(documents) - len(same)) and setting != BY_NUMBER:
            log.unsettle(
                PATIENTS,
                (BY_FILE, BY_NUMBER),
                f"{others:,} documents are about another person than the first one of their "
                "number — they are left out, unless each file is a record of its own",
            )
        out_of_date, of_the_patient = _replaced(same), {one.name for one in same}
        names = record_names(one.key for one in documents)
        for one in documents:
            reason = ""
            if one.name not in of_the_patient:
                reason = "is about another person under the same number"
            elif one.name in out_of_date:
                reason = "was replaced by a newer version"
                log.skip(one.name, None, f"{reason}, {out_of_date[one.name]}")
            elif not one.notes:
                reason = "has no section with text"
                log.skip(one.name, None, f"{reason} — export it with text")
            reasons = {reason: 1} if reason else {}
            log.account(one.name, "documents", total=1, shown=not reason, reasons=reasons)
            if not reason:
                patients.add(names[one.key], one.name, *one.notes)
                patients.name(names[one.key], one.key[1], one.name)
                held = patients.facts.get(names[one.key], {})
                patients.facts[names[one.key]] = held | one.facts
        _warn_of_dates(documents, log)
        people.name_shared(names)
        return tables_in(place)


def _warn_of_dates(documents: Sequence[_CcdaDocument], log: LoadLog) -> None:
    for what, numbers in (
        ("lines of text state what their coded entries negate — they open with what the entry says",
         [one.denied for one in documents]),
        ("facts have the date of their coded entry, which is not that of the document",
         [one.dated for one in documents]),
        ("documents name only the month or year of their date — they are at its first day",
         [not one.exact for one in documents]),
        ("documents name several patients — they are in the record of the first",
         [one.patients > 1 for one in documents]),
        ("documents have no date — they come first",
         [bool(one.notes) and one.notes[0][0] is None for one in documents]),
    ):  # fmt: skip
        if total := sum(numbers):
            first = next(one.name for one, n in zip(documents, numbers, strict=True) if n)
            log.warn(f"{first}: {total:,} {what}")
