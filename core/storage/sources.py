"""Files that a person brings, read in one way: named in messages, unpacked, decoded and parsed.

A reader of a format gets a :class:`Source` and no path: what leads out of its folder, is no regular
file or is over a limit is not opened, and a file that cannot be read raises a DataError of one
line. Nothing is unpacked by a name or size that the maker of a zip chose.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, file_digest
from itertools import chain
from os.path import lexists
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from midchart.core.confinement import OVER_LIMIT
from midchart.core.errors import DataError
from midchart.core.parsing import decode_as, literal, parse_xml, read_json, valid_unicode, xml_text
from midchart.core.storage.encodings import decoded
from midchart.core.storage.files import FileState, file_state, temporary_folder
from midchart.core.types import Skip

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

DEEP = "**/*"
"""The pattern of everything below a folder."""
_MOST_ZIP_FILES = 10_000
_LARGEST_ZIP_FILE = 4 << 30
"""Bytes of a file of a zip that is read, uncompressed."""
_RATIO, _UNPACKED = 250, 4 << 20
"""How many times its packed size, beyond some bytes, a zip unpacks to. Text of records reaches 130:
indented FHIR of vital signs each minute. Deflate reaches 1,032."""
_ENCRYPTED = 0x01 | 0x20 | 0x40
"""Flags of a member that is encrypted or a patch, which zipfile does not read."""
_DAMAGED_ZIP = (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, zlib.error, struct.error)
_DAMAGED_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
DAMAGED = "is damaged or no gzip file"
_LINK_OUT = ("is a link out of its folder", "copy the file itself there")
_NO_FILE = ("is a pipe, socket or device", "move it out of the cohort")
_FOLDER = ("is a folder where a file should be", "move it out of the cohort")
_REASONS = {
    errno.ENOENT: ("there is no such file", "check the path"),
    errno.EACCES: ("may not be read", "give yourself read permission"),
    errno.EPERM: ("may not be read", "give yourself read permission"),
    errno.ELOOP: ("is a symbolic link that leads in a circle", "remove or repair the link"),
    errno.EISDIR: _FOLDER,
    errno.ENXIO: _NO_FILE,
}
_NOT_OPENED = {DAMAGED, OVER_LIMIT, _LINK_OUT[0], _NO_FILE[0], _FOLDER[0]}
"""Of what is damaged, or may not be opened as a cohort's file."""


def watched(name: str, bytes: int) -> bool:
    """Whether a confined process may read a file, or a record, or it is over a limit; the process
    sets this."""
    return True


@contextmanager
def reading_file(name: str) -> Generator[None]:
    """Raise DataError where the operating system cannot read the file ``name``, or where it is
    packed and damaged."""
    try:
        yield
    except _DAMAGED_GZIP:
        raise DataError(name, None, DAMAGED, "pack it again") from None
    except OSError as error:
        kind = error.strerror or type(error).__name__
        reason, remedy = _REASONS.get(error.errno or 0, (f"cannot be read ({kind})", ""))
        raise DataError(name, None, reason, remedy) from None


def _is_utf8(name: str) -> bool:
    return name.isascii() or valid_unicode(name) == name


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is no part of a cohort: no loader reads it. One whose
    name is not UTF-8 is named as left out when the cohort is opened."""
    return name.startswith(".") or name == "__MACOSX" or not _is_utf8(name)


def name_parts(name: str) -> tuple[str, str]:
    """The stem and the ending, in lower case, of a file's name, both without ``.gz``."""
    path = PurePosixPath(name)
    unpacked = PurePosixPath(path.stem) if path.suffix.lower() == ".gz" else path
    return unpacked.stem, unpacked.suffix.lower()


