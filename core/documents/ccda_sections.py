"""The body of a C-CDA document as passages: a section's text, and its facts of another day.

A line of a narrative whose coded entry has a date of its own is a passage of that date; what is
left of a section is one passage at the time of the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from xml.etree.ElementTree import Element

from midchart.core.documents.ccda_entries import (
    NO_INFORMATION,
    SectionEntries,
    code_text,
    each,
    inside,
    joined,
    parse_ts,
)
from midchart.core.fhir.events import Payload
from midchart.core.text.markup import markup_lines, markup_text

CLINICAL_DOCUMENT = re.compile(r"<(?:[\w.-]{1,40}:)?ClinicalDocument[\s>]")


@dataclass(frozen=True, slots=True)
class SectionPassage:
    """A part of a document: its time (None: that of the document), code, title and text;
    ``denied``: lines of its section that their entries alone negate."""

    time: datetime | None
    code: str
    title: str
    text: str
    denied: int = 0


def documents_in(root: Element) -> list[Element]:
    """The clinical documents of an XML file: its root, or those inside of a stylesheet, message or
    batch; the root where there is none."""
    is_document = root.tag == "ClinicalDocument"
    return [root] if is_document else list(root.iter("ClinicalDocument")) or [root]


def document_time(root: Element) -> tuple[datetime | None, str]:
    """The document's time and date as written; where it has none, the end of what it documents."""
    stamp = inside(root, "effectiveTime")
    service = inside(root, "documentationOf", "serviceEvent", "effectiveTime")
    stated = (stamp, inside(stamp, "low"), inside(service, "high"), inside(service, "low"))
    values = (one.get("value", "") for one in stated if one is not None)
    return next((parsed for one in values if (parsed := parse_ts(one))[0]), (None, ""))


def passages_of(root: Element, read: Payload) -> list[SectionPassage]:
    """The passages of a document's body in order. ``read`` reads an encoded one."""
    structured = inside(root, "component", "structuredBody")
    body = inside(root, "component", "nonXMLBody", "text")
    if structured is not None:
        return list(_sections(structured, "", document_time(root)[0], read))
    if body is not None:
        title = joined(inside(root, "title")) or code_text(inside(root, "code")) or "Document"
        return [
            SectionPassage(None, section_code(inside(root, "code")), title, _body_text(body, read))
        ]
    return []


def text_of_document(root: Element, read: Payload) -> str:
    """All text of a document: each section below its title, a heading with a colon; the date of a
    fact of another day is before it."""
    lines: list[str] = []
    title = ""
    for one in passages_of(root, read):
        lines += [f"{one.title.rstrip(': ')}:"] if one.title != title else []
        title = one.title
        dated = one.time and str(one.time.date()) not in one.text
        lines.append(f"{one.time:%Y-%m-%d}: {one.text}" if dated else one.text)
    return "\n".join(lines)


def section_code(element: Element | None) -> str:
    """The code of a section or document with its vocabulary."""
    code = "" if element is None else element.get("code", "")
    return f"LOINC/{code}" if code else ""


def _body_text(body: Element, read: Payload) -> str:
    """Text of a body without sections, or what kind of file it is and that it was not read."""
    kind = body.get("mediaType", "text/plain")
    if (file := inside(body, "reference")) is not None:
        return f"not read: the document is another file, {file.get('value', 'not named')}"
    content = "".join(body.itertext()).strip()
    encoded = body.get("representation") == "B64"
    text, problem = read(content, f"{kind};base64" if encoded else kind)
    return text or f"not read: the document's body {problem.partition(' — ')[0]}"


def _sections(
    body: Element, parent: str, time: datetime | None, read: Payload
) -> Iterator[SectionPassage]:
    """The passages of each section with content, sub-sections after their section: the lines of
    its narrative, each with the time of its entry, then those of entries that it does not say."""
    for section in each(body, "component/section"):
        code, heading = inside(section, "code"), inside(section, "title")
        title = ("" if heading is None else markup_text(heading)).replace("\n", " ")
        stated = title or code_text(code)
        title = stated or parent or "Section"
        entries, text = SectionEntries(section, read), inside(section, "text")
        written = [] if text is None else markup_lines(text, entries.ids)
        timed = [entries.joined(line, ids) for line, ids in written]
        timed += entries.rest("\n".join(line for line, _ in written))
        own_day = None if time is None else time.date()
        lines = [(None if at and at.date() == own_day else at, line) for at, line in timed]
        current = [line for day, line in lines if day is None]
        if not lines and section.get("nullFlavor"):
            current = [NO_INFORMATION.get(section.get("nullFlavor", ""), "no information")]
        inner = list(_sections(section, title, time, read))
        if stated and not lines and not current:  # a heading above its sub-sections
            inner = [
                replace(one, title=one.title if one.title == title else f"{title} — {one.title}")
                for one in inner
            ]
        texts = [(None, "\n".join(current))] if current else []
        texts += [(day, line) for day, line in lines if day is not None]
        for at, (day, line) in enumerate(texts):
            yield SectionPassage(day, section_code(code), title, line, 0 if at else entries.denied)
        yield from inner
