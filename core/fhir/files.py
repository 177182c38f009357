"""Files of FHIR resources and bundles: JSON, NDJSON and XML, plain or compressed."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from midchart.core.cohorts.tables import opened
from midchart.core.errors import DataError
from midchart.core.fhir.values import clean, first_object, objects
from midchart.core.fhir.xml import read_xml_document
from midchart.core.parsing import read_json
from midchart.core.types import Skip

_MARK = b'"resourceType"'
_BY_LINE = (".ndjson", ".jsonl")
SUFFIXES = (".json", *_BY_LINE)
"""Endings of files that may hold resources, without ``.gz``."""
_BLOCK = 1 << 20
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
"""Errors of a gzip file that is cut off or is none."""
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


class Place(NamedTuple):
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
    entries = document.get("entry") or []
    urls = (clean(entry.get("fullUrl")) for entry in objects(entries))
    server = next((match[1] for url in urls if (match := _SERVER.match(url))), "")
    for number, entry in enumerate(entries if isinstance(entries, list) else [None], 1):
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


def read_members(path: Path, name: str, reasons: Reasons) -> Iterator[tuple[Member, Place]]:
    """Each resource of a file, ``name`` in messages, with its place.

    Lines that are no JSON enter ``reasons``; raises DataError or OSError where the file is none.
    """
    try:
        for document, line in _documents(path, name, reasons):
            for number, member in enumerate(members(document), 1):
                yield member, Place(name, line or number, line is not None)
    except UnicodeDecodeError:
        raise DataError(name, None, "is not UTF-16 text", "save it as UTF-8") from None
    except _DAMAGED:
        raise DataError(name, None, "is a damaged gzip file", "export it again") from None


def _documents(path: Path, name: str, reasons: Reasons) -> Iterator[tuple[Any, int | None]]:
    """The documents of a file, each with its line; None where the file is one document."""
    with opened(path) as file:
        if ending(path) == ".xml":
            yield read_xml_document(file.read(), name), None
            return
        first, second = file.readline(_BLOCK), file.readline(_BLOCK)
        by_line = ending(path) in _BY_LINE or _holds_lines(first, second)
        encoding = json.detect_encoding(first[:4])
        file.seek(0)
        if not encoding.startswith("utf-8"):
            file = io.BytesIO(file.read().decode(encoding).encode())
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
    if not second.strip().startswith((b"{", b"[")):
        return False
    try:
        read_json(first, "")
    except DataError:
        return False
    return True


def ending(path: Path) -> str:
    """The ending of a file's name in lower case, without ``.gz``."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def stem(path: Path) -> str:
    """A file's name without its endings."""
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def names_type(path: Path, unread: bool = True) -> bool:
    """Whether a file names a resourceType; ``unread`` where it may not be opened (a link out of the
    cohort's folder, a pipe)."""
    end = b""
    try:
        with opened(path) as file:
            while block := file.read(_BLOCK):
                if _MARK in (end + block).replace(b"\0", b""):
                    return True
                end = block[-2 * len(_MARK) :]
    except _DAMAGED:
        return True  # it is named when it is read
    except OSError:
        return unread
    return False