@dataclass(frozen=True)
class Source:
    """A file or folder in the cohort's folder ``root``, from which messages name it, or the file
    ``member`` of a zip there.

    What reads it raises DataError, also where it is a link out of its folder, a pipe, or over a
    limit of a confined process. A name that ends in ``.gz`` is a packed file's.
    """

    _path: Path
    root: Path
    member: str = ""

    @classmethod
    def at(cls, path: str | Path) -> Source:
        """The file or folder at a path, named from that folder or the one around the file."""
        place = Path(path)
        return cls(place, place if place.is_dir() else place.parent)

    @property
    def cohort(self) -> Source:
        """The cohort's folder."""
        return Source(self.root, self.root)

    @property
    def parent(self) -> Source:
        """The folder that it is in."""
        return Source(self._path.parent, self.root)

    def within(self, name: str) -> Source:
        """What has a name in this folder."""
        return Source(self._path / name, self.root)

    @cached_property
    def name(self) -> str:
        """Its name in messages: its path from the folder, or else its own name."""
        path, root = self._path, self.root
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        return f"{name}/{self.member}" if self.member else name

    @cached_property
    def own_name(self) -> str:
        """Its name without folders."""
        return PurePosixPath(self.member or self._path.name).name

    @cached_property
    def stem(self) -> str:
        """Its own name without its endings."""
        return name_parts(self.own_name)[0]

    @cached_property
    def ending(self) -> str:
        """The ending of its name in lower case, without ``.gz``."""
        return name_parts(self.own_name)[1]

    def exists(self) -> bool:
        """Whether anything is there, also a link that leads nowhere."""
        return lexists(self._path)

    def is_file(self) -> bool:
        """Whether it is a file, or a link to one."""
        return self._path.is_file()

    def is_folder(self) -> bool:
        """Whether it is a folder, or a link to one."""
        return self._path.is_dir()

    def leads_out(self) -> bool:
        """Whether it is a link out of its folder, which is not read."""
        real, inside = map(os.path.realpath, (self._path, self._path.parent))
        return self._path.is_symlink() and not Path(real).is_relative_to(inside)

    @property
    def size(self) -> int:
        """Its bytes on disk."""
        with reading_file(self.name):
            return self._path.stat().st_size

    @property
    def state(self) -> FileState | None:
        """What changes with the file (:func:`midchart.core.storage.files.file_state`)."""
        return file_state(self._path)

    @property
    def digest(self) -> bytes:
        """A hash of its bytes on disk."""
        with self.packed() as file:
            opened: Any = file
            return file_digest(opened, lambda: blake2b(digest_size=20)).digest()

    def entries(self, *patterns: str) -> list[Source]:
        """Itself where it is a file, else what is in the folder, or what ``patterns`` find in it,
        in the order of names, hidden ones left out."""
        if self.is_file():
            return [self]
        depth, place = len(self._path.parts), self._path
        with reading_file(self.name):
            paths = chain.from_iterable(map(place.glob, patterns)) if patterns else place.iterdir()
            visible = [path for path in paths if not any(map(is_hidden, path.parts[depth:]))]
        visible.sort(key=lambda path: path.parts)  # as paths compare, but faster
        return [Source(path, self.root) for path in visible]

    def members(self) -> list[Source]:
        """The files in a zip that are not hidden."""
        with self.packed() as file:
            names = UntrustedZip(file, self.name).names
        visible = (n for n in names if not any(map(is_hidden, PurePosixPath(n).parts)))
        return [Source(self._path, self.root, name) for name in visible]

    def _regular(self) -> BinaryIO:
        """The file on the disk, opened for reading; nothing waits for a pipe's writer. Raises
        OSError, and DataError where it is not to be read."""
        if self.leads_out():
            raise DataError(self.name, None, *_LINK_OUT)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
        file = open(self._path, "rb", opener=lambda at, _: os.open(at, flags))  # noqa: SIM115
        state = os.fstat(file.fileno())
        is_regular = stat.S_ISREG(state.st_mode)
        if is_regular and watched(str(self._path), state.st_size):
            return file
        file.close()
        raise DataError(self.name, None, *((OVER_LIMIT, "split it") if is_regular else _NO_FILE))

    @contextmanager
    def packed(self) -> Generator[IO[bytes]]:
        """The file opened for reading as it is on the disk or in its zip; also what the caller
        reads of it raises only DataError."""
        with reading_file(self.name), self._regular() as file:
            if not self.member:
                yield file
                return
            archive = UntrustedZip(file, Source(self._path, self.root).name)
            archive.check(_MOST_ZIP_FILES, _LARGEST_ZIP_FILE, [self.member])
            with archive.open(self.member) as member:
                yield member

    @contextmanager
    def open(self) -> Generator[IO[bytes]]:
        """The file opened for reading, unpacked; raises as :meth:`packed`."""
        with self.packed() as file:
            if self.own_name[-3:].lower() == ".gz":
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield cast("IO[bytes]", unpacked)
            else:
                yield file

    @contextmanager
    def on_disk(self) -> Generator[Source]:
        """This file on the disk; a member of a zip is unpacked into a temporary folder. Raises
        DataError."""
        if not self.member:
            with self.packed():
                yield self
            return
        with temporary_folder() as folder:
            place = folder / self.own_name
            with self.packed() as file, place.open("wb") as unpacked:
                copyfileobj(file, unpacked)
            yield Source.at(place)

    def content(self) -> bytes:
        """Its bytes."""
        with self.open() as file:
            return file.read()

    def start(self, length: int) -> bytes:
        """The first bytes of it; none of what is damaged or may not be opened as a cohort's
        file."""
        try:
            with self.open() as file:
                return file.read(length)
        except DataError as error:
            if error.reason in _NOT_OPENED:
                return b""
            raise

    def text(self) -> str:
        """Its text in UTF-8 without a byte-order mark, line ends unchanged."""
        return decode_as(self.content(), "utf-8-sig", self.name, "UTF-8")

    def decoded(self) -> tuple[str, str]:
        """Its text in any encoding, and which one that is (:func:`.encodings.decoded`)."""
        return decoded(self.content(), self.name)

    def json(self, remedy: str = "", unique: bool = False) -> Any:
        """The value of its JSON document (:func:`midchart.core.parsing.read_json`)."""
        return read_json(self.text(), self.name, remedy=remedy, unique=unique)

    def xml(self) -> Element:
        """The root of its XML document (:func:`midchart.core.parsing.parse_xml`)."""
        return parse_xml(xml_text(self.content(), self.name), self.name)

    @property
    def sql(self) -> str:
        """It as a string of DuckDB's SQL."""
        with self.packed():
            return literal(self._path)

    def csv_rows(self, columns: Sequence[str], delimiter: str = ",") -> str:
        """SQL that reads all columns of a CSV with a one-line header as text; malformed lines are
        listed in DuckDB's table ``reject_errors``. The dialect is given explicitly: DuckDB's
        detection takes seconds and gigabytes of memory for some headers."""
        names = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in columns)
        return (
            f"read_csv({self.sql}, header=false, skip=1, auto_detect=false, null_padding=false, "
            f"columns={{{names}}}, delim={literal(delimiter)}, quote='\"', escape='\"', "
            "comment='', store_rejects=true, rejects_limit=0, max_line_size=67108864)"
        )


