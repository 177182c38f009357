"""Files of FHIR resources: JSON and NDJSON, plain or compressed, of resources and of bundles.

Every resource has a :class:`ResourcePlace`, at which it is read again when a record is built.
Compressed and UTF-16 NDJSON is unpacked once into a temporary file without a name.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, NamedTuple, cast

from midchart.core.cohorts.files import LARGEST_TABLE, check_file, data_error, open_file
from midchart.core.config import cache_folder
from midchart.core.errors import DataError
from midchart.core.fhir.json_objects import JsonObject, read_document
from midchart.core.fhir.values import clean
from midchart.core.parsing import LONGEST_LINE
from midchart.core.storage.archives import largest_document, untrusted_gzip
from midchart.core.storage.files import make_folder
from midchart.core.storage.lru import LRU
from midchart.core.types import Skip

LARGEST_BUNDLE = 512 << 20
"""Bytes of the largest JSON file that is read; NDJSON files may be of any size."""
_LARGEST_UNPACKED = 64 << 30
"""Bytes that the compressed NDJSON files of a cohort may unpack to, together."""
_MARK = b'"resourceType"'
_MODIFIER = b"modifierExtension"
_BY_LINE = (".ndjson", ".jsonl")
_SERVER = re.compile(r"(https?://.+)/[A-Z][A-Za-z]+/[^/?#|]+(?:/_history/[^/]+)?\Z")
SUFFIXES = (".json", *_BY_LINE)
"""Endings of files that may hold resources, without ``.gz``."""
_PER_LINE = "one resource a line"
_BLOCK = 1 << 20
_DAMAGED = (EOFError, zlib.error)
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


class ResourcePlace(NamedTuple):
    """Where a resource is: number of the file; line, or entry of a JSON file; byte offset and
    length of its line; number of the resource among the members of the line or file, from 1 (0:
    the line is the resource)."""

    file: int
    line: int
    offset: int
    length: int
    position: int


def members(document: Any, bundle: tuple[int, ...] = ()) -> list[Member]:
    """The resources of a document in order: those of a bundle and of its bundles, of an array, or
    the document itself.

    ``document``: of :func:`midchart.core.fhir.json_objects.read_document`.
    """
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
    entries = document.inner("entry") or []
    if not isinstance(entries, list):
        return [Member(None, bundle=inside)]
    history = document.get("type") == "history"
    urls = (clean(entry.get("fullUrl")) for entry in entries if isinstance(entry, JsonObject))
    server = next((match[1] for url in urls if (match := _SERVER.match(url))), "")
    return [
        member
        for number, entry in enumerate(entries, 1)
        for member in _of_entry(entry, number, inside, history, server)
    ]


def _is_bundle(document: Any) -> bool:
    return isinstance(document, JsonObject) and document.get("resourceType") == "Bundle"


def _of_entry(
    entry: Any, number: int, bundle: tuple[int, ...], history: bool, server: str
) -> Iterator[Member]:
    if not isinstance(entry, JsonObject):
        yield Member(None, bundle=bundle)
        return
    stated = entry.get("request")
    request: dict[str, Any] = stated if isinstance(stated, dict) else {}
    resource, url = entry.inner("resource"), clean(entry.get("fullUrl"))
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
    """A file with its name in messages and the state it was indexed in.

    ``unpacked``: first byte of its content in the temporary file and the one after it, None where
    it is read from the file itself.
    """

    path: Path
    name: str
    by_line: bool
    state: tuple[int, int]
    unpacked: tuple[int, int] | None = None

    def check(self) -> None:
        """Raise DataError where the file is not as it was indexed."""
        if state_of(self.path, self.name) != self.state:
            raise self.changed()

    def changed(self) -> DataError:
        """The error of a file that is not as it was indexed."""
        reason = "changed since it was opened"
        return DataError(self.name, None, reason, "open the cohort again")

    def members(self) -> tuple[list[Member], bool]:
        """The resources of a JSON file, and whether it has modifier extensions; raises
        DataError."""
        largest = largest_document(self.path, LARGEST_BUNDLE)
        reason = f"is a JSON file of more than {largest >> 20:,} MB"
        if self.state[0] > largest:
            raise DataError(self.name, None, reason, "export it as NDJSON")
        try:
            with _opened(self.path) as opened:
                data = opened.read(largest + 1)
        except OSError as error:
            raise data_error(error, self.name) from None
        except _DAMAGED:
            raise DataError(self.name, None, "is a damaged gzip file", "export it again") from None
        if len(data) > largest:
            raise DataError(self.name, None, reason, "export it as NDJSON")
        extended = _MODIFIER in (data.replace(b"\0", b"") if _utf_16(data) else data)
        return members(read_document(_unicode(data, self.name), self.name)), extended


def state_of(path: Path, name: str) -> tuple[int, int]:
    """Bytes and time of change of a file; raises DataError where it is none of the cohort's."""
    try:
        stat = check_file(path, LARGEST_TABLE)
    except OSError as error:
        raise data_error(error, name) from None
    return stat.st_size, stat.st_mtime_ns


