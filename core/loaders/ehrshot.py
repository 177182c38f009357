"""EHRSHOT's release: a CSV of coded events, a folder of labels per task, patient splits.

``EHRSHOT_ASSETS/data/ehrshot.csv``, ``benchmark/<task>/labeled_patients.csv``,
``splits/person_id_map.csv``. The path may be ``EHRSHOT_ASSETS``, the folder above it, or the CSV.
The release's pickled features are refused, never opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from midchart.core.cohorts.base import EventLoader
from midchart.core.cohorts.columns import MISSING
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.labelled import (
    PICKLES,
    EventFiles,
    read_labels,
    text_value,
    unique_splits,
    warn_of_pickles,
    with_findings,
)
from midchart.core.cohorts.tables import MOST_CSV_COLUMNS, check_columns, read_head, read_table
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.sequences.build import RawTable, patient_id
from midchart.core.sequences.store import LabelRows
from midchart.core.storage.rows import literal
from midchart.core.storage.sources import Source

ASSETS = "EHRSHOT_ASSETS"
EVENTS = "data/ehrshot.csv"
_SPLITS = "splits/person_id_map.csv"


def _csv_sql(file: Source, needed: tuple[str, ...]) -> tuple[list[str], str]:
    """The columns of a CSV and the SQL that reads it; raises DataError."""
    header = read_head(file, needed).header
    check_columns(header, needed, file.name, most=MOST_CSV_COLUMNS)
    return header, file.csv_rows(header)


def _events(file: Source) -> RawTable:
    header, table = _csv_sql(file, ("patient_id", "start", "code", "value"))
    number = "try_cast(value AS FLOAT)"
    missing = ", ".join(map(literal, sorted(MISSING)))
    optional = {
        out: f"nullif({column}, '')" if column in header else "NULL::VARCHAR"
        for out, column in (("u", "unit"), ("k", "omop_table"))
    }
    select = (
        f"SELECT {patient_id('patient_id')} AS p, epoch_us(try_cast(start AS TIMESTAMP)) AS t, "
        "nullif(start, '') IS NOT NULL AND try_cast(start AS TIMESTAMP) IS NULL AS bad, code, "
        f"CASE WHEN isfinite({number}) THEN {number} END AS v, "
        f"CASE WHEN {number} IS NULL AND value NOT IN ({missing}) THEN value END AS x, "
        f"{optional['u']} AS u, {optional['k']} AS k FROM {table}"
    )
    return RawTable(file.name, select, (file,), time_needed=True, csv=True)


def _splits(file: Source, log: LoadLog) -> Mapping[int, str]:
    try:
        rows = read_table(file, ("split", "omop_person_id"), log)
    except DataError as error:
        log.warn(f"{error} — no patient is in a split")
        return {}

    ids = (re.fullmatch(r"(-?[0-9]{1,18})(?:\.0*)?", row.get("omop_person_id")) for row in rows)
    parsed = (
        (row.line, int(id[1]) if id else None, row.get("split"))
        for row, id in zip(rows, ids, strict=True)
    )
    return unique_splits(parsed, file.name, log)


def _labels(file: Source, log: LoadLog) -> LabelRows:
    _, table = _csv_sql(file, ("patient_id", "prediction_time", "value"))
    return read_labels(
        f"SELECT {patient_id('patient_id')} AS p, "
        "epoch_us(try_cast(prediction_time AS TIMESTAMP)) AS t, "
        f"{text_value('value')} AS y FROM {table}",
        file.name,
        log,
        csv=file,
    )


def _assets(place: Source) -> Source | None:
    if place.is_file():
        return place.parent.parent if place.own_name == "ehrshot.csv" else None
    inside = place.within(ASSETS)
    if place.within(EVENTS).is_file():
        return place
    return inside if inside.is_folder() else None


def _label_files(assets: Source) -> list[Source]:
    return assets.entries("benchmark/*/labeled_patients.csv")


def _is_pickle(place: Source) -> bool:
    return place.is_file() and place.ending in PICKLES


@LOADERS.register("ehrshot")
class Ehrshot(EventLoader):
    """EHRSHOT's original layout."""

    name = "ehrshot"
    title = "EHRSHOT (EHRSHOT_ASSETS with data/ehrshot.csv, benchmark, splits)"
    source = "EHRSHOT"
    licence = "EHRSHOT data use agreement: research only, no sharing with third parties"
    deidentified = "yes"

    def accepts(self, place: Source) -> bool:
        """EHRSHOT_ASSETS, a folder that holds it, its ehrshot.csv, or one of its pickles."""
        return _assets(place) is not None or _is_pickle(place)

    def root(self, place: Path) -> Path:
        """The folder named, or EHRSHOT_ASSETS for its CSV."""
        is_events = place.is_file() and place.name == "ehrshot.csv"
        return place.parent.parent if is_events else super().root(place)

    def companions(self, place: Source) -> list[Source]:
        """Splits and labels, for the file of events."""
        assets = _assets(place)
        if assets is None or not place.is_file():
            return []
        return [assets.within(_SPLITS), *_label_files(assets)]

    def open_files(self, place: Source, log: LoadLog) -> EventFiles:
        """Raises DataError for a pickle and where there are no events."""
        if _is_pickle(place):
            raise DataError(
                place.own_name, None, "is a pickle, and opening one runs whatever it holds",
                f"name the folder with {EVENTS}; pickled features are refused",
            )  # fmt: skip
        assets = _assets(place)
        if assets is None:
            raise DataError(place.name, None, f"holds no {EVENTS}", "name EHRSHOT_ASSETS")
        tasks = {file.parent.own_name: partial(_labels, file) for file in _label_files(assets)}
        if not tasks:
            log.warn("benchmark holds no labeled_patients.csv — there are no labels")
        warn_of_pickles(assets, log)
        return EventFiles(
            _events(assets.within(EVENTS)),
            partial(_splits, assets.within(_SPLITS)),
            with_findings(tasks),
            names=lambda log: {},
        )
