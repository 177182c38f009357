"""Whether the rows of an imported run can be those of its plan: as many as its documents say, each
of its own piece of work, each verdict of an answer that is there.

Columns are held to their ranges by :mod:`midchart.core.runs.schemas`; here rows are held to one
another and to ``manifest.json``, ``spec.json`` and ``done.json``. Every check is one query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midchart.core.errors import InputError
from midchart.core.format import count as spelled
from midchart.core.results.export import MANIFEST
from midchart.core.runs.directory import RunDirectory
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.plan import Plan
from midchart.core.storage.rows import RowStore, query
from midchart.core.storage.sql_files import quoted

_AGAIN = "export the run again where it was done"
_REFERENCES = (
    ("answer_key", "answers", "key", ("label", "reader", "instruction")),
    ("base_key", "answers", "key", ("label", "reader")),
    ("item", "samples", "item", ("instruction", "task", "system", "model")),
)
"""Column of a table, the other table and its column that have its value, and the columns in which
both rows are equal, where both have them. An export without text may lack the column."""
_PREDICTIONS, _DRAWS = ".parquet", ".draws.parquet"


def check_rows_together(folder: RunDirectory, manifest: Mapping[str, Any]) -> None:
    """Raise InputError, in one line, for rows that a run of this plan cannot have written.

    ``manifest``: of the export; one without the number of rows is held to the other counts.
    """
    plan = folder.plan()
    store = folder.store(plan)
    tables = [name for name in store.schemas if (store.folder / f"{name}.parquet").exists()]
    _check_counts(folder, plan, store, tables, manifest)
    for table in tables:
        _check_work(plan, store, table)
        _check_references(plan, store, table)
    _check_predictions(folder, plan, store)


def _check_counts(
    folder: RunDirectory,
    plan: Plan,
    store: RowStore,
    tables: Sequence[str],
    manifest: Mapping[str, Any],
) -> None:
    """As many rows as the manifest and ``done.json`` say, of no more questions than planned."""
    done, counted = folder.finished(), EXPERIMENTS.build(plan.kind).counted or store.schemas
    rows = dict.fromkeys(("all", "ok", "failed"), 0)
    for table in tables:
        asked = "count(DISTINCT instruction)" if "instruction" in store.schemas[table] else "0"
        columns = f"count(*) AS n, count(*) FILTER (status = 'ok') AS ok, {asked} AS asked"
        (counts,) = store.select(table, columns)
        rows["all"] += counts["n"]
        if table in counted:
            rows["ok"] += counts["ok"]
            rows["failed"] += counts["n"] - counts["ok"]
        planned = plan.raw.get("instructions", 0)
        if planned and counts["asked"] > planned:
            raise InputError(
                f"items/{table}.parquet: has {spelled(counts['asked'], 'question')}, where "
                f"spec.json plans {planned:,}; {_AGAIN}"
            )
    written = manifest.get("rows", rows["all"])
    if type(written) is not int or written != rows["all"]:
        raise InputError(
            f"{MANIFEST}: says {written!a:.20} rows, and items/ holds {rows['all']:,}; {_AGAIN}"
        )
    if (done["done"], done["failed"]) != (rows["ok"], rows["failed"]):
        raise InputError(
            f"done.json: says {done['done']:,} done and {done['failed']:,} failed, and items/ "
            f"holds {rows['ok']:,} and {rows['failed']:,}; {_AGAIN}"
        )


def _check_work(plan: Plan, store: RowStore, table: str) -> None:
    """No piece of work has two rows."""
    work = EXPERIMENTS.build(plan.kind).work.get(table, ("item",))
    for columns in [work] if "item" in work else [("item",), work]:
        grouped = f"SELECT 1 FROM {store.source(table)} GROUP BY {', '.join(columns)}"
        if twice := _count(f"({grouped} HAVING count(*) > 1)"):
            raise InputError(
                f"items/{table}.parquet: has {spelled(twice, 'piece')} of work with more "
                f"than one row; {_AGAIN}"
            )


def _check_references(plan: Plan, store: RowStore, table: str) -> None:
    """What a row names in another table is there, and of the same work."""
    schema = store.schemas[table]
    for column, other, key, shared in _REFERENCES:
        if table == other or column not in schema or other not in store.schemas:
            continue
        both = [name for name in shared if name in schema and name in store.schemas[other]]
        equal = [f"one.{name} IS NOT DISTINCT FROM other.{name}" for name in both]
        lost = _count(
            f"{store.source(table)} one ANTI JOIN {store.source(other)} other "
            f"ON {' AND '.join([f'one.{column} = other.{key}', *equal])} "
            f"WHERE one.{column} IS NOT NULL"
        )
        if lost:
            raise InputError(
                f"items/{table}.parquet: column {column} has {spelled(lost, 'value')} of no "
                f"such row in items/{other}.parquet; {_AGAIN}"
            )


def _check_predictions(folder: RunDirectory, plan: Plan, store: RowStore) -> None:
    """Files of predictions are those of the run's models, with as many labels as their rows say."""
    files = sorted((folder.path / "forecast").glob("*.parquet"))
    if not files:
        return
    models = EXPERIMENTS.build(plan.kind).main
    if "n" not in store.schemas[models]:
        raise InputError(f"forecast/: a {plan.kind} run has no predictions; {_AGAIN}")
    # The row of a model that failed after its evaluation has the labels among its splits alone.
    labels = {
        row["item"]: {row["n"]} if row["status"] == "ok" else {one["n"] for one in row["splits"]}
        for row in store.select(models, "item, status, n, coalesce(splits, []) AS splits")
    }
    for file in files:
        draws = file.name.endswith(_DRAWS)
        item = file.name.removesuffix(_DRAWS if draws else _PREDICTIONS)
        if item not in labels:
            raise InputError(f"forecast/{file.name}: is of no model of the run; {_AGAIN}")
        rows = _count(f"read_parquet({quoted(file)})")
        if rows not in ({plan.protocol.resamples} if draws else labels[item]):
            raise InputError(
                f"forecast/{file.name}: has {spelled(rows, 'row')}, which is not the number of the "
                f"run's {'resamples' if draws else 'labels'}; {_AGAIN}"
            )


def _count(source: str) -> int:
    """The number of rows of an SQL source."""
    (row,) = query(lambda: f"SELECT count(*) AS n FROM {source}")
    return int(row["n"])