def ending(path: Path) -> str:
    """The ending of a file's name in lower case, without ``.gz``."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def stem(path: Path) -> str:
    """A file's name without its endings."""
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


@contextmanager
def _opened(path: Path) -> Generator[IO[bytes]]:
    with open_file(path, LARGEST_TABLE) as file:
        if path.suffix.lower() != ".gz":
            yield file
            return
        with untrusted_gzip(file, path.name, os.fstat(file.fileno()).st_size) as unpacked:
            yield unpacked


def _holds_lines(path: Path) -> bool:
    """Whether a JSON file has a resource on its first line, and further lines."""
    with _opened(path) as opened:
        first, second = opened.readline(_BLOCK), opened.readline(_BLOCK)
    if not second.strip().startswith((b"{", b"[")):
        return False
    try:
        read_document(first, path.name)
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


def _encoding(path: Path) -> str:
    with _opened(path) as opened:
        return _utf_16(opened.read(2))


def _unicode(data: bytes, name: str) -> bytes | str:
    encoding = _utf_16(data)
    try:
        return data.decode(encoding) if encoding else data
    except UnicodeDecodeError:
        raise DataError(name, None, "is not UTF-16 text", "save it as UTF-8") from None


def names_type(path: Path, limit: int = LARGEST_TABLE, unread: bool = True) -> bool:
    """Whether the first ``limit`` bytes of a file name a resourceType; ``unread`` where it may not
    be opened (a link out of the cohort's folder, a pipe)."""
    end, read = b"", 0
    try:
        with _opened(path) as opened:
            while read < limit and (block := opened.read(min(_BLOCK, limit - read))):
                if _MARK in (end + block).replace(b"\0", b""):
                    return True
                end, read = block[-2 * len(_MARK) :], read + len(block)
    except (DataError, *_DAMAGED):
        return True  # it is named when it is read
    except OSError:
        return unread
    return False


class ResourceFiles:
    """The files of a cohort, and the temporary file with what was unpacked."""

    def __init__(self) -> None:
        self.files: list[ResourceFile] = []
        self._copy: BinaryIO | None = None
        self._documents: LRU[list[Member]] = LRU(2)

    def add(self, path: Path, name: str) -> int:
        """Enter a file, unpack it where its lines cannot be reached in it, and return its number.

        Raises DataError.
        """
        state, span = state_of(path, name), None
        try:
            by_line = ending(path) in _BY_LINE or _holds_lines(path)
            encoding = _encoding(path) if by_line else ""
            if by_line and (encoding or path.suffix.lower() == ".gz"):
                span = self._unpack(path, name, encoding)
        except _DAMAGED:
            raise DataError(name, None, "is a damaged gzip file", "export it again") from None
        except OSError as error:
            raise data_error(error, name) from None
        except UnicodeDecodeError:
            raise DataError(name, None, "is not UTF-16 text", "save it as UTF-8") from None
        self.files.append(ResourceFile(path, name, by_line, state, span))
        return len(self.files) - 1

    def _unpack(self, path: Path, name: str, encoding: str) -> tuple[int, int]:
        """Append a file's content as UTF-8 to the temporary file; its first byte and its end."""
        if self._copy is None:
            make_folder(cache_folder())
            self._copy = TemporaryFile(dir=cache_folder())  # noqa: SIM115
        start = self._copy.seek(0, os.SEEK_END)
        decoder = codecs.getincrementaldecoder(encoding)() if encoding else None
        with _opened(path) as opened:
            while block := opened.read(_BLOCK):
                self._copy.write(decoder.decode(block).encode() if decoder else block)
                if self._copy.tell() > _LARGEST_UNPACKED:
                    reason = f"unpacks to more than {_LARGEST_UNPACKED >> 30} GB"
                    raise DataError(name, None, reason, "unpack and split it")
        self._copy.flush()
        return start, self._copy.tell()

    def resources(
        self,
        number: int,
        reasons: Reasons,
        is_entered: Callable[[bytes, int, int, int, int], bool] | None = None,
    ) -> Iterator[tuple[Member, ResourcePlace, bool]]:
        """Each resource of a file with its place, and whether it may have modifier extensions.

        Lines that are no JSON enter ``reasons``; raises DataError where the file is none.
        ``is_entered``: of a line without such extensions, by its content, file, line, offset and
        length, whether it needs not be parsed any more.
        """
        file = self.files[number]
        if not file.by_line:
            inside, extended = file.members()
            self._documents.get((number, 0), lambda: inside)
            for position, member in enumerate(inside, 1):
                yield member, ResourcePlace(number, position, 0, 0, position), extended
            self._documents.clear()
            return
        with self._content(file) as (opened, start, end):
            for line, offset, length, content in _lines(opened, start, end):
                if not content:
                    reason = f"is a line of more than {LONGEST_LINE >> 20} MB — split the resource"
                    reasons.add(file.name, line, reason)
                    continue
                extended = _MODIFIER in content
                enter = None if extended else is_entered
                if enter is not None and enter(content, number, line, offset, length):
                    continue
                try:
                    document = read_document(content, file.name, line, _PER_LINE)
                except DataError as error:
                    reasons.add(file.name, line, f"{error.reason} — {error.remedy}")
                    continue
                if not (isinstance(document, list) or _is_bundle(document)):
                    yield Member(document), ResourcePlace(number, line, offset, length, 0), extended
                    continue
                for position, member in enumerate(members(document), 1):
                    yield member, ResourcePlace(number, line, offset, length, position), extended

    @contextmanager
    def _content(self, file: ResourceFile) -> Generator[tuple[BinaryIO, int, int]]:
        """An NDJSON file's content, at its first byte, with that byte's offset and the end's."""
        if file.unpacked is None:
            with open_file(file.path, LARGEST_TABLE) as opened:
                yield opened, 0, file.state[0] + 1
        elif self._copy is not None:
            self._copy.seek(file.unpacked[0])
            yield self._copy, *file.unpacked

    def reading(self) -> PlaceReader:
        """Reads resources at their places."""
        return PlaceReader(self.files, self._copy, self._documents)


