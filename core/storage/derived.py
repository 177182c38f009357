"""What is computed from a record, or from a cohort's files, once, and stored for every process.

Under ``derived`` in the cache folder each content has a folder, named by its digest, with a Parquet
file for each thing: a record's sentences, its BM25 index, where a piece of evidence was located;
whose each resource of a FHIR export is. A file's name holds a hash of the code that computed it, so
another version of the program computes it again and removes the older one, and a hash of what is in
it, so what is damaged is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from midchart.core import config as settings
from midchart.core.provenance import code_digest, digest
from midchart.core.regular_files import read_regular
from midchart.core.storage.files import replacing

FOLDER = "derived"
V = TypeVar("V")
Columns = Mapping[str, Any]
"""Arrays of numbers, lists of numbers or None, and lists of texts by name, of any lengths."""


@dataclass(frozen=True)
class Derived:
    """Values of one ``kind``, computed by the modules and packages of ``midchart.core`` that are
    listed in ``code``."""

    kind: str
    code: tuple[str, ...]

    @cached_property
    def _version(self) -> str:
        return code_digest(*self.code)

    def get(
        self,
        content: str,
        parts: Sequence[str],
        make: Callable[[], V],
        encode: Callable[[V], Columns | None],
        decode: Callable[[Columns], V],
    ) -> V:
        """The value for a ``content`` (its digest, hex) and ``parts``, whatever else it depends on.

        It is made, and stored as the columns that ``encode`` gives (None: too small to be worth a
        file), or else ``decode`` makes it of the stored columns: arrays of numbers, lists where
        some are None, lists of texts.
        """
        folder = settings.cache_folder() / FOLDER / content[:2] / content
        name = f"{self.kind}-{digest(*parts)}-"
        files = sorted(folder.glob(f"{name}*.parquet"))
        for file in files:
            columns = _read(file) if file.name.startswith(name + self._version) else None
            if columns is not None:
                return decode(columns)
        value = make()
        columns = encode(value)
        if columns is not None:
            # A cache that cannot be written costs time; nothing is lost.
            with suppress(OSError):
                for file in files:
                    file.unlink(missing_ok=True)
                _write(folder, name + self._version, columns)
        return value


def _write(folder: Path, name: str, columns: Columns) -> None:
    """One row, in which every column is a list; ends the name with the hash of the content."""
    import pyarrow as arrow
    from pyarrow import parquet

    def listed(values: Any) -> Any:
        if len(values) and isinstance(values[0], str):
            values = [text.encode("utf-8", "surrogatepass") for text in values]
        array = arrow.array(values)
        return arrow.ListArray.from_arrays(arrow.array([0, len(array)], arrow.int32()), array)

    table = arrow.table({column: listed(values) for column, values in columns.items()})
    content = arrow.BufferOutputStream()
    parquet.write_table(table, content, compression="zstd", use_dictionary=False)
    data = content.getvalue().to_pybytes()
    with replacing(folder / f"{name}-{_checksum(data)}.parquet", lasting=False) as fresh:
        fresh.write_bytes(data)


def _checksum(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def _read(path: Path) -> Columns | None:
    """The columns of a file; None where it is damaged or gone."""
    import pyarrow as arrow
    from pyarrow import parquet

    def values(column: Any) -> Any:
        inside = column.chunk(0).values
        if arrow.types.is_binary(inside.type):
            return [text.decode("utf-8", "surrogatepass") for text in inside.to_pylist()]
        if inside.null_count or arrow.types.is_null(inside.type):
            return inside.to_pylist()
        return np.from_dlpack(inside)  # not inside.to_numpy(), which imports pandas

    try:
        data = read_regular(path)
    except OSError:
        return None
    if not path.stem.endswith(_checksum(data)):
        return None
    with parquet.ParquetFile(arrow.BufferReader(data)) as file:
        table = file.read(use_threads=False)
    return {name: values(table[name]) for name in table.column_names}
