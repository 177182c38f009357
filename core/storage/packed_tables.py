"""The sizes of tables in Parquet and DuckDB files from elsewhere, before their text is read.

Such a file holds a value once that is in millions of rows, so its bytes are measured where a value
is still held once: by DuckDB over its dictionaries, by Arrow a batch at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import IO, TYPE_CHECKING, Any

from midchart.core.errors import DataError
from midchart.core.storage.archives import refuse_unpacked
from midchart.core.storage.sql_files import identifier

if TYPE_CHECKING:
    import duckdb

_CELL = 8
"""Bytes of a cell without text."""
_FIXED = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    *("UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "UUID", "DATE", "TIME"),
    *("INTERVAL", "NULL", '"NULL"'),
)
"""How the DuckDB types begin whose cells have one size; TIME begins TIMESTAMP too."""
_REMEDY = "write it again without compression and dictionaries"


def is_nested(type: str) -> bool:
    """Whether a DuckDB type is one of lists or structures, which no table of records has."""
    return type.endswith("]") or type.startswith(("STRUCT", "MAP", "UNION", "VARIANT"))


def check_table(
    base: duckdb.DuckDBPyConnection, source: str, types: Mapping[str, str], packed: int, name: str
) -> None:
    """Hold the columns of an SQL source to what its files of ``packed`` bytes may unpack to.

    ``types``: column → DuckDB type, of those that are read. Raises DataError, by ``name``, for more
    (:func:`midchart.core.storage.archives.most_unpacked`) and for lists; duckdb.Error.
    """
    if any(map(is_nested, types.values())):
        reason = "holds lists or structures in a column of text, numbers or times"
        raise DataError(name, None, reason, "export it as a plain table")
    sizes = [f"count(*) * {_CELL * len(types)}"]
    for column, type in types.items():
        cell = identifier(column)
        if type in ("BLOB", "BIT"):
            sizes.append(f"coalesce(sum(octet_length({cell})), 0)")
        elif not type.startswith(_FIXED):
            sizes.append(f"coalesce(sum(strlen({cell}::VARCHAR)), 0)")
    ((unpacked,),) = base.execute(f"SELECT {' + '.join(sizes)} FROM {source}").fetchall()
    refuse_unpacked(int(unpacked), packed, name, _REMEDY)


_PREFIXED = "DELTA_BYTE_ARRAY"
"""The encoding that gives a value as what differs from the one before; Arrow has no dictionary of
it, and unpacks a batch of values at once."""
_PREFIXED_ROWS = 8


def checked_batches(file: IO[bytes], size: int, rows: int, name: str) -> Generator[Any]:
    """The rows of a Parquet file of ``size`` bytes in Arrow's batches of ``rows`` at most.

    Raises DataError, by ``name``, before a batch with which they are more than the file may unpack
    to (:func:`midchart.core.storage.archives.most_unpacked`); OSError, ValueError, ArrowException.
    """
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        facts, schema = opened.metadata, opened.schema
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
    refuse_unpacked(sum(group.total_byte_size for group in groups), size, name, _REMEDY)
    texts: list[int] = []
    for place in range(facts.num_columns):
        chunks = [group.column(place) for group in groups]
        refuse_unpacked(sum(chunk.num_values for chunk in chunks), size, name, _REMEDY)
        column = schema.column(place)
        if column.physical_type != "BYTE_ARRAY" or column.logical_type.type == "DECIMAL":
            continue
        if any(_PREFIXED in chunk.encodings for chunk in chunks):
            rows = min(rows, _PREFIXED_ROWS)
        else:
            texts.append(place)
    unpacked = 0
    with parquet.ParquetFile(file, metadata=facts, read_dictionary=texts) as opened:
        for batch in opened.iter_batches(batch_size=rows):
            unpacked += sum(map(_bytes, batch.columns))
            refuse_unpacked(unpacked, size, name, _REMEDY)
            yield batch


def _bytes(array: Any) -> int:
    """The bytes of the values of an Arrow array, each as often as it occurs."""
    import pyarrow as arrow
    from pyarrow import compute

    type = array.type
    if isinstance(array, arrow.ExtensionArray):
        return _bytes(array.storage)
    if arrow.types.is_dictionary(type):
        lengths = compute.call_function("binary_length", [array.dictionary]).take(array.indices)
        return (compute.call_function("sum", [lengths]).as_py() or 0) + array.indices.nbytes
    if arrow.types.is_map(type):
        return _bytes(array.keys) + _bytes(array.items) + array.nbytes
    if arrow.types.is_struct(type):
        return sum(map(_bytes, array.flatten()))
    if arrow.types.is_nested(type):
        return _bytes(array.flatten()) + _CELL * len(array)
    return array.nbytes
