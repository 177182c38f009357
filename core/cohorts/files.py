"""Reading input files: errors in one line, files that change meanwhile, times."""

from __future__ import annotations

import codecs
import errno
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from midchart.core.confinement import OVER_LIMIT
from midchart.core.errors import DataError, one_line
from midchart.core.parsing import character_set, valid_unicode
from midchart.core.regular_files import open_regular, read_regular
from midchart.core.storage.files import FileState, times_of
from midchart.core.types import Account, Skip, UnsettledColumn

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_XML_ENCODING = re.compile(rb"""\s*<\?xml[^>]{0,100}\sencoding\s*=\s*["']([\w.:-]{1,40})["']""")
_DEEPEST_XML = 200
"""Levels of elements that an XML document may have."""

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


def data_error(error: OSError, name: str) -> DataError:
    """An operating system's error about the file ``name`` in one line."""
    reason, remedy = _REASONS.get(
        error.errno or 0, (f"cannot be read ({error.strerror or type(error).__name__})", "")
    )
    return DataError(name, None, reason, remedy)


@dataclass(frozen=True, slots=True)
class LoadLog:
    """What was skipped and what is doubtful, collected while one cohort is read, and what became
    of each part of its files."""

    skipped: list[Skip] = field(default_factory=list[Skip])
    warnings: list[str] = field(default_factory=list[str])
    accounts: dict[tuple[str, str], Account] = field(default_factory=dict[tuple[str, str], Account])
    unsettled: list[UnsettledColumn] = field(default_factory=list[UnsettledColumn])
    opened: set[Path] = field(default_factory=set[Path])
    """Files that the loader takes for its own, whether or not they could be read."""
    _entered: set[str] = field(default_factory=set[str], repr=False)

    def skip(self, file: str, line: int | None, reason: str) -> None:
        """Enter a part of the input that is left out."""
        self.skipped.append(Skip(one_line(file), line, one_line(reason)))

    def skip_error(self, error: DataError) -> None:
        """Enter a file or record that cannot be read while the rest still loads."""
        reason = error.reason + (f" — {error.remedy}" if error.remedy else "")
        self.skip(error.file, error.line, reason)

    def warn(self, warning: str) -> None:
        """Enter a warning once."""
        warning = one_line(warning)
        if warning not in self._entered:
            self._entered.add(warning)
            self.warnings.append(warning)

    def unsettle(self, column: str, readings: tuple[str, ...], statement: str) -> None:
        """Enter a column that may be read in several ways, and warn of it.

        ``statement`` says what is doubtful in which file and how it is read until a person says.
        """
        quoted = " or ".join(f'"{reading}"' for reading in readings)
        remedy = f'say which in midchart.toml: [columns] "{column}" = {quoted}'
        self.warn(f"{statement}; {remedy}")
        if all(known.column != column for known in self.unsettled):
            self.unsettled.append(UnsettledColumn(column, readings, one_line(statement)))

    def account(
        self,
        part: str,
        what: str,
        *,
        total: int,
        shown: int,
        reasons: Mapping[str, int] | None = None,
    ) -> None:
        """Enter what became of the ``what`` (rows, sections, …) of a file or record ``part``.

        ``total`` is counted in the source and not derived from the others, so that what is lost
        shows as unaccounted. A part that is read again replaces what was entered for it.
        """
        stated = tuple((reason, number) for reason, number in (reasons or {}).items() if number)
        self.accounts[part, what] = Account(int(total), int(shown), stated)

    @contextmanager
    def skipping(self, name: str) -> Generator[None]:
        """Skip the file ``name`` where reading it raises DataError or OSError."""
        try:
            yield
        except DataError as error:
            self.skip_error(error)
        except OSError as error:
            self.skip_error(data_error(error, name))

    def nothing_read(self, name: str, reason: str) -> DataError:
        """The error of a cohort with no readable part: its first skip, else ``reason``."""
        first = self.skipped[0] if self.skipped else Skip(name, None, reason)
        return DataError(first.file, first.line, first.reason)


def shown(path: Path, root: Path) -> str:
    """A file's name in messages: relative to the cohort's folder, or its name alone."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


@contextmanager
def reading_file(name: str) -> Generator[None]:
    """Raise DataError where the operating system cannot read the file ``name``."""
    try:
        yield
    except OSError as error:
        raise data_error(error, name) from None


def read_all(path: Path, name: str) -> bytes:
    """The bytes of a file, ``name`` in messages; raises DataError."""
    with reading_file(name):
        return read_regular(path)


def read_start(path: Path, length: int, line: bool = False) -> bytes:
    """The first ``length`` bytes of a file, or of its first line; none of what may not be opened as
    a cohort's file. Raises other OSErrors."""
    try:
        with open_regular(path) as file:
            return file.readline(length) if line else file.read(length)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ENODEV, errno.EISDIR, errno.ETIME):
            return b""
        raise


DEEP = "**/*"
"""The pattern of everything below a folder."""


