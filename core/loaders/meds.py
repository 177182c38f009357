"""Any MEDS root: events as Parquet, patient splits, code descriptions, labels per task.

Versions 0.3 and 0.4, and folders that are almost MEDS: ``data/**/*.parquet``, or Parquet files
directly under the root or its ``train``, ``tuning`` and ``held_out``; values as f32 or f64;
optional columns for text, unit and table; label columns that are null or absent. Missing metadata
is a warning. Events with a null time are static and come first of their patient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import duckdb
import numpy as np

from midchart.core.cohorts.base import EventLoader
from midchart.core.cohorts.files import LoadLog, checked_tables, shown, without_hidden
from midchart.core.cohorts.labelled import (
    CHEXPERT,
    EventFiles,
    number_value,
    read_labels,
    text_value,
    unique_splits,
    warn_of_pickles,
    with_findings,
)
from midchart.core.cohorts.tables import check_columns
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.sequences.build import (
    RawTable,
    columns,
    describe_error,
    is_nested,
    parquet_source,
    patient_id,
)
from midchart.core.sequences.store import SPLITS, LabelRows

Types = dict[str, str]
"""Column → DuckDB type."""


def _event_files(root: Path) -> list[Path]:
    if root.is_file():
        return [root] if root.suffix == ".parquet" else []
    patterns = ("*.parquet", *(f"{split}/**/*.parquet" for split in SPLITS))
    return sorted(without_hidden(root, root.glob("data/**/*.parquet"))) or sorted(
        file for pattern in patterns for file in without_hidden(root, root.glob(pattern))
    )


def _types(files: Sequence[Path]) -> Types:
    """Columns of the union of Parquet files; raises duckdb.Error."""
    described = columns(f"DESCRIBE SELECT * FROM {parquet_source(files)}")
    names, types = described["column_name"], described["column_type"]
    return dict(zip(map(str, names), map(str, types), strict=True))


def _readable(files: Sequence[Path], root: Path, log: LoadLog) -> tuple[list[Path], Types]:
    """The files that can be read, with their columns; the others are skipped by name."""
    readable: list[Path] = []
    for file in checked_tables(files, root, log):
        try:
            _types([file])
        except duckdb.Error as error:
            log.skip(shown(file, root), None, f"{describe_error(error)} — replace it")
        else:
            readable.append(file)
    try:
        return readable, _types(readable) if readable else {}
    except duckdb.Error as error:
        reason = f"and others do not fit together: {describe_error(error)}"
        remedy = "give a column the same type in every file"
        raise DataError(shown(readable[0], root), None, reason, remedy) from None


def _micros(column: str, type: str) -> str:
    if type in ("VARCHAR", "DATE"):
        return f"epoch_us(try_cast({column} AS TIMESTAMP))"
    return (
        f"epoch_us({column})" if type.startswith("TIMESTAMP") else f"epoch_us({column}::TIMESTAMP)"
    )


def _events(root: Path, log: LoadLog) -> RawTable:
    files, types = _readable(_event_files(root), root, log)
    name = "data" if (root / "data").is_dir() else root.name
    if not files:
        raise log.nothing_read(name, "holds no Parquet file")
    check_columns(list(types), ("subject_id", "time", "code"), shown(files[0], root), None)
    time = _micros("time", types["time"])
    value = "try_cast(numeric_value AS FLOAT)" if "numeric_value" in types else "NULL::FLOAT"
    optional = {
        out: next((f"nullif({c}::VARCHAR, '')" for c in names if c in types), "NULL::VARCHAR")
        for out, names in (
            ("x", ("text_value",)), ("u", ("unit",)), ("k", ("omop_table", "table")),
        )
    }  # fmt: skip
    select = (
        f"SELECT {patient_id('subject_id', types['subject_id'])} AS p, {time} AS t, "
        f"time IS NOT NULL AND {time} IS NULL AS bad, code::VARCHAR AS code, "
        f"CASE WHEN isfinite({value}) THEN {value} END AS v, "
        + ", ".join(f"{sql} AS {out}" for out, sql in optional.items())
        + f" FROM {parquet_source(files)}"
    )
    named = ("subject_id", "time", "code", "numeric_value")
    others = ("text_value", "unit", "omop_table", "table")
    if any(is_nested(types.get(column, "")) for column in (*named, *others)):
        reason = "holds lists or structures in a column of text, numbers or times"
        raise DataError(name, None, reason, "export it as a plain table")
    return RawTable(name, select, tuple(files))


def _splits(root: Path, events: Sequence[Path], log: LoadLog) -> Mapping[int, str]:
    file, name = root / "metadata" / "subject_splits.parquet", "metadata/subject_splits.parquet"
    id = patient_id("subject_id")
    splits: dict[int, str] = {}
    try:
        if checked_tables([file] if file.exists() else [], root, log):
            check_columns(list(_types([file])), ("subject_id", "split"), name, None)
            rows = columns(f"SELECT {id} AS p, split::VARCHAR AS s FROM {parquet_source([file])}")
            pairs = zip(rows["p"].tolist(), rows["s"].tolist(), strict=True)
            return unique_splits(((None, id, split) for id, split in pairs), name, log)
        for split in SPLITS:
            files = [f for f in events if split in f.relative_to(root).parts]
            if files:  # rows without an id are reported where the events are read
                source = parquet_source(files)
                select = f"SELECT DISTINCT {id} AS p FROM {source} WHERE {id} IS NOT NULL"
                splits |= dict.fromkeys(map(int, columns(select)["p"]), split)
    except (duckdb.Error, DataError) as error:
        reason = str(error) if isinstance(error, DataError) else f"{name}: {describe_error(error)}"
        log.warn(f"{reason} — no patient is in a split")
        return {}
    how = "the folders' names are used" if splits else "no patient is in a split"
    log.warn(f"{name} is missing — {how}")
    return splits


def _names(root: Path, log: LoadLog) -> Mapping[str, str]:
    file, name = root / "metadata" / "codes.parquet", "metadata/codes.parquet"
    try:
        readable = checked_tables([file] if file.exists() else [], root, log)
        types = _types(readable) if readable else {}
        if not {"code", "description"} <= types.keys():
            return {}
        rows = columns(
            "SELECT code::VARCHAR AS c, description::VARCHAR AS d "
            f"FROM {parquet_source([file])} WHERE description IS NOT NULL AND code IS NOT NULL"
        )
    except (duckdb.Error, DataError) as error:
        reason = str(error) if isinstance(error, DataError) else f"{name}: {describe_error(error)}"
        log.warn(f"{reason} — codes are shown without names")
        return {}
    return dict(zip(map(str, rows["c"]), map(str, rows["d"]), strict=True))


def _labels(files: Sequence[Path], root: Path, log: LoadLog) -> LabelRows:
    name = shown(files[0] if len(files) == 1 else files[0].parent, root)
    readable, types = _readable(files, root, log)
    if not readable:
        empty = np.empty(0, np.int64)
        return LabelRows(empty, empty, empty.astype(np.int32))
    check_columns(list(types), ("subject_id", "prediction_time"), name, None)
    values = {
        "boolean_value": "try_cast({0} AS BOOLEAN)::INT",
        "integer_value": number_value("{0}"),
        "float_value": number_value("{0}"),
        "categorical_value": text_value("{0}"),
    }
    present = [sql.format(column) for column, sql in values.items() if column in types]
    if not present:
        raise DataError(name, None, "has no column with a value", f"one of {', '.join(values)}")
    time = _micros("prediction_time", types["prediction_time"])
    return read_labels(
        f"SELECT {patient_id('subject_id', types['subject_id'])} AS p, {time} AS t, "
        f"coalesce({', '.join(present)}) AS y FROM {parquet_source(readable)}",
        name,
        log,
    )


def _tasks(root: Path) -> dict[str, list[Path]]:
    tasks: dict[str, list[Path]] = {}
    for file in sorted(without_hidden(root, root.glob("labels/**/*.parquet"))):
        parts = file.relative_to(root / "labels").parts
        tasks.setdefault(parts[0] if len(parts) > 1 else file.stem, []).append(file)
    return tasks


def _has_masks(files: Sequence[Path]) -> bool:
    """Whether labels called chexpert are EHRSHOT's masks: whole numbers above 1."""
    try:
        files = checked_tables(files, files[0].parent, LoadLog())  # reading them names the others
        types = _types(files) if files else {}
        if "integer_value" not in types:
            return False
        highest = columns(f"SELECT max(integer_value) AS m FROM {parquet_source(files)}")[
            "m"
        ].tolist()
    except (duckdb.Error, DataError):
        return False  # reading the labels reports what is wrong with the file
    return highest[0] is not None and highest[0] > 1


