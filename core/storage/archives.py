"""Reads zip and gzip files that somebody else made; nothing is unpacked by a name or size that they
chose."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from midchart.core.errors import DataError
from midchart.core.parsing import valid_unicode
from midchart.core.regular_files import open_regular

RATIO, UNPACKED = 250, 4 << 20
"""How many times its packed size, beyond some bytes, a file unpacks to. Text of records reaches
130: indented FHIR of vital signs each minute; generated exports of FHIR as lines, with ids in
sequence, 70 to 105, of any size. Deflate reaches 1,032."""
HELD_RATIO, HELD_UNPACKED = 60, 32 << 20
"""The same of what is not read as a stream, and large: C-CDA and notes that were measured reach
20."""
LARGEST_PACKED = 64 << 20
"""Bytes to which a packed JSON document unpacks, which is parsed as a whole."""
ENCRYPTED = 0x01 | 0x20 | 0x40
"""Flags of a member that is encrypted or a patch, which zipfile does not read."""
DAMAGED = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, zlib.error, struct.error),
    *(ValueError, OverflowError),  # offsets, sizes and names that cannot be
)


TOO_PACKED = "unpack it, and import what it holds"


def most_unpacked(packed: int, held: bool = True) -> int:
    """The bytes to which so many packed ones may unpack; ``held``: not read as a stream."""
    most = UNPACKED + RATIO * packed
    return min(most, HELD_UNPACKED + HELD_RATIO * packed) if held else most


def refuse_unpacked(
    unpacked: int, packed: int, name: str, remedy: str = TOO_PACKED, held: bool = True
) -> None:
    """Raise DataError for more unpacked bytes than so many packed ones may unpack to."""
    if unpacked > (most := most_unpacked(packed, held)):
        reason = f"unpacks to over {most >> 20:,} MB, as no text of records of its size"
        raise DataError(name, None, reason, remedy)


def largest_document(path: Path, largest: int) -> int:
    """The bytes of a JSON document, ``largest`` unless it is packed."""
    return min(largest, LARGEST_PACKED) if path.suffix.lower() == ".gz" else largest


def relative_path(name: str) -> PurePosixPath:
    """A file's path below a folder; raises DataError for a name that leads out of it."""
    if "\x00" in name or "\\" in name or len(name.encode("utf-8", "replace")) > 1_000:
        raise DataError(name[:60], None, "has a name that is refused", "rename the file")
    if valid_unicode(name) != name:
        raise DataError(valid_unicode(name)[:60], None, "is no valid Unicode", "rename the file")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise DataError(name[:60], None, "leads out of its folder", "pack it again")
    if any(len(part.encode("utf-8", "replace")) > 240 for part in path.parts):
        raise DataError(name[:60], None, "has a name of more than 240 bytes", "rename the file")
    return path


class UntrustedZip(AbstractContextManager["UntrustedZip"]):
    """A zip file, opened; ``label`` names it in errors.

    ``names``: its files. A file is readable once :meth:`check` has admitted it. Every fault of the
    zip is a DataError of one line.
    """

    def __init__(self, source: Path | IO[bytes], label: str) -> None:
        self._label = label
        self._open = ExitStack()
        if isinstance(source, Path):
            source = self._open.enter_context(open_regular(source))
        try:
            self._archive = self._open.enter_context(zipfile.ZipFile(source))
        except NotImplementedError:  # zipfile's error for a later version of the format
            self._open.close()
            raise self._refused("needs a later version of zip than is supported") from None
        except DAMAGED:
            self._open.close()
            raise self._refused("is damaged or is no zip") from None
        self._size = source.seek(0, io.SEEK_END)
        self._infos = [info for info in self._archive.infolist() if not info.is_dir()]
        self.names = [info.filename for info in self._infos]
        self._checked: dict[str, zipfile.ZipInfo] = {}

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check(
        self, most_files: int, most_bytes: int, only: Collection[str] | None = None
    ) -> dict[str, int]:
        """Uncompressed size of each file by name; ``only``: of these, within the limits on bytes.

        Refuses links and special files, names that lead out of a folder or occur twice, more files
        or bytes than that, and what unpacks to over :func:`most_unpacked` of the zip's size.
        """
        if len(self._infos) > most_files:
            limit = f"holds {len(self._infos):,} files, more than {most_files:,}"
            raise self._refused(limit, "split it")
        paths: set[PurePosixPath] = set()
        for info in self._infos:
            path = relative_path(info.filename)
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise self._refused("holds a link or a special file", "pack the files themselves")
            if path in paths:
                raise self._refused(f"holds {info.filename[:80]!r} twice")
            paths.add(path)
            if only is None or info.filename in only:
                self._checked[info.filename] = info
        if sum(info.file_size for info in self._infos) > most_unpacked(self._size):
            raise self._refused("is a zip bomb", TOO_PACKED)
        sizes = {name: info.file_size for name, info in self._checked.items()}
        if sum(sizes.values()) > most_bytes:
            limit = f"unpacks to more than {most_bytes / (1 << 30):g} GiB uncompressed"
            raise self._refused(limit, "unpack it into a folder, or split it")
        return sizes

    @contextmanager
    def open(self, name: str) -> Generator[UntrustedFile]:
        """The bytes of a file that :meth:`check` admitted, never more than it declared."""
        info = self._checked[name]
        if info.flag_bits & ENCRYPTED:
            raise self._refused(f"holds {name[-80:]!r} encrypted", "pack it without a password")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            reason = f"holds {name[-80:]!r} packed by a method that is not read"
            raise self._refused(reason, "pack it by deflate")
        damaged = self._refused(f"holds {name[-80:]!r} damaged")
        try:
            member = self._archive.open(info)
        except DAMAGED:
            raise damaged from None
        with member:
            yield UntrustedFile(member, damaged)

    def _refused(self, reason: str, remedy: str = "pack it again") -> DataError:
        return DataError(self._label, None, reason, remedy)


class UntrustedFile:
    """A file of a zip: ``read(n)`` gives up to n bytes; raises DataError where it is damaged."""

    def __init__(self, member: Any, damaged: DataError) -> None:
        self._member, self._damaged = member, damaged

    def read(self, n: int) -> bytes:
        """At most ``n`` of the bytes that follow; none at the end."""
        try:
            return self._member.read(n)
        except DAMAGED:
            raise self._damaged from None


def untrusted_gzip(file: IO[bytes], name: str, size: int, held: bool = False) -> IO[bytes]:
    """What an opened gzip file of ``size`` bytes unpacks to; closing it closes the file.

    Reading raises DataError, which calls it ``name``, where they are too many for its size
    (``held``: where it is not read as a stream), and EOFError or zlib.error where it is damaged.
    """
    return io.BufferedReader(_Unpacked(file, name, size, held), _AT_ONCE)


_AT_ONCE = 1 << 18


class _Unpacked(io.RawIOBase):
    """What a gzip file unpacks to, counted."""

    def __init__(self, file: IO[bytes], name: str, size: int, held: bool) -> None:
        self._file, self._name, self._size, self._held = file, name, size, held
        self._gzip = gzip.GzipFile(fileobj=file)
        self._unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            data = self._gzip.read1(min(len(buffer), _AT_ONCE))
        except gzip.BadGzipFile as error:
            raise zlib.error(str(error)) from None
        self._unpacked += len(data)
        refuse_unpacked(self._unpacked, self._size, self._name, held=self._held)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()
