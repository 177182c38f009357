"""C-CDA documents as text: each section's narrative is a note of the patient.

The patient is the record target's id, the time the document's ``effectiveTime`` (local clock
time). Coded entries are not read: the narrative says what a person may rely on (HL7 CDA R2, 4.3.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import Element

from core.loaders import LOADERS
from core.loaders.base import RecordLoader
from core.loaders.files import read_xml
from core.loaders.records import Entry, PatientEntries, Questions, entry

_LINES = frozenset(("paragraph", "item", "tr", "caption", "br", "list", "table", "title"))
_CELLS = frozenset(("td", "th"))


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _inside(element: Element, *tags: str) -> Element | None:
    """The first element down a path of local names."""
    for tag in tags:
        match = next((child for child in element if _tag(child) == tag), None)
        if match is None:
            return None
        element = match
    return element


def _moment(element: Element | None) -> datetime | None:
    value = "" if element is None else element.get("value", "")
    match = re.match(r"\d{8}(?:\d{4}(?:\d{2})?)?", value)
    try:
        return datetime.strptime(match[0].ljust(14, "0"), "%Y%m%d%H%M%S") if match else None
    except ValueError:
        return None


def narrative(element: Element) -> str:
    """The text of a section, one line a paragraph, list item or table row."""
    parts: list[str] = []

    def walk(node: Element) -> None:
        parts.append("\n" if _tag(node) in _LINES else " " if _tag(node) in _CELLS else "")
        parts.append(node.text or "")
        for child in node:
            walk(child)
            parts.append(child.tail or "")
        parts.append("\n" if _tag(node) in _LINES else "")

    walk(element)
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line)


def _document(path: Path, name: str) -> tuple[str, list[Entry], dict[str, str]]:
    """Patient id, notes and facts of a document; raises DataError."""
    root = read_xml(path, name)
    role = _inside(root, "recordTarget", "patientRole")
    stated = None if role is None else _inside(role, "id")
    id = "" if stated is None else stated.get("extension") or stated.get("root") or ""
    patient = None if role is None else _inside(role, "patient")
    gender = None if patient is None else _inside(patient, "administrativeGenderCode")
    born = None if patient is None else _moment(_inside(patient, "birthTime"))
    facts = {"birthdate": born.date().isoformat() if born else ""}
    if gender is not None:
        facts["gender"] = gender.get("displayName") or gender.get("code") or ""
    time = _moment(_inside(root, "effectiveTime"))
    author = _inside(root, "author", "assignedAuthor", "assignedPerson", "name")
    author_name = "" if author is None else " ".join(" ".join(author.itertext()).split())
    body = _inside(root, "component", "structuredBody")
    raw: list[Entry] = [
        entry(
            time,
            "note",
            code=code,
            name=title,
            text=text,
            note_id=f"{path.stem}-{number}",
            visit_id=path.stem,
            author=author_name,
        )
        for number, (code, title, text) in enumerate(_sections(body), 1)
    ]
    return id or path.stem, raw, {name: value for name, value in facts.items() if value}


def _sections(body: Element | None, depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """Code, title and narrative of each section that has one, sub-sections after their section."""
    for component in body if body is not None else ():
        section = _inside(component, "section") if _tag(component) == "component" else None
        if section is None:
            continue
        code, title = _inside(section, "code"), _inside(section, "title")
        text = _inside(section, "text")
        written = "" if text is None else narrative(text)
        if written:
            loinc = "" if code is None else f"LOINC/{code.get('code', '')}"
            yield loinc, "Section" if title is None else narrative(title), written
        if depth < 10:
            yield from _sections(section, depth + 1)


@LOADERS.register("ccda")
class Ccda(RecordLoader):
    """C-CDA documents, one XML file each; several of one patient make one record."""

    name = "ccda"
    title = "C-CDA documents (XML; sections as notes)"
    source = "C-CDA"
    suffix, marks, sniffed = ".xml", (b"<ClinicalDocument",), 1 << 14
    unit, question_tables = "document", True

    def read_file(
        self, file: Path, name: str, patients: PatientEntries, questions: Questions
    ) -> None:
        """A document's sections."""
        id, notes, facts = _document(file, name)
        if not notes:
            patients.log.skip(name, None, "has no section with text — export it with text")
        for note in notes:
            patients.add(id, name, note)
        patients.facts[id] = patients.facts.get(id, {}) | facts
