"""The plain reading of one MedAlign record: a whole tree, one strptime a time, one idea a line.

The fast path (``midchart.core.loaders.medalign.read_record``) streams; both give the same Record.
The tree comes from defusedxml, whose parser also tells the line on which an element begins.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import DefusedXMLParser

from midchart.core.cohorts.records import Entry, digest_of
from midchart.core.loaders.medalign import parse_code
from midchart.core.types import Event, Record

FORMATS = [
    *(f"%Y-%m-%d{t}%H:%M{s}" for t in " T" for s in ("", ":%S", ":%S.%f", "%z", ":%S%z")),
    "%Y-%m-%d",
    "%m/%d/%Y",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
]


class LineParser(DefusedXMLParser):
    """Remembers the line of every element."""

    def __init__(self) -> None:
        super().__init__(forbid_dtd=True)
        self.lines: dict[Element, int] = {}

    def _start(self, tag, attributes):
        element = super()._start(tag, attributes)
        self.lines[element] = self.parser.CurrentLineNumber
        return element


def parse_time(text: str | None) -> datetime | None:
    """The first format that fits."""
    for form in FORMATS:
        try:
            return datetime.strptime((text or "").strip(), form).replace(tzinfo=None)
        except ValueError:
            continue
    return None


def clean(text: str | None) -> str:
    """ "NULL" is nothing."""
    return "" if text in (None, "NULL") else text


def release(root: Element, lines: dict[Element, int]) -> tuple[list[Entry], dict[str, str]]:
    """Dialect (a), in document order."""
    events: list[Entry] = []
    facts: dict[str, str] = {}
    for person in root.iter("person"):
        for leaf in person.iter():
            value = (leaf.text or "").strip()
            if len(leaf) == 0 and leaf is not person and clean(value):
                facts.setdefault(leaf.tag, value)
    for entry in root.iter("entry"):
        for event in entry.findall("event"):
            events.append(
                (
                    parse_time(entry.get("timestamp")),
                    clean(event.get("type")) or "unknown",
                    clean(event.get("code")),
                    clean(event.get("name")),
                    clean("".join(event.itertext())),
                    clean(event.get("unit")),
                    clean(event.get("note_id")),
                    clean(event.get("visit_id")),
                    lines[event],
                )
            )
    return events, facts


def sample(root: Element, lines: dict[Element, int]) -> tuple[list[Entry], dict[str, str]]:
    """Dialect (b), in document order."""
    events: list[Entry] = []
    facts: dict[str, str] = {}
    for person in root.iter("person"):
        for row in (person.text or "").splitlines():
            key, colon, value = row.partition(":")
            if colon and clean(value.strip()):
                facts.setdefault(key.strip(), value.strip())
    for visit in root.iter("visit"):
        named = f"{visit.get('type', '')} {visit.get('start', '')}".strip()
        for table in visit.findall("day/*"):
            time, kind = parse_time(table.get("start")), table.tag.removesuffix("_occurrence")
            if kind == "note":
                text = clean("".join(table.itertext()).strip())
                name = clean(table.get("type"))
                events.append((time, "note", "", name, text, "", "", named, lines[table]))
            for code in table.findall("code"):
                id, name, text, unit = parse_code(code.text or "", kind)
                events.append((time, kind, id, name, text, unit, "", named, lines[code]))
    return events, facts


def read_record(path: Path, name: str) -> Record:
    """The record of a file, read plainly."""
    parser = LineParser()
    parser.feed(path.read_bytes())
    root = parser.close()
    lines = parser.lines
    events, facts = release(root, lines) if root.tag == "eventstream" else sample(root, lines)
    keyed: list[tuple[datetime, int]] = []
    for i, event in enumerate(events):
        before = keyed[-1][0] if keyed else datetime.min
        keyed.append((event[0] or before, i))
    raw = [events[i] for _, i in sorted(keyed)]
    id, stated = root.get("person_id") or path.stem, tuple(facts.items())
    ordered = tuple(Event(order, *event) for order, event in enumerate(raw))
    return Record(id, ordered, digest_of(id, raw, stated), stated, name)
