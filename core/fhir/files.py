"""Files of FHIR resources and bundles: JSON, NDJSON and XML, plain or compressed."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from midchart.core.cohorts.files import data_error
from midchart.core.cohorts.tables import opened
from midchart.core.errors import DataError
from midchart.core.fhir.values import clean
from midchart.core.fhir.xml import read_xml_document
from midchart.core.parsing import read_json
from midchart.core.types import Skip

_MARK = b'"resourceType"'
_BY_LINE = (".ndjson", ".jsonl")
_SERVER = re.compile(r"(https?://.+)/[A-Z][A-Za-z]+/[^/?#|]+(?:/_history/[^/]+)?\Z")
SUFFIXES = (".json", *_BY_LINE)
"""Endings of files that may hold resources, without ``.gz``."""
XML = ".xml"
_PER_LINE = "one resource a line"
_BLOCK = 1 << 20
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
"""Errors of a gzip file that is cut off or is none."""


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


class Member(NamedTuple):
    """A resource of a JSON document, and what the bundles around it state.

    ``url``: its full URL. ``bundle``: numbers that identify the bundles (or the array) that hold
    it, the outermost first; () for a resource by itself. ``history``: whether the newest version
    comes first. ``deleted``: URL of a resource that the entry deletes. ``in_array``: whether the
    outermost is an array.
    """

    resource: Any
    url: str = ""
    bundle: tuple[int, ...] = ()
    history: bool = False
    deleted: str = ""
    in_array: bool = False


def members(document: Any, bundle: tuple[int, ...] = ()) -> list[Member]:
    """The resources of a document in order: those of a bundle and of its bundles, of an array, or
    the document itself."""
    inside = bundle or (0,)
    if isinstance(document, list):
        return [
            member
            for number, one in enumerate(document, 1)
            for member in (
                members(one, (*inside, number))
                if isinstance(one, list) or _is_bundle(one)
                else [Member(one, bundle=inside, in_array=True)]
            )
        ]
    if not _is_bundle(document):
        return [Member(document, bundle=bundle)]
    entries = document.get("entry") or []
    if not isinstance(entries, list):
        return [Member(None, bundle=inside)]
    history = document.get("type") == "history"
    urls = (clean(entry.get("fullUrl")) for entry in entries if isinstance(entry, dict))
    server = next((match[1] for url in urls if (match := _SERVER.match(url))), "")
    return [
        member
        for number, entry in enumerate(entries, 1)
        for member in _of_entry(entry, number, inside, history, server)
    ]


def _is_bundle(document: Any) -> bool:
    return isinstance(document, dict) and document.get("resourceType") == "Bundle"


def _of_entry(
    entry: Any, number: int, bundle: tuple[int, ...], history: bool, server: str
) -> Iterator[Member]:
    if not isinstance(entry, dict):
        yield Member(None, bundle=bundle)
        return
    stated = entry.get("request")
    request: dict[str, Any] = stated if isinstance(stated, dict) else {}
    resource, url = entry.get("resource"), clean(entry.get("fullUrl"))
    if clean(request.get("method")).upper() == "DELETE":
        deleted = url or clean(request.get("url")) or "?"
        if server and "://" not in deleted:
            deleted = f"{server}/{deleted}"
        yield Member(resource, deleted if "://" in deleted else url, bundle, history, deleted)
    elif _is_bundle(resource):
        yield from members(resource, (*bundle, number))
    elif resource is not None or not (request or "response" in entry):
        yield Member(resource, url, bundle, history)


@dataclass(frozen=True, slots=True)
class ResourceFile:
    """A file with its name in messages; ``by_line``: whether it is NDJSON."""

    path: Path
    name: str
    by_line: bool

    @classmethod
    def at(cls, path: Path, name: str) -> ResourceFile:
        """The file at a path; raises DataError."""
        with _errors(name):
            return cls(path, name, ending(path) in _BY_LINE or _holds_lines(path))

    def resources(self, reasons: Reasons) -> Iterator[tuple[Member, int]]:
        """Each resource with its line, or its number in a JSON file.

        Lines that are no JSON enter ``reasons``; raises DataError where the file is none.
        """
        if not self.by_line:
            yield from ((member, number) for number, member in enumerate(self._document(), 1))
            return
        with _errors(self.name), opened(self.path) as file:
            encoding = _utf_16(cast(io.BufferedReader, file).peek(2))
            lines = file.read().decode(encoding).encode().splitlines() if encoding else file
            for line, content in enumerate(lines, 1):
                if content.isspace() or not content:
                    continue
                try:
                    document = read_json(content, self.name, line, _PER_LINE, as_written=True)
                except DataError as error:
                    reasons.add(self.name, line, f"{error.reason} — {error.remedy}")
                    continue
                yield from ((member, line) for member in members(document))

    def _document(self) -> list[Member]:
        """The resources of a JSON or XML file."""
        with _errors(self.name), opened(self.path) as file:
            data = file.read()
            is_xml = ending(self.path) == XML
            text = data.decode(encoding) if (encoding := not is_xml and _utf_16(data)) else data
        if is_xml:
            return members(read_xml_document(data, self.name))
        return members(read_json(text, self.name, as_written=True))


@contextmanager
def _errors(name: str) -> Generator[None]:
    """Raise DataError for what can be wrong with a file that is read."""
    try:
        yield
    except _DAMAGED:
        raise DataError(name, None, "is a damaged gzip file", "export it again") from None
    except OSError as error:
        raise data_error(error, name) from None
    except UnicodeDecodeError:
        raise DataError(name, None, "is not UTF-16 text", "save it as UTF-8") from None


def ending(path: Path) -> str:
    """The ending of a file's name in lower case, without ``.gz``."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def stem(path: Path) -> str:
    """A file's name without its endings."""
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _holds_lines(path: Path) -> bool:
    """Whether a JSON file has a resource on its first line, and further lines."""
    with opened(path) as file:
        first, second = file.readline(_BLOCK), file.readline(_BLOCK)
    if not second.strip().startswith((b"{", b"[")):
        return False
    try:
        read_json(first, path.name)
    except DataError:
        return False
    return True


def _utf_16(head: bytes) -> str:
    """The name of the encoding of UTF-16 text, "" for any other."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if len(head) < 2 or 0 not in head[:2]:
        return ""
    return "utf-16-be" if head[0] == 0 else "utf-16-le"


def names_type(path: Path, limit: int = 1 << 30, unread: bool = True) -> bool:
    """Whether the first ``limit`` bytes of a file name a resourceType; ``unread`` where it may not
    be opened (a link out of the cohort's folder, a pipe)."""
    end, read = b"", 0
    try:
        with opened(path) as file:
            while read < limit and (block := file.read(min(_BLOCK, limit - read))):
                if _MARK in (end + block).replace(b"\0", b""):
                    return True
                end, read = block[-2 * len(_MARK) :], read + len(block)
    except (DataError, *_DAMAGED):
        return True  # it is named when it is read
    except OSError:
        return unread
    return False