def files_at(place: str) -> Iterator[FileState]:
    """The state of a regular file itself, or of those in a folder and then in each of its folders,
    by their names; raises OSError."""

    def fail(error: OSError) -> None:
        raise error

    if (state := file_state(place)) is not None:
        yield state
    for inside, folders, names in os.walk(place, onerror=fail) if Path(place).is_dir() else ():
        folders.sort()
        for name in sorted(names):
            if (state := file_state(f"{inside}/{name}")) is not None:
                yield state


def check_folder(root: Path) -> list[Skip]:
    """Raise DataError for a folder in the cohort's folder ``root`` that is a link out of it, or to
    a hidden folder, whose files are no records. Gives what is left out for its name's sake."""
    inside = root.resolve()
    left_out: list[Skip] = []
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            if not _is_utf8(name):
                place = valid_unicode(Source(Path(folder, name), root).name)
                left_out.append(Skip(place, None, "has a name that is not UTF-8 — rename it"))
        for link in filter(Path.is_symlink, (Path(folder, name) for name in names)):
            place = link.resolve()
            if not place.is_relative_to(inside):
                what = "is a link out of the cohort's folder"
            elif any(part.startswith(".") for part in place.relative_to(inside).parts):
                what = "is a link to a hidden folder of the cohort"
            else:
                continue
            raise DataError(Source(link, root).name, None, what, "copy the folder itself there")
    return left_out