@LOADERS.register("meds")
class Meds(EventLoader):
    """A folder of MEDS data."""

    name = "meds"
    title = "MEDS (Parquet: data, metadata, labels)"
    source = "MEDS"

    def accepts(self, path: str) -> bool:
        """A folder (or file) whose first event file names subjects and codes."""
        place = Path(path)
        files = _event_files(place)
        readable = checked_tables(files[:1], place, LoadLog())
        if not readable:
            return bool(files) and (place / "metadata").is_dir()
        if (place / "metadata").is_dir() and files[0].is_relative_to(place / "data"):
            return True
        try:
            return {"subject_id", "code"} & _types(readable).keys() != set()
        except duckdb.Error:
            return (place / "labels").is_dir()

    def open_files(self, place: Path, log: LoadLog) -> EventFiles:
        """Raises DataError where there are no events."""
        source, files = _events(place, log), _tasks(place)
        tasks = {task: partial(_labels, parts, place) for task, parts in files.items()}
        if CHEXPERT in tasks and _has_masks(files[CHEXPERT]):
            tasks = with_findings(tasks)
        if not tasks:
            log.warn("labels holds no Parquet file — there are no labels")
        if not (place / "metadata" / "codes.parquet").is_file():
            log.warn("metadata/codes.parquet is missing — codes are shown without names")
        if place.is_dir():
            warn_of_pickles(place, place, log)
        folder = self.root(place)
        splits = partial(_splits, folder, source.files)
        return EventFiles(place, source, splits, tasks, partial(_names, folder))
