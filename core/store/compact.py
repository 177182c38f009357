"""From JSON lines to Parquet when a run is finished, and back when it is taken up again.

Each step is one atomic rename or one removal, and Parquet, where it is, holds the whole table:
a process killed between any two steps leaves a table that reads the same, and the same call
finishes the work.
"""

from __future__ import annotations

import os
from pathlib import Path

from core.store.journal import encode, repair, sync_folder
from core.store.query import Schema, cursor, json_source, query, quoted, refuse_damage


def compact(folder: Path, table: str, schema: Schema) -> None:
    """Move a table from JSONL to Parquet. Only under the run's lock, with no journal open.

    Raises WorkFailed where the JSONL holds lines that are no rows: they would be lost.
    """
    parquet, journal = folder / f"{table}.parquet", folder / f"{table}.jsonl"
    if not parquet.exists():
        if not journal.exists():
            return
        repair(journal)
        refuse_damage(journal)
        fresh = parquet.with_name(parquet.name + ".tmp")
        fresh.unlink(missing_ok=True)
        with cursor() as connection:
            connection.execute(
                f"COPY {json_source(journal, schema)} TO {_target(fresh)} "
                "(FORMAT parquet, COMPRESSION zstd)"
            )
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(parquet)
        sync_folder(folder)
    journal.unlink(missing_ok=True)
    sync_folder(folder)


def reopen(folder: Path, table: str) -> None:
    """Move a table from Parquet back to JSONL, to append to it. Only under the run's lock.

    A JSONL left beside the Parquet by a kill is written anew: the Parquet is the whole table.
    """
    parquet, journal = folder / f"{table}.parquet", folder / f"{table}.jsonl"
    if not parquet.exists():
        return
    fresh = journal.with_name(journal.name + ".tmp")
    with fresh.open("wb") as file:
        for row in query(lambda: f"SELECT * FROM read_parquet({quoted(parquet)})"):
            file.write(encode(row))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(journal)
    sync_folder(folder)
    parquet.unlink()
    sync_folder(folder)


def _target(path: Path) -> str:
    """A path to write to, which DuckDB takes as it stands."""
    return "'" + str(path).replace("'", "''") + "'"