def _lines(opened: BinaryIO, offset: int, end: int) -> Iterator[tuple[int, int, int, bytes]]:
    line, buffered = 0, cast(io.BufferedReader, opened)
    while offset < end and (content := opened.readline(min(LONGEST_LINE, end - offset))):
        line += 1
        length, begin = len(content), offset
        if length >= LONGEST_LINE and not content.endswith(b"\n"):
            while content and not content.endswith(b"\n"):
                content = opened.readline(LONGEST_LINE)
                length += len(content)
            content = b""
        offset += length
        if not content.isspace():
            yield line, begin, length, content
            continue
        ahead = buffered.peek()  # blank lines are passed over a buffer at a time
        blank = ahead[: min(len(ahead) - len(ahead.lstrip()), end - offset)]
        passed = opened.read(blank.rfind(b"\n") + 1)
        line, offset = line + passed.count(b"\n"), offset + len(passed)


class PlaceReader:
    """Reads resources at their places, as for one record; the state of each file is checked
    once."""

    def __init__(
        self,
        files: list[ResourceFile],
        copy: BinaryIO | None,
        documents: LRU[list[Member]],
    ) -> None:
        self._files, self._copy = files, copy
        self._documents = documents
        self._checked: set[int] = set()

    def __call__(self, place: ResourcePlace) -> Any:
        """The resource at a place; raises DataError where its file changed."""
        file = self._checked_file(place.file)
        if not place.position:
            return self._read(self._content(file, place, place.length), file, place)
        try:
            inside = self._documents.get(
                (place.file, place.offset), lambda: self._members(file, place)
            )
            return inside[place.position - 1].resource
        except (DataError, IndexError):
            reason = "changed while it was read"
            raise DataError(file.name, place.line, reason, "open the cohort again") from None

    def _members(self, file: ResourceFile, place: ResourcePlace) -> list[Member]:
        if not file.by_line:
            return file.members()[0]
        return members(self._read(self._content(file, place, place.length), file, place))

    def each(self, places: Sequence[ResourcePlace]) -> Iterator[Any]:
        """The resources at places in order; lines that follow each other are read at once.

        Raises DataError where a file changed.
        """
        for run in _runs(places):
            first, last = run[0], run[-1]
            if first.position:
                yield self(first)
                continue
            file = self._checked_file(first.file)
            begin = first.offset
            content = self._content(file, first, last.offset + last.length - begin)
            for place in run:
                _, _, offset, length, _ = place
                yield self._read(content[offset - begin : offset - begin + length], file, place)

    def _checked_file(self, number: int) -> ResourceFile:
        file = self._files[number]
        if number not in self._checked:
            file.check()
            self._checked.add(number)
        return file

    def _content(self, file: ResourceFile, place: ResourcePlace, length: int) -> bytes:
        """Bytes of a file of lines from a place on; raises DataError."""
        try:
            if self._copy is not None and file.unpacked is not None:
                return os.pread(self._copy.fileno(), length, place.offset)
            with open_file(file.path, LARGEST_TABLE) as opened:
                return os.pread(opened.fileno(), length, place.offset)
        except OSError as error:
            raise data_error(error, file.name) from None

    def _read(self, content: bytes, file: ResourceFile, place: ResourcePlace) -> Any:
        try:
            return read_document(content, file.name, place.line)
        except DataError:
            reason = "changed while it was read"
            raise DataError(file.name, place.line, reason, "open the cohort again") from None


def _runs(places: Sequence[ResourcePlace]) -> Iterator[Sequence[ResourcePlace]]:
    """Places that are read at once: lines of a file that follow each other, or one place."""
    start = 0
    for number in range(1, len(places) + 1):
        first, before = places[start], places[number - 1]
        if number < len(places):
            gap = places[number].offset - before.offset - before.length
            same = places[number].file == first.file and not places[number].position
            size = places[number].offset - first.offset
            if same and not first.position and 0 <= gap < _BLOCK >> 8 and size < _BLOCK:
                continue
        yield places[start:number]
        start = number
