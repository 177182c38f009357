"""Any MEDS root: events as Parquet, patient splits, code descriptions, labels a task.

Versions 0.3 and 0.4, and folders that are almost MEDS: ``data/**/*.parquet`` or the Parquet files
right under the root or its ``train``, ``tuning`` and ``held_out``; values as f32 or f64; text,
units and tables where there are such columns; label columns that are null or absent. What is
missing is a warning. Events with a null time are static and come first of their patient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import duckdb
import numpy as np

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.files import shown
from core.loaders.labelled import (
    TASK,
    EventFiles,
    LabelCounts,
    LabelledData,
    StoredRecords,
    number_value,
    pickles,
    read_labels,
    text_value,
    with_findings,
)
from core.loaders.manifest import read_manifest
from core.sequences.build import RawTable
from core.sequences.duck import columns, connect, said, sql_files
from core.sequences.labels import LabelRows
from core.sequences.store import SPLITS
from core.types import Cohort, Manifest, Skip

NEEDED = ("subject_id", "time", "code")
Types = dict[str, str]
"""Column → DuckDB type."""


def _event_files(root: Path) -> list[Path]:
    if root.is_file():
        return [root] if root.suffix == ".parquet" else []
    found = sorted(root.glob("data/**/*.parquet"))
    if found:
        return found
    return sorted(
        [*root.glob("*.parquet"), *(f for s in SPLITS for f in root.glob(f"{s}/**/*.parquet"))]
    )


def _types(files: Sequence[Path]) -> Types:
    """Columns of the union of Parquet files; raises duckdb.Error."""
    found = columns(f"DESCRIBE SELECT * FROM {_parquet(files)}")
    return dict(zip(map(str, found["column_name"]), map(str, found["column_type"]), strict=True))


def _parquet(files: Sequence[Path]) -> str:
    return f"read_parquet({sql_files(files)}, union_by_name=true)"


def _whole(files: Sequence[Path], root: Path, skipped: list[Skip]) -> tuple[list[Path], Types]:
    """The files that can be read, with their columns; the others are skipped by name."""
    try:
        return list(files), _types(files)
    except duckdb.Error:
        good: list[Path] = []
        for file in files:
            try:
                _types([file])
            except duckdb.Error as error:
                skipped.append(Skip(shown(file, root), None, f"{said(error)} — replace it"))
            else:
                good.append(file)
        try:
            return good, _types(good) if good else {}
        except duckdb.Error as error:
            raise DataError(
                shown(good[0], root), None, f"and others do not fit together: {said(error)}",
                "give a column the same type in every file",
            ) from None  # fmt: skip


def _micros(column: str, type: str) -> str:
    if type == "VARCHAR":
        return f"epoch_us(try_cast({column} AS TIMESTAMP))"
    return (
        f"epoch_us({column})" if type.startswith("TIMESTAMP") else f"epoch_us({column}::TIMESTAMP)"
    )


def _check(types: Types, needed: Sequence[str], name: str) -> None:
    missing = [column for column in needed if column not in types]
    if missing:
        reason = f"lacks the columns {', '.join(missing)}"
        raise DataError(name, None, reason, f"it needs {', '.join(needed)}")


def _events(root: Path, skipped: list[Skip]) -> RawTable:
    files, types = _whole(_event_files(root), root, skipped)
    name = "data" if (root / "data").is_dir() else root.name
    if not files:
        first = skipped[0] if skipped else Skip(name, None, "holds no Parquet file")
        raise DataError(first.file, None, first.reason)
    _check(types, NEEDED, shown(files[0], root))
    time = _micros("time", types["time"])
    value = "try_cast(numeric_value AS FLOAT)" if "numeric_value" in types else "NULL::FLOAT"
    optional = {
        out: next((f"nullif({c}::VARCHAR, '')" for c in names if c in types), "NULL::VARCHAR")
        for out, names in (
            ("x", ("text_value",)), ("u", ("unit",)), ("k", ("omop_table", "table")),
        )
    }  # fmt: skip
    select = (
        f"SELECT try_cast(subject_id AS BIGINT) AS p, {time} AS t, "
        f"time IS NOT NULL AND {time} IS NULL AS bad, code::VARCHAR AS code, "
        f"CASE WHEN isfinite({value}) THEN {value} END AS v, "
        + ", ".join(f"{sql} AS {out}" for out, sql in optional.items())
        + f" FROM {_parquet(files)}"
    )
    return RawTable(name, select, tuple(files))


def _splits(
    root: Path, events: Sequence[Path], skipped: list[Skip], warnings: list[str]
) -> Mapping[int, str]:
    file = root / "metadata" / "subject_splits.parquet"
    name = "metadata/subject_splits.parquet"
    try:
        if file.is_file():
            _check(_types([file]), ("subject_id", "split"), name)
            rows = columns(
                "SELECT try_cast(subject_id AS BIGINT) AS p, split::VARCHAR AS s "
                f"FROM {_parquet([file])}"
            )
            return _once(rows["p"].tolist(), rows["s"].tolist(), name, skipped)
        named = {f: part for f in events for part in f.relative_to(root).parts if part in SPLITS}
        found: dict[int, str] = {}
        for split in SPLITS:
            mine = [f for f in events if named.get(f) == split]
            if mine:
                # Rows without an id are told where the events are read.
                number = "try_cast(subject_id AS BIGINT)"
                ids = columns(
                    f"SELECT DISTINCT {number} AS p FROM {_parquet(mine)} "
                    f"WHERE {number} IS NOT NULL"
                )["p"]
                found |= dict.fromkeys(map(int, ids), split)
    except (duckdb.Error, DataError) as error:
        reason = str(error) if isinstance(error, DataError) else f"{name}: {said(error)}"
        warnings.append(f"{reason} — no patient is in a split")
        return {}
    how = "the folders' names stand in" if found else "no patient is in a split"
    warnings.append(f"{name} is missing — {how}")
    return found


def _once(
    ids: Sequence[int | None], splits: Sequence[str | None], name: str, skipped: list[Skip]
) -> dict[int, str]:
    found: dict[int, str] = {}
    twice: set[int] = set()
    wrong = 0
    for id, split in zip(ids, splits, strict=True):
        if id is None or split is None:
            wrong += 1
        elif found.setdefault(id, split) != split:
            twice.add(id)
    if wrong:
        reason = f"{wrong:,} rows have no patient id that is a whole number, or no split"
        skipped.append(Skip(name, None, f"{reason} — left out"))
    if twice:
        reason = f"{len(twice):,} patients are in two splits — they are in none now"
        skipped.append(Skip(name, None, reason))
    return {id: split for id, split in found.items() if id not in twice}


def _names(root: Path, warnings: list[str]) -> Mapping[str, str]:
    file = root / "metadata" / "codes.parquet"
    try:
        types = _types([file]) if file.is_file() else {}
        if not {"code", "description"} <= types.keys():
            return {}
        rows = columns(
            "SELECT code::VARCHAR AS c, description::VARCHAR AS d "
            f"FROM {_parquet([file])} WHERE description IS NOT NULL AND code IS NOT NULL"
        )
    except duckdb.Error as error:
        warnings.append(f"metadata/codes.parquet: {said(error)} — codes are shown without names")
        return {}
    return dict(zip(map(str, rows["c"]), map(str, rows["d"]), strict=True))


def _labels(
    files: Sequence[Path], root: Path, skipped: list[Skip], warnings: list[str]
) -> LabelRows:
    name = shown(files[0] if len(files) == 1 else files[0].parent, root)
    good, types = _whole(files, root, skipped)
    if not good:
        none = np.empty(0, np.int64)
        return LabelRows(none, none, none.astype(np.int32))
    _check(types, ("subject_id", "prediction_time"), name)
    values = {
        "boolean_value": "try_cast({0} AS BOOLEAN)::INT",
        "integer_value": number_value("{0}"),
        "float_value": number_value("{0}"),
        "categorical_value": text_value("{0}"),
    }
    given = [sql.format(column) for column, sql in values.items() if column in types]
    if not given:
        raise DataError(name, None, "has no column with a value", f"one of {', '.join(values)}")
    time = _micros("prediction_time", types["prediction_time"])
    return read_labels(
        f"SELECT try_cast(subject_id AS BIGINT) AS p, {time} AS t, "
        f"coalesce({', '.join(given)}) AS y FROM {_parquet(good)}",
        name,
        skipped,
    )


def _tasks(root: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in sorted(root.glob("labels/**/*.parquet")):
        parts = file.relative_to(root / "labels").parts
        found.setdefault(parts[0] if len(parts) > 1 else file.stem, []).append(file)
    return found


def _masks(files: list[Path]) -> bool:
    """Whether labels called chexpert are EHRSHOT's masks: whole numbers above 1."""
    try:
        if "integer_value" not in _types(files):
            return False
        base = connect()
        try:
            most = base.execute(f"SELECT max(integer_value) FROM {_parquet(files)}").fetchone()
        finally:
            base.close()
    except duckdb.Error:
        return False  # the labels' own reading says what is wrong with the file
    return most is not None and most[0] is not None and most[0] > 1