# Zips.


def relative_path(name: str) -> PurePosixPath:
    """A file's path below a folder; raises DataError for a name that leads out of it."""
    path, length = PurePosixPath(name), max(map(len, name.encode("utf-8", "replace").split(b"/")))
    refused = {
        "has a name that is refused": "\x00" in name or "\\" in name or not _is_utf8(name),
        "leads out of its folder": path.is_absolute() or ".." in path.parts,
        "has a name of more than 240 bytes": length > 240 or len(name) > 1_000,
    }
    for reason, holds in refused.items():
        if holds:
            raise DataError(valid_unicode(name)[:60], None, reason, "rename the file")
    return path


class UntrustedZip:
    """A zip in an open file that somebody else made; ``label`` names it in errors.

    ``names``: its files. A file is readable once :meth:`check` has admitted it. Every fault of the
    zip is a DataError of one line.
    """

    def __init__(self, file: IO[bytes], label: str) -> None:
        self._label = label
        try:
            self._archive = zipfile.ZipFile(file)
        except NotImplementedError:  # zipfile's error for a later version of the format
            raise self._refused("needs a later version of zip than is supported") from None
        except (*_DAMAGED_ZIP, ValueError, OverflowError):  # offsets and names that cannot be
            raise self._refused("is damaged or is no zip") from None
        self._size = file.seek(0, io.SEEK_END)
        self._infos = [info for info in self._archive.infolist() if not info.is_dir()]
        self.names = [info.filename for info in self._infos]
        self._checked: dict[str, zipfile.ZipInfo] = {}

    def check(
        self, most_files: int, most_bytes: int, only: Collection[str] | None = None
    ) -> dict[str, int]:
        """Uncompressed size of each file by name; ``only``: of these, within the limits on bytes.

        Refuses links and special files, names that lead out of a folder or occur twice, more files
        or bytes than that, and what unpacks to :data:`_RATIO` times the zip's size.
        """
        if len(self._infos) > most_files:
            limit = f"holds {len(self._infos):,} files, more than {most_files:,}"
            raise self._refused(limit, "split it")
        paths: set[PurePosixPath] = set()
        for info in self._infos:
            path = relative_path(info.filename)
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                raise self._refused("holds a link or a special file", "pack the files themselves")
            if path in paths:
                raise self._refused(f"holds {info.filename[:80]!r} twice")
            paths.add(path)
        if sum(info.file_size for info in self._infos) > _UNPACKED + _RATIO * self._size:
            raise self._refused("is a zip bomb", "unpack it, and import what it holds")
        wanted = self._infos if only is None else [i for i in self._infos if i.filename in only]
        if sum(info.file_size for info in wanted) > most_bytes:
            limit = f"unpacks to more than {most_bytes / (1 << 30):g} GiB uncompressed"
            raise self._refused(limit, "unpack it into a folder, or split it")
        self._checked |= {info.filename: info for info in wanted}
        return {info.filename: info.file_size for info in wanted}

    @contextmanager
    def open(self, name: str) -> Generator[IO[bytes]]:
        """The bytes of a file that :meth:`check` admitted, never more than it declared."""
        info = self._checked[name]
        shown = repr(name[-80:])
        if info.flag_bits & _ENCRYPTED:
            raise self._refused(f"holds {shown} encrypted", "pack it without a password")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            reason = f"holds {shown} packed by a method that is not read"
            raise self._refused(reason, "pack it by deflate")
        damaged = self._refused(f"holds {shown} damaged")
        try:
            member = self._archive.open(info)
        except (*_DAMAGED_ZIP, ValueError):  # a place before the file's beginning
            raise damaged from None
        try:
            with member:
                yield member
        except _DAMAGED_ZIP:
            raise damaged from None

    def _refused(self, reason: str, remedy: str = "pack it again") -> DataError:
        return DataError(self._label, None, reason, remedy)
