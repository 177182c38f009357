"""Zip files that somebody else made; nothing is unpacked by a name or size that they chose."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from midchart.core.errors import DataError
from midchart.core.parsing import valid_unicode
from midchart.core.regular_files import open_regular

RATIO, UNPACKED = 250, 4 << 20
"""How many times its packed size, beyond some bytes, a zip unpacks to. Text of records reaches 130:
indented FHIR of vital signs each minute. Deflate reaches 1,032."""
ENCRYPTED = 0x01 | 0x20 | 0x40
"""Flags of a member that is encrypted or a patch, which zipfile does not read."""
_DAMAGED = (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, zlib.error, struct.error)


def relative_path(name: str) -> PurePosixPath:
    """A file's path below a folder; raises DataError for a name that leads out of it."""
    path, length = PurePosixPath(name), max(map(len, name.encode("utf-8", "replace").split(b"/")))
    refused = {
        "has a name that is refused": "\x00" in name or "\\" in name or valid_unicode(name) != name,
        "leads out of its folder": path.is_absolute() or ".." in path.parts,
        "has a name of more than 240 bytes": length > 240 or len(name) > 1_000,
    }
    for reason, holds in refused.items():
        if holds:
            raise DataError(valid_unicode(name)[:60], None, reason, "rename the file")
    return path


class UntrustedZip(AbstractContextManager["UntrustedZip"]):
    """A zip file, opened; ``label`` names it in errors.

    ``names``: its files. A file is readable once :meth:`check` has admitted it. Every fault of the
    zip is a DataError of one line.
    """

    def __init__(self, source: Path | IO[bytes], label: str) -> None:
        self._label = label
        with ExitStack() as stack:
            if isinstance(source, Path):
                source = stack.enter_context(open_regular(source))
            try:
                self._archive = stack.enter_context(zipfile.ZipFile(source))
            except NotImplementedError:  # zipfile's error for a later version of the format
                raise self._refused("needs a later version of zip than is supported") from None
            except (*_DAMAGED, ValueError, OverflowError):  # offsets and names that cannot be
                raise self._refused("is damaged or is no zip") from None
            self._size = source.seek(0, io.SEEK_END)
            self._open = stack.pop_all()
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
        or bytes than that, and what unpacks to :data:`RATIO` times the zip's size.
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
        if sum(info.file_size for info in self._infos) > UNPACKED + RATIO * self._size:
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
        if info.flag_bits & ENCRYPTED:
            raise self._refused(f"holds {shown} encrypted", "pack it without a password")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            reason = f"holds {shown} packed by a method that is not read"
            raise self._refused(reason, "pack it by deflate")
        damaged = self._refused(f"holds {shown} damaged")
        try:
            member = self._archive.open(info)
        except (*_DAMAGED, ValueError):  # a place before the file's beginning
            raise damaged from None
        try:
            with member:
                yield member
        except _DAMAGED:
            raise damaged from None

    def _refused(self, reason: str, remedy: str = "pack it again") -> DataError:
        return DataError(self._label, None, reason, remedy)
