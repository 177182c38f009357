"""Any MEDS root: events as Parquet, patient splits, code descriptions, labels per task.

Versions 0.3 and 0.4, and folders that are almost MEDS: ``data/**/*.parquet``, or Parquet files
directly under the root or its ``train``, ``tuning`` and ``held_out``; values as f32 or f64;
optional columns for text, unit and table; label columns that are null or absent. Missing metadata
is a warning. Events with a null time are static and come first of their patient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import duckdb
import numpy as np

from midchart.core.cohorts.base import EventLoader
from midchart.core.cohorts.files import LoadLog
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
from midchart.core.storage.sources import Source

Types = dict[str, str]
"""Column → DuckDB type."""


def _event_files(place: Source) -> list[Source]:
    if place.is_file():
        return [place] if place.ending == ".parquet" else []
    patterns = ("*.parquet", *(f"{split}/**/*.parquet" for split in SPLITS))
    return place.entries("data/**/*.parquet") or place.entries(*patterns)


def _select(what: str, files: Sequence[Source], name: str) -> dict[str, list[Any]]:
    """Columns of SQL before ``FROM`` the union of Parquet files; raises DataError."""
    try:
        rows = columns(f"{what} FROM {parquet_source(files)}")
    except duckdb.Error as error:
        raise DataError(name, None, describe_error(error), "replace it") from None
    return {column: cells.tolist() for column, cells in rows.items()}


def _types(files: Sequence[Source], name: str) -> Types:
    """Columns of the union of Parquet files; raises DataError."""
    described = _select("DESCRIBE SELECT *", files, name)
    return dict(zip(described["column_name"], described["column_type"], strict=True))


def _readable(files: Sequence[Source], log: LoadLog) -> tuple[list[Source], Types]:
    """The files that can be read, with their columns; the others are skipped by name."""
    readable: list[Source] = []
    for file in files:
        with log.skipping(), file.open():
            _types([file], file.name)
            readable.append(file)
    if not readable:
        return [], {}
    try:
        return readable, _types(readable, readable[0].name)
    except DataError as error:
        reason = f"and others do not fit together: {error.reason}"
        remedy = "give a column the same type in every file"
        raise DataError(error.file, None, reason, remedy) from None


def _one(file: Source, needed: Sequence[str], log: LoadLog) -> list[Source]:
    """A file of metadata where it is there and can be read; raises DataError without columns."""
    readable, types = _readable([file] if file.exists() else [], log)
    if readable:
        check_columns(list(types), needed, file.name, None)
    return readable


def _micros(column: str, type: str) -> str:
    is_time = type.startswith("TIMESTAMP")
    return f"epoch_us({column if is_time else f'try_cast({column} AS TIMESTAMP)'})"


def _events(place: Source, log: LoadLog) -> RawTable:
    files, types = _readable(_event_files(place), log)
    name = "data" if place.within("data").is_folder() else place.own_name
    if not files:
        raise log.nothing_read(name, "holds no Parquet file")
    check_columns(list(types), ("subject_id", "time", "code"), files[0].name, None)
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


def _splits(root: Source, events: Sequence[Source], log: LoadLog) -> Mapping[int, str]:
    name = "metadata/subject_splits.parquet"
    id, splits = patient_id("subject_id"), dict[int, str]()
    with log.skipping():
        if file := _one(root.within(name), ("subject_id", "split"), log):
            rows = _select(f"SELECT {id} AS p, split::VARCHAR AS s", file, name)
            pairs = zip(rows["p"], rows["s"], strict=True)
            return unique_splits(((None, id, split) for id, split in pairs), name, log)
        for split in SPLITS:
            if files := [f for f in events if split in f.name.split("/")]:
                # Rows without an id are reported where the events are read.
                rows = _select(f"SELECT DISTINCT {id} AS p", files, name)["p"]
                splits |= {patient: split for patient in rows if patient is not None}
    how = "the folders' names are used" if splits else "no patient is in a split"
    log.warn(f"{name} {'cannot be read' if root.within(name).exists() else 'is missing'} — {how}")
    return splits


def _names(root: Source, log: LoadLog) -> Mapping[str, str]:
    name = "metadata/codes.parquet"
    with log.skipping():
        if file := _one(root.within(name), ("code", "description"), log):
            rows = _select("SELECT code::VARCHAR AS c, description::VARCHAR AS d", file, name)
            pairs = zip(rows["c"], rows["d"], strict=True)
            return {code: text for code, text in pairs if code is not None and text is not None}
    return {}


def _labels(files: Sequence[Source], log: LoadLog) -> LabelRows:
    name = files[0].name if len(files) == 1 else files[0].name.rpartition("/")[0]
    readable, types = _readable(files, log)
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


def _tasks(place: Source) -> dict[str, list[Source]]:
    tasks: dict[str, list[Source]] = {}
    for file in place.within("labels").entries("**/*.parquet"):
        _, first, *others = file.name.split("/")
        tasks.setdefault(first if others else file.stem, []).append(file)
    return tasks


def _has_masks(files: Sequence[Source]) -> bool:
    """Whether labels called chexpert are EHRSHOT's masks: whole numbers above 1."""
    with suppress(DataError):  # reading the labels reports what is wrong with the files
        readable, types = _readable(files, LoadLog())
        if "integer_value" in types:
            (highest,) = _select("SELECT max(integer_value) AS m", readable, CHEXPERT)["m"]
            return highest is not None and highest > 1
    return False


@LOADERS.register("meds")
class Meds(EventLoader):
    """A folder of MEDS data."""

    name = "meds"
    title = "MEDS (Parquet: data, metadata, labels)"
    source = "MEDS"

    def accepts(self, place: Source) -> bool:
        """A folder (or file) whose first event file names subjects and codes."""
        files, described = _event_files(place), place.within("metadata").is_folder()
        _, types = _readable(files[:1], LoadLog())
        if not types:
            return bool(files) and (described or place.within("labels").is_folder())
        in_data = described and files[0].name.startswith("data/")
        return in_data or not {"subject_id", "code"}.isdisjoint(types)

    def open_files(self, place: Source, log: LoadLog) -> EventFiles:
        """Raises DataError where there are no events."""
        source, files = _events(place, log), _tasks(place)
        tasks = {task: partial(_labels, parts) for task, parts in files.items()}
        if CHEXPERT in tasks and _has_masks(files[CHEXPERT]):
            tasks = with_findings(tasks)
        if not tasks:
            log.warn("labels holds no Parquet file — there are no labels")
        if not place.within("metadata/codes.parquet").is_file():
            log.warn("metadata/codes.parquet is missing — codes are shown without names")
        if place.is_folder():
            warn_of_pickles(place, log)
        splits = partial(_splits, place.cohort, source.files)
        return EventFiles(source, splits, tasks, partial(_names, place.cohort))