@LOADERS.register("meds")
class Meds:
    """A folder of MEDS data."""

    name = "meds"
    title = "MEDS (Parquet: data, metadata, labels)"

    def accepts(self, path: str) -> bool:
        """A folder (or file) whose first event file names subjects and codes."""
        place = Path(path)
        files = _event_files(place)
        if not files:
            return False
        if (place / "metadata").is_dir() and files[0].is_relative_to(place / "data"):
            return True
        try:
            return {"subject_id", "code"} & _types(files[:1]).keys() != set()
        except duckdb.Error:
            return (place / "labels").is_dir()

    def load(self, path: str) -> Cohort:
        """Open it; events are read when they are needed. Raises DataError."""
        root = Path(path)
        skipped: list[Skip] = []
        warnings: list[str] = []
        source = _events(root, skipped)
        tasks = {t: partial(_labels, files, root) for t, files in _tasks(root).items()}
        if TASK in tasks and _masks(_tasks(root)[TASK]):
            tasks = with_findings(tasks)
        if not tasks:
            warnings.append("labels holds no Parquet file — there are no labels")
        if not (root / "metadata" / "codes.parquet").is_file():
            warnings.append("metadata/codes.parquet is missing — codes are shown without names")
        if root.is_dir():
            pickles(root, root, warnings)
        above = root if root.is_dir() else root.parent
        files = EventFiles(
            root,
            source,
            partial(_splits, above, source.files),
            tasks,
            partial(_names, above),
        )
        data = LabelledData(files, skipped, warnings)
        return Cohort(
            path=str(root),
            format=self.name,
            manifest=read_manifest(above, Manifest(above.name, source="MEDS"), skipped),
            records=StoredRecords(data),
            labels=LabelCounts(data),
            skipped=skipped,
            warnings=warnings,
        )