def entries_of(place: Path, *patterns: str) -> list[Path]:
    """``place`` where it is a file, else what is in the folder, or what ``patterns`` find in it, in
    the order of names, hidden ones left out. Raises OSError."""
    if place.is_file():
        return [place]
    depth = len(place.parts)
    paths = chain.from_iterable(map(place.glob, patterns)) if patterns else place.iterdir()
    visible = (path for path in paths if not any(map(is_hidden, path.parts[depth:])))
    return sorted(visible, key=lambda path: path.parts)  # as paths compare, but faster


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is no part of a cohort: no loader reads it. One whose
    name is not UTF-8 is named as left out by :func:`check_folder`."""
    return name.startswith(".") or name == "__MACOSX" or not _is_utf8(name)


def _is_utf8(name: str) -> bool:
    return name.isascii() or valid_unicode(name) == name


def files_below(folder: str) -> Iterator[FileState]:
    """The regular files in a folder, and then those in each of its folders, by their names; raises
    OSError."""

    def fail(error: OSError) -> None:
        raise error

    for inside, folders, names in os.walk(folder, onerror=fail):
        folders.sort()
        for name in sorted(names):
            if (times := times_of(f"{inside}/{name}")) is not None:
                yield times


_XML_HEAD = 1 << 16
_LARGEST_STYLESHEET = 1 << 24
"""Bytes of a stylesheet in which a clinical document is looked for."""
_CLINICAL_DOCUMENT = re.compile(rb"<(?:[\w.-]{1,40}:)?ClinicalDocument[\s>]")
_FHIR = b"http://hl7.org/fhir"


def xml_kind(path: Path) -> str:
    """What an XML file is by its head: "cda" for a clinical document, "fhir", or "" for anything
    else. Raises as :func:`read_start`."""
    head = read_start(path, _XML_HEAD)
    if b"XSL/Transform" in head:  # a document may be inside of its stylesheet
        head = read_start(path, _LARGEST_STYLESHEET)
    text = head.decode("utf-16", "replace").encode() if head[:2] in _UTF_16 else head
    if _CLINICAL_DOCUMENT.search(text):
        return "cda"
    plain = head.replace(b"\0", b"")
    return "fhir" if _FHIR in plain and b"<ClinicalDocument" not in plain else ""


_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def checked_tables(tables: Iterable[Path], root: Path, log: LoadLog) -> list[Path]:
    """The tables that DuckDB may open; the others are skipped by name."""
    regular: list[Path] = []
    for table in tables:
        with log.skipping(shown(table, root)):
            open_regular(table).close()
            regular.append(table)
    return regular


def check_folder(root: Path) -> list[Skip]:
    """Raise DataError for a folder in the cohort's folder ``root`` that is a link out of it, or to
    a hidden folder, whose files are no records. Gives what is left out for its name's sake."""
    inside = root.resolve()
    left_out: list[Skip] = []
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            if not _is_utf8(name):
                place = valid_unicode(shown(Path(folder, name), root))
                left_out.append(Skip(place, None, "has a name that is not UTF-8 — rename it"))
        for link in filter(Path.is_symlink, (Path(folder, name) for name in names)):
            place = link.resolve()
            if not place.is_relative_to(inside):
                what = "is a link out of the cohort's folder"
            elif any(part.startswith(".") for part in place.relative_to(inside).parts):
                what = "is a link to a hidden folder of the cohort"
            else:
                continue
            raise DataError(shown(link, root), None, what, "copy the folder itself there")
    return left_out


def read_text(path: Path, name: str) -> str:
    """A UTF-8 file without its byte-order mark, line ends unchanged.

    Raises DataError with the line of the first byte that is not UTF-8.
    """
    return _decoded(read_all(path, name), "utf-8-sig", name, "UTF-8")


def _decoded(data: bytes, encoding: str, name: str, what: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(name, line, f"is not {what} text", "save it as UTF-8") from None


def xml_text(data: bytes, name: str) -> str:
    """An XML document's text by its byte-order mark or the encoding that it declares, else UTF-8;
    raises DataError."""
    stated = _XML_ENCODING.match(data[:400])
    encoding = stated[1].decode() if stated else "utf-8"
    if data.startswith(_UTF_16):
        encoding = "utf-16"
    known = character_set(encoding)
    if not known:
        raise DataError(name, 1, "declares an unknown encoding", "save it as UTF-8")
    if known in ("utf-8", "utf-8-sig"):
        return _decoded(data, "utf-8-sig", name, "UTF-8")
    return _decoded(data, known, name, f"{encoding} as it declares")


def read_xml(path: Path, name: str) -> Element:
    """The root of an XML document; raises as :func:`parse_xml`."""
    return parse_xml(xml_text(read_all(path, name), name), name)


def parse_xml(text: str, name: str) -> Element:
    """The root of an XML document; raises DataError, also for a DOCTYPE or entities."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root = fromstring(text, forbid_dtd=True)
    except ParseError as error:
        reason = "is not well-formed XML"
        raise DataError(name, error.position[0], reason, "export the file again") from None
    except (DefusedXmlException, ValueError, LookupError):
        reason = "holds a DOCTYPE, entities or an encoding that is refused"
        raise DataError(name, None, reason, "save it as plain UTF-8 XML") from None
    level = [root]
    for _ in range(_DEEPEST_XML):
        level = [child for element in level for child in element]
    if level:
        raise DataError(name, None, f"has more than {_DEEPEST_XML} levels", "export the file again")
    return root
