"""Files that a person brings, read in one way: named in messages, unpacked, decoded and parsed.

A reader of a format gets a :class:`Source` and no path; whatever keeps a file from being read is a
DataError of one line.
"""

from __future__ import annotations

import errno
import gzip
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from os.path import lexists
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from typing import IO, TYPE_CHECKING, Any, cast

from midchart.core.confinement import OVER_LIMIT
from midchart.core.errors import DataError
from midchart.core.parsing import decode_as, parse_xml, read_json, valid_unicode, xml_text
from midchart.core.regular_files import open_regular
from midchart.core.storage.archives import UntrustedZip
from midchart.core.storage.encodings import decoded
from midchart.core.storage.staging import temporary_folder

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

DEEP = "**/*"
"""The pattern of everything below a folder."""
MOST_ZIP_FILES = 10_000
LARGEST_ZIP_FILE = 4 << 30
"""Bytes of a file of a zip that is read, uncompressed."""
DAMAGED = "is damaged or no gzip file"
_DAMAGES = (EOFError, zlib.error, gzip.BadGzipFile)
_REASONS = {
    errno.ENOENT: ("there is no such file", "check the path"),
    errno.EACCES: ("may not be read", "give yourself read permission"),
    errno.EPERM: ("may not be read", "give yourself read permission"),
    errno.ELOOP: ("is a symbolic link that leads in a circle", "remove or repair the link"),
    errno.EISDIR: ("is a folder where a file should be", "move it out of the cohort"),
    errno.EXDEV: ("is a link out of its folder", "copy the file itself there"),
    errno.ENODEV: ("is a pipe, socket or device", "move it out of the cohort"),
    errno.ENXIO: ("is a pipe, socket or device", "move it out of the cohort"),
    errno.ETIME: (OVER_LIMIT, "split it"),
}

_NOT_OPENED = {
    DAMAGED,
    *(_REASONS[n][0] for n in (errno.EXDEV, errno.ENODEV, errno.EISDIR, errno.ETIME)),
}
"""Of what is damaged, or may not be opened as a cohort's file."""


def data_error(error: OSError, name: str) -> DataError:
    """An operating system's error about the file ``name`` in one line."""
    reason, remedy = _REASONS.get(
        error.errno or 0, (f"cannot be read ({error.strerror or type(error).__name__})", "")
    )
    return DataError(name, None, reason, remedy)


@contextmanager
def reading_file(name: str) -> Generator[None]:
    """Raise DataError where the operating system cannot read the file ``name``, or where it is
    packed and damaged."""
    try:
        yield
    except _DAMAGES:
        raise DataError(name, None, DAMAGED, "pack it again") from None
    except OSError as error:
        raise data_error(error, name) from None


def is_utf8(name: str) -> bool:
    """Whether the name of a file is UTF-8."""
    return name.isascii() or valid_unicode(name) == name


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is no part of a cohort: no loader reads it. One whose
    name is not UTF-8 is named as left out when the cohort is opened."""
    return name.startswith(".") or name == "__MACOSX" or not is_utf8(name)


def name_parts(name: str) -> tuple[str, str]:
    """The stem and the ending, in lower case, of a file's name, both without ``.gz``."""
    path = PurePosixPath(name)
    unpacked = PurePosixPath(path.stem) if path.suffix.lower() == ".gz" else path
    return unpacked.stem, unpacked.suffix.lower()


@dataclass(frozen=True)
class Source:
    """A file or folder at ``path`` in the folder ``root``, from which messages name it, or the
    file ``member`` of a zip there.

    What reads it raises DataError, also where it is a link out of its folder, a pipe, or over a
    limit of a confined process. A name that ends in ``.gz`` is a packed file's.
    """

    path: Path
    root: Path
    member: str = ""

    @classmethod
    def at(cls, path: str | Path) -> Source:
        """The file or folder at a path, named from that folder or the one around the file."""
        place = Path(path)
        return cls(place, place if place.is_dir() else place.parent)

    def within(self, name: str) -> Source:
        """What has a name in this folder."""
        return Source(self.path / name, self.root)

    def with_name(self, name: str) -> Source:
        """What has a name in the folder of this file."""
        return Source(self.path.with_name(name), self.root)

    @cached_property
    def name(self) -> str:
        """Its name in messages: its path from the folder, or else its own name."""
        path, root = self.path, self.root
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        return f"{name}/{self.member}" if self.member else name

    @cached_property
    def ending(self) -> str:
        """The ending of its name in lower case, without ``.gz``."""
        return name_parts(self.own_name)[1]

    @cached_property
    def stem(self) -> str:
        """Its own name without its endings."""
        return name_parts(self.own_name)[0]

    @cached_property
    def own_name(self) -> str:
        """Its name without folders."""
        return PurePosixPath(self.member or self.path.name).name

    @property
    def _is_packed(self) -> bool:
        return self.own_name[-3:].lower() == ".gz"

    def exists(self) -> bool:
        """Whether anything is there, also a link that leads nowhere."""
        return lexists(self.path)

    @property
    def size(self) -> int:
        """Its bytes on disk."""
        with reading_file(self.name):
            return self.path.stat().st_size

    def is_file(self) -> bool:
        """Whether it is a file, or a link to one."""
        return self.path.is_file()

    def is_folder(self) -> bool:
        """Whether it is a folder, or a link to one."""
        return self.path.is_dir()

    def entries(self, *patterns: str) -> list[Source]:
        """Itself where it is a file, else what is in the folder, or what ``patterns`` find in it,
        in the order of names, hidden ones left out."""
        if self.path.is_file():
            return [self]
        depth, place = len(self.path.parts), self.path
        with reading_file(self.name):
            paths = chain.from_iterable(map(place.glob, patterns)) if patterns else place.iterdir()
            visible = [path for path in paths if not any(map(is_hidden, path.parts[depth:]))]
        visible.sort(key=lambda path: path.parts)  # as paths compare, but faster
        return [Source(path, self.root) for path in visible]

    @contextmanager
    def open(self) -> Generator[IO[bytes]]:
        """The file opened for reading, unpacked; also what the caller reads of it raises only
        DataError."""
        with reading_file(self.name), self._opened() as file:
            if self._is_packed:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield cast("IO[bytes]", unpacked)
            else:
                yield file

    @contextmanager
    def _opened(self) -> Generator[IO[bytes]]:
        if not self.member:
            with open_regular(self.path) as file:
                yield file
            return
        with self.zip() as archive:
            archive.check(MOST_ZIP_FILES, LARGEST_ZIP_FILE, [self.member])
            with archive.open(self.member) as file:
                yield file

    @contextmanager
    def zip(self) -> Generator[UntrustedZip]:
        """The zip that it is, or that it is in, opened."""
        name = Source(self.path, self.root).name
        with reading_file(name), UntrustedZip(self.path, name) as archive:
            yield archive

    def members(self) -> list[Source]:
        """The files in a zip that are not hidden."""
        with self.zip() as archive:
            names = [n for n in archive.names if not any(map(is_hidden, PurePosixPath(n).parts))]
        return [Source(self.path, self.root, name) for name in names]

    @contextmanager
    def on_disk(self) -> Generator[Source]:
        """This file on the disk; a member of a zip is unpacked into a temporary folder. Raises
        DataError."""
        if not self.member:
            with self.open():
                yield self
            return
        with temporary_folder() as folder:
            place = folder / self.own_name
            with reading_file(self.name), self._opened() as file, place.open("wb") as unpacked:
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
        """It as a string of DuckDB's SQL; raises duckdb.IOException."""
        from midchart.core.storage.sql_files import sql_file

        return sql_file(self.path)
