"""Mutations that know the structure of valid files: parts swapped, formats merged, files cut.

Each result is made of valid pieces, so that a reader gets further than with random bytes: a value
of another file in a field, tables of two formats in one folder, a file that ends after so many
fiftieths.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from tests.fuzz.mutate import MOST_BYTES, Pairs, Rng, dump_json, parse_json, pick

Files = dict[str, bytes]
Form = Callable[[], Files]
PARTS = 50
"""Parts of a file after each of which it may end."""
_ELEMENT = re.compile(rb"<(\w+)[^<>]*?(?:/>|>[^<]*</\1>)")


def _places(tree: Any) -> list[tuple[Any, int]]:
    """(container, index) of every value of a JSON tree."""
    places: list[tuple[Any, int]] = []
    left = [tree]
    while left:
        container = left.pop()
        for index, value in enumerate(container):
            places.append((container, index))
            value = value[1] if isinstance(container, Pairs) else value
            if isinstance(value, list):
                left.append(value)
    return places


def _json(rng: Rng, data: bytes, other: bytes) -> bytes:
    """A value of one document in the place of a value of another, at times under its key."""
    tree, source = parse_json(data), parse_json(other)
    if not (isinstance(tree, list) and isinstance(source, list) and tree and source):
        return other
    container, index = pick(rng, _places(tree))
    giver, at = pick(rng, _places(source))
    value = giver[at][1] if isinstance(giver, Pairs) else giver[at]
    if isinstance(container, Pairs):
        key = (
            giver[at][0] if isinstance(giver, Pairs) and rng.random() < 0.3 else container[index][0]
        )
        container[index] = (key, value)
    else:
        container[index] = value
    return dump_json(tree).encode("utf-8", "surrogatepass")


def _lines(rng: Rng, data: bytes, other: bytes) -> bytes:
    """The same, in a line of JSON lines; at times a line itself."""
    lines, source = ([one for one in part.split(b"\n") if one.strip()] for part in (data, other))
    if not lines or not source:
        return other
    at, taken = int(rng.integers(len(lines))), pick(rng, source)
    lines[at] = taken if rng.random() < 0.3 else _json(rng, lines[at], taken)
    return b"\n".join(lines) + b"\n"


def _table(mark: str) -> Callable[[Rng, bytes, bytes], bytes]:
    def swapped(rng: Rng, data: bytes, other: bytes) -> bytes:
        """A column of one table in another, with its header, without it, or one cell alone."""
        rows, source = (
            [line.split(mark) for line in part.decode("utf-8", "replace").split("\n")]
            for part in (data, other)
        )
        at, taken = int(rng.integers(len(rows[0]))), int(rng.integers(len(source[0])))
        how = int(rng.integers(3))
        first = (0, 1, int(rng.integers(1, len(rows) + 1)))[how]
        last = first + 1 if how == 2 else len(rows)
        for number in range(first, min(last, len(rows))):
            values = source[number % len(source)]
            if at < len(rows[number]) and taken < len(values):
                rows[number][at] = values[taken]
        return "\n".join(map(mark.join, rows)).encode()

    return swapped


def _xml(rng: Rng, data: bytes, other: bytes) -> bytes:
    """An element of one document in the place of an element of another."""
    there, taken = list(_ELEMENT.finditer(data)), list(_ELEMENT.finditer(other))
    if not there or not taken:
        return other
    place = pick(rng, there)
    return data[: place.start()] + pick(rng, taken).group() + data[place.end() :]


def _parquet(rng: Rng, data: bytes, other: bytes) -> bytes:
    """A column of one table in another, under its own name or that of the one it replaces."""
    try:
        table, source = (parquet.read_table(io.BytesIO(part)) for part in (data, other))
    except OSError:  # a table that was damaged before
        return other
    if not (table.num_columns and source.num_columns and source.num_rows):
        return other
    at, taken = int(rng.integers(table.num_columns)), int(rng.integers(source.num_columns))
    rows = pa.array([number % source.num_rows for number in range(table.num_rows)], pa.int64())
    name = pick(rng, (table.column_names[at], source.column_names[taken]))
    out = io.BytesIO()
    parquet.write_table(table.set_column(at, name, source.column(taken).take(rows)), out)
    return out.getvalue()


def _halves(rng: Rng, data: bytes, other: bytes) -> bytes:
    """The lines of one file up to some line, then those of the other."""
    lines, source = data.split(b"\n"), other.split(b"\n")
    return b"\n".join(
        [*lines[: int(rng.integers(len(lines) + 1))], *source[int(rng.integers(len(source))) :]]
    )


SWAPS: Mapping[str, Callable[[Rng, bytes, bytes], bytes]] = {
    ".json": _json, ".ndjson": _lines, ".jsonl": _lines, ".questions": _lines, ".xml": _xml,
    ".csv": _table(","), ".tsv": _table("\t"), ".parquet": _parquet,
}  # fmt: skip
"""By a file's ending; others get lines of each other."""


def swapped(rng: Rng, files: Files, forms: Sequence[Form]) -> Files:
    """One to three parts of files replaced by parts of files with the same ending, of the same
    cohort or of another format's."""
    files = dict(files)
    for _ in range(int(rng.integers(1, 4))):
        name = pick(rng, sorted(files))
        ending = Path(name).suffix
        pool = dict(files) if rng.random() < 0.4 else pick(rng, forms)()
        like = [pool[one] for one in sorted(pool) if Path(one).suffix == ending]
        other = pick(rng, like or [pool[one] for one in sorted(pool)])
        try:
            change = SWAPS.get(ending, _halves) if like else _halves
            files[name] = change(rng, files[name], other)[:MOST_BYTES]
        except (
            ValueError,
            pa.ArrowException,
        ):  # a file that an earlier swap left without structure
            files[name] = _halves(rng, files[name], other)[:MOST_BYTES]
    return files


def merged(rng: Rng, files: Files, forms: Sequence[Form]) -> Files:
    """The files of two or three formats in one folder: next to each other, each in a folder of its
    own, under each other's names, or one after the other in one file."""
    files = dict(files)
    for number in range(int(rng.integers(1, 3))):
        other = pick(rng, forms)()
        how = int(rng.integers(4))
        if how == 0:
            files = {**files, **other} if rng.random() < 0.5 else {**other, **files}
        elif how == 1:
            files |= {f"part{number}/{name}": data for name, data in other.items()}
        elif how == 2:
            name, taken = pick(rng, sorted(files)), pick(rng, sorted(other))
            files[name] = other[taken]
        else:
            name, taken = pick(rng, sorted(files)), pick(rng, sorted(other))
            files[name] = (files[name] + b"\n" * int(rng.integers(2)) + other[taken])[:MOST_BYTES]
    return _on_distinct_paths(files)


def _on_distinct_paths(files: Files) -> Files:
    """The files without those whose name is a folder of another."""
    folders = {str(parent) for name in files for parent in Path(name).parents}
    return {name: data for name, data in files.items() if name not in folders}


def truncated(rng: Rng, files: Files, forms: Sequence[Form]) -> Files:
    """One or two of the files end after so many fiftieths of their bytes, at times at a line."""
    files = dict(files)
    for name in {pick(rng, sorted(files)) for _ in range(int(rng.integers(1, 3)))}:
        data = files[name]
        data = data[: len(data) * int(rng.integers(PARTS)) // PARTS]
        files[name] = data[: data.rfind(b"\n") + 1] if rng.random() < 0.2 else data
    return files
