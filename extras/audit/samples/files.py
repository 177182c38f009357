"""Files of logs: their JSON objects and rows, each with its place, read within limits."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from midchart.core.errors import DataError
from midchart.core.parsing import LONGEST_LINE, read_json
from midchart.core.storage.sources import DEEP, Source, check_folder
from midchart.extras.audit.samples.sample import Sample

LARGEST_DOCUMENT = 512 << 20
"""Bytes of a JSON document that is read as a whole."""
MOST_FILES = 20_000
HEAD = 1 << 16
"""First bytes of a file by which its format is recognised."""
_HEAD_LINES = 1_000
"""Lines of a JSON Lines file among which one is an object."""
BATCH = 16
"""Rows of a Parquet file in memory at a time."""

Trouble = Callable[[str], None]
Objects = Iterator[tuple[str, dict[str, Any]]]
"""Place (file and line, or file and index) and object."""
LINES = (".jsonl", ".ndjson")
_NEXT_OBJECT = re.compile(rb"^\}\s*\n\{\s*$", re.MULTILINE)
"""The end of a document and the start of another, as OpenTelemetry's console exporter has them."""


def files_of(path: Path, suffixes: Sequence[str], most: int = MOST_FILES) -> list[Source]:
    """A file itself, or the files of a folder with such endings in order of their names.

    Raises DataError for a folder with a link that leads out of it, or with too many files.
    """
    if path.is_dir() and (left_out := check_folder(path)):
        raise DataError(left_out[0].file, None, left_out[0].reason)
    inside = Source.at(path).entries(DEEP)
    files = [one for one in inside if one.ending in suffixes and one.is_file()]
    if len(files) > most:
        raise DataError(path.name, None, f"holds more than {most:,} files", "split it")
    return files


def document(file: Source) -> Any:
    """The value of a JSON file; raises DataError."""
    with file.open() as opened:
        data = opened.read(LARGEST_DOCUMENT + 1)
    if len(data) > LARGEST_DOCUMENT:
        limit = f"is one JSON document of more than {LARGEST_DOCUMENT >> 20} MB"
        raise DataError(file.name, None, limit, "split it, or write it as JSON Lines")
    return read_json(data, file.name)


def first_object(file: Source) -> dict[str, Any]:
    """The first object among a JSON Lines file's first lines; else empty."""
    for line in islice(io.BytesIO(file.start(1 << 22)), _HEAD_LINES):
        try:
            value = read_json(line, file.name)
        except DataError:
            continue
        if isinstance(value, dict):
            return value
    return {}


def objects(file: Source, trouble: Trouble) -> Objects:
    """The objects of a JSON Lines file, of JSON documents one after another, of a JSON array, or
    the one object of a JSON document.

    What cannot be read goes to ``trouble``, a line each; the rest is given. Raises DataError where
    no more can be read.
    """
    name = file.name
    if _NEXT_OBJECT.search(file.start(1 << 22)):
        yield from _stream_objects(file, trouble)
    elif file.ending in LINES or _is_lines(file):
        yield from _line_objects(file, trouble)
    elif isinstance(value := document(file), dict):
        yield name, value
    elif isinstance(value, list):
        yield from listed(value, name, trouble)
    else:
        raise DataError(name, None, "holds no object", "is it the right file?")


def listed(values: Sequence[Any], name: str, trouble: Trouble) -> Objects:
    """The objects of an array with their places; other values go to ``trouble``."""
    for index, one in enumerate(values):
        if isinstance(one, dict):
            yield f"{name}[{index}]", one
        else:
            trouble(str(DataError(f"{name}[{index}]", None, "is no object", "export it again")))


def _is_lines(file: Source) -> bool:
    """Whether the first line of a file is an object of its own and more follows."""
    first, _, rest = file.start(LONGEST_LINE).lstrip().partition(b"\n")
    if not first.startswith(b"{") or not rest.strip():
        return False
    try:
        return isinstance(read_json(first, file.name), dict)
    except DataError:
        return False


def _stream_objects(source: Source, trouble: Trouble) -> Objects:
    """The objects of a file of several documents, each from a line ``{`` to a line ``}``; lines
    between them are counted, as a captured output has others."""
    others, first, name = 0, 0, source.name
    block: list[bytes] = []
    with source.open() as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip()
            if line == b"{":
                others += len(block)
                block, first = [line], number
            elif block:
                block.append(line)
            else:
                others += bool(line)
            if line == b"}" and block:
                try:
                    value = read_json(b"\n".join(block), name)
                    yield f"{name}:{first}", value
                except DataError as error:
                    trouble(f"{name}:{first}: {str(error).partition(': ')[2]}")
                block = []
    if others := others + len(block):
        trouble(str(DataError(name, None, f"has {others:,} lines that are no part of an object")))


def _line_objects(source: Source, trouble: Trouble) -> Objects:
    with source.open() as file:
        number, name = 0, source.name
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                reason = f"is longer than {LONGEST_LINE >> 20} MB"
                trouble(str(DataError(name, number, reason, "split it")))
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
            elif line.strip():
                try:
                    value = read_json(line, name, number)
                except DataError as error:
                    trouble(str(error))
                    continue
                if isinstance(value, dict):
                    yield f"{name}:{number}", value
                else:
                    reason = "is not one JSON object"
                    trouble(str(DataError(name, number, reason, "export it again")))


def parquet_columns(source: Source) -> list[str]:
    """The names of a Parquet file's columns; none where it cannot be read."""
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        with source.open() as file:
            return list(parquet.read_schema(file).names)
    except (DataError, ValueError, arrow.ArrowException):
        return []


def parquet_rows(source: Source, trouble: Trouble) -> Objects:
    """The rows of a Parquet file, in batches, up to one that cannot be read."""
    import pyarrow as arrow
    from pyarrow import parquet

    row, name = 0, source.name
    try:
        with source.open() as file:
            for batch in parquet.ParquetFile(file).iter_batches(BATCH):
                if batch.nbytes > LARGEST_DOCUMENT:
                    limit = f"has {BATCH} rows of more than {LARGEST_DOCUMENT >> 20} MB"
                    raise DataError(f"{name}[{row}]", None, limit, "split it")
                for cells in batch.to_pylist():
                    yield f"{name}[{row}]", cells
                    row += 1
    except DataError as error:
        trouble(str(error))
    except (ValueError, OverflowError, arrow.ArrowException):
        reason = "is no Parquet file that can be read" if row == 0 else "is damaged from here on"
        trouble(str(DataError(f"{name}[{row}]" if row else name, None, reason, "export it again")))


class FileFormat:
    """A format of logs of one file each, or of a folder of them."""

    suffixes: ClassVar[tuple[str, ...]]

    def has(self, file: Source) -> bool:
        """Whether a file is such a log, by its name and first bytes."""
        raise NotImplementedError

    def read(self, file: Source, trouble: Trouble) -> Iterator[Sample]:
        """The samples of a log; raises DataError."""
        raise NotImplementedError

    def recognises(self, path: Path) -> bool:
        """Whether a file, or one of the first of a folder, is such a log."""
        return any(map(self.has, files_of(path, self.suffixes)[:20]))

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The samples of a file, or of the logs in a folder in order of their names."""
        for file in files_of(path, self.suffixes):
            if path.is_file() or self.has(file):
                try:
                    yield from self.read(file, trouble)
                except DataError as error:
                    trouble(str(error))


def unreadable(place: str, reason: str, remedy: str) -> str:
    """A line for ``trouble``: what a part of a log lacks."""
    return str(DataError(place, None, reason, remedy))
