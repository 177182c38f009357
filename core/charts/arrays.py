"""Tables of numbers and texts in Arrow files, which are mapped into memory when they are read."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
_ROWS = 1 << 16
"""Rows that are written at once."""
TEXT = "text"
Columns = Mapping[str, Mapping[str, str]]
"""Table → its columns: name → a type of Arrow, or :data:`TEXT`."""


class TableWriter:
    """Writes the rows of a table in the order in which they come; one of no rows is a table too."""

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        import pyarrow as arrow

        self._columns = columns
        types = {n: arrow.large_binary() if t == TEXT else t for n, t in columns.items()}
        self._schema = arrow.schema(list(types.items()))
        self._writer = arrow.ipc.new_file(str(path), self._schema)
        self._waiting: dict[str, list[Any]] = {name: [] for name in columns}
        self._rows = self.rows = 0

    def add(self, **values: Sequence[Any] | Numbers) -> None:
        """Add rows: a sequence of the same length for each column."""
        for name, waiting in self._waiting.items():
            waiting.append(values[name])
        added = len(next(iter(values.values())))
        self.rows += added
        self._rows += added
        if self._rows >= _ROWS:
            self._write()

    def _write(self) -> None:
        import pyarrow as arrow

        arrays: list[Any] = []
        for (name, parts), column in zip(self._waiting.items(), self._schema, strict=True):
            if isinstance(parts[0], np.ndarray):
                buffers = [None, np.concatenate(parts).astype(self._columns[name], copy=False)]
            elif self._columns[name] == TEXT:
                values = [text.encode("utf-8", "surrogatepass") for part in parts for text in part]
                buffers = [None, np.cumsum([0, *map(len, values)], dtype="int64"), b"".join(values)]
            else:
                values = list(chain.from_iterable(parts))
                is_known = np.packbits([one is not None for one in values], bitorder="little")
                filled = np.array([one or 0 for one in values], column.type.to_pandas_dtype())
                buffers = [is_known, filled]
            held = [one if one is None else arrow.py_buffer(one) for one in buffers]
            arrays.append(arrow.Array.from_buffers(column.type, self._rows, held))
        self._writer.write_batch(arrow.record_batch(arrays, schema=self._schema))
        self._waiting = {name: [] for name in self._columns}
        self._rows = 0

    def close(self) -> None:
        """Write the remaining rows and close the table."""
        if self._rows:
            self._write()
        self._writer.close()


def open_table(folder: Path, table: str) -> Any:
    """A table of a folder, mapped into memory; raises OSError or ValueError where it is damaged."""
    import pyarrow as arrow

    with arrow.memory_map(str(folder / f"{table}.arrow")) as mapped:
        return arrow.ipc.open_file(mapped).read_all()


def numbers(table: Any, column: str) -> Numbers:
    """The numbers of a column; pyarrow's own conversion imports pandas, half a second."""
    return np.array(np.from_dlpack(table.column(column).combine_chunks()))


def texts(table: Any, column: str) -> list[str]:
    """The texts of a column."""
    return [str(text, "utf-8", "surrogatepass") for text in table.column(column).to_pylist()]


def rows_of(table: Any, columns: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    """The values of each row of a table, in the order of ``columns``."""
    values = (
        texts(table, name) if kind == TEXT else table.column(name).to_pylist()
        for name, kind in columns.items()
    )
    return zip(*values, strict=True)


@contextmanager
def writing_tables(folder: Path, columns: Columns) -> Generator[dict[str, TableWriter]]:
    """Writers of the tables of a folder, complete once the body has succeeded."""
    tables = {name: TableWriter(folder / f"{name}.arrow", those) for name, those in columns.items()}
    yield tables
    for table in tables.values():
        table.close()
