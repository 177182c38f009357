"""Files of FHIR resources and bundles: JSON, NDJSON and XML, plain or compressed."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, tostring

from midchart.core.errors import DataError
from midchart.core.fhir.values import clean, first_object, items, objects
from midchart.core.parsing import parse_xml, read_json, xml_text
from midchart.core.storage.sources import DAMAGED, Source
from midchart.core.types import Skip

_MARK = b'"resourceType"'
_BY_LINE = (".ndjson", ".jsonl")
SUFFIXES = (".json", *_BY_LINE)
"""Endings of files that may hold resources, without ``.gz``."""
_BLOCK = 1 << 20
_SERVER = re.compile(r"(https?://.+)/[A-Z][A-Za-z]+/[^/?#|]+(?:/_history/[^/]+)?\Z")


@dataclass
class Reasons:
    """Why resources are left out: one line a file and reason, with the number and the first."""

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


class MemberPlace(NamedTuple):
    """Where a resource is: its file, and its line in NDJSON, else its number in the file."""

    file: str
    number: int
    by_line: bool

    @property
    def line(self) -> int | None:
        """Its line; None where a file is one document."""
        return self.number if self.by_line else None


class Member(NamedTuple):
    """A resource of a JSON document, and what the bundles around it state.

    ``url``: its full URL. ``bundle``: numbers that identify the bundles (or the array) that hold
    it, the outermost first, which is 1 for an array and 0 for a bundle; () for a resource by
    itself. ``history``: whether the newest version comes first. ``deleted``: URL of a resource that
    the entry deletes.
    """

    resource: Any
    url: str = ""
    bundle: tuple[int, ...] = ()
    history: bool = False
    deleted: str = ""


def members(document: Any, bundle: tuple[int, ...] = ()) -> Iterator[Member]:
    """The resources of a document in order: those of a bundle and of its bundles, of an array, or
    the document itself."""
    if isinstance(document, list):
        inside = bundle or (1,)
        for number, one in enumerate(document, 1):
            nested = isinstance(one, list) or _is_bundle(one)
            yield from members(one, (*inside, number) if nested else inside)
        return
    if not _is_bundle(document):
        yield Member(document, bundle=bundle)
        return
    inside, history = bundle or (0,), document.get("type") == "history"
    entries: Any = document.get("entry") or []
    urls = (clean(entry.get("fullUrl")) for entry in objects(entries))
    server = next((match[1] for url in urls if (match := _SERVER.match(url))), "")
    listed: list[Any] = entries if isinstance(entries, list) else [None]
    for number, entry in enumerate(listed, 1):
        if not isinstance(entry, dict):
            yield Member(None, bundle=inside)
            continue
        request = first_object(entry.get("request"))
        resource, url = entry.get("resource"), clean(entry.get("fullUrl"))
        if clean(request.get("method")).upper() == "DELETE":
            deleted = url or clean(request.get("url")) or "?"
            if server and "://" not in deleted:
                deleted = f"{server}/{deleted}"
            url = deleted if "://" in deleted else url
            yield Member(resource, url, inside, history, deleted)
        elif _is_bundle(resource):
            yield from members(resource, (*inside, number))
        elif resource is not None or not (request or "response" in entry):
            yield Member(resource, url, inside, history)


def _is_bundle(document: Any) -> bool:
    return isinstance(document, dict) and document.get("resourceType") == "Bundle"


def read_members(source: Source, reasons: Reasons) -> Iterator[tuple[Member, MemberPlace]]:
    """Each resource of a file with its place.

    Lines that are no JSON enter ``reasons``; raises DataError where the file is none.
    """
    name = source.name
    for document, line in _documents(source, name, reasons):
        for number, member in enumerate(members(document), 1):
            yield member, MemberPlace(name, line or number, line is not None)


def _documents(source: Source, name: str, reasons: Reasons) -> Iterator[tuple[Any, int | None]]:
    """The documents of a file, each with its line; None where the file is one document."""
    with source.open() as file:
        if source.ending == ".xml":
            yield read_xml_document(file.read(), name), None
            return
        first, second = file.readline(_BLOCK), file.readline(_BLOCK)
        by_line = source.ending in _BY_LINE or _holds_lines(first, second)
        file.seek(0)
        if not json.detect_encoding(first[:4]).startswith("utf-8"):
            file = io.BytesIO(source.decoded()[0].encode())
        if not by_line:
            yield read_json(file.read(), name, as_written=True), None
            return
        for line, content in enumerate(file, 1):
            if not content.strip():
                continue
            try:
                document = read_json(content, name, line, "one resource a line", as_written=True)
            except DataError as error:
                reasons.add(name, line, f"{error.reason} — {error.remedy}")
                continue
            yield document, line


def _holds_lines(first: bytes, second: bytes) -> bool:
    """Whether a JSON file has a resource on its first line, and further lines."""
    with suppress(DataError):
        read_json(first, "")
        return second.strip().startswith((b"{", b"["))
    return False


def names_type(source: Source, unread: bool = True) -> bool:
    """Whether a file names a resourceType; ``unread`` where it may not be opened (a link out of the
    cohort's folder, a pipe)."""
    end = b""
    try:
        with source.open() as file:
            while block := file.read(_BLOCK):
                if _MARK in (end + block).replace(b"\0", b""):
                    return True
                end = block[-2 * len(_MARK) :]
    except DataError as error:
        return unread or error.reason == DAMAGED  # it is named when it is read
    return False


# FHIR in XML as the JSON objects of the same resources (HL7 FHIR R4, 2.6.2).

NAMESPACE = "http://hl7.org/fhir"
_SINGLE = frozenset(("resource", "contained"))
"""Elements that hold one resource each."""
_COMPLEX = ("Quantity", "Concept", "Reference", "Period", "Range", "Ratio", "Attachment", "Timing",
            "xtension", "code", "subject")  # fmt: skip
"""How names of elements of a complex type end: one with extensions alone is no primitive."""


def read_xml_document(data: bytes | str, name: str) -> Any:
    """The resource of an XML document as the value of its JSON; raises DataError."""
    text = data if isinstance(data, str) else xml_text(data, name)
    root = parse_xml(text.lstrip("\ufeff \t\r\n"), name)
    if not root.tag[:1].isupper():  # all resources are
        raise DataError(name, None, "is XML that is no FHIR", "export it as FHIR")
    return _resource(root)


def _resource(element: Element) -> dict[str, Any]:
    held: dict[str, Any] = {"resourceType": element.tag, **_element(element)}
    if held["resourceType"] == "Bundle" and "entry" in held:
        held["entry"] = items(held["entry"])
    return held


def _element(element: Element) -> dict[str, Any]:
    """The members of an element; those that are repeated are arrays."""
    held: dict[str, Any] = {
        name: value for name, value in element.attrib.items() if name in ("id", "url")
    }
    for child in element:
        name, value = child.tag, child.get("value")
        if name == "div":
            held[name] = tostring(child, encoding="unicode")
            continue
        if name in _SINGLE and len(child) == 1 and child[0].tag[:1].isupper():
            _add(held, name, _resource(child[0]))
            continue
        if value is not None:
            _add(held, name, {"true": True, "false": False}.get(value, value))
        if len(child):
            alone = all(one.tag == "extension" for one in child)
            extended = value is not None or (alone and not name.endswith(_COMPLEX))
            _add(held, f"_{name}" if extended else name, _element(child))
    return held


def _add(held: dict[str, Any], name: str, value: Any) -> None:
    """Enter a member; a second one of its name makes an array."""
    if name not in held:
        held[name] = value
    elif isinstance(held[name], list):
        held[name].append(value)
    else:
        held[name] = [held[name], value]
