"""EHRSHOT as it is released: a CSV of coded events, a folder of labels a task, patient splits.

``EHRSHOT_ASSETS/data/ehrshot.csv``, ``benchmark/<task>/labeled_patients.csv``,
``splits/person_id_map.csv``. The path may be ``EHRSHOT_ASSETS``, the folder above it, or the CSV.
Pickled features that come with the release are refused, never opened.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.files import check_columns, data_error, read_table, shown
from core.loaders.labelled import (
    EventFiles,
    LabelCounts,
    LabelledData,
    StoredRecords,
    pickles,
    read_labels,
    text_value,
    with_findings,
)
from core.loaders.manifest import read_manifest
from core.sequences.build import RawTable
from core.sequences.duck import sql_files, sql_text
from core.sequences.labels import LabelRows
from core.types import Cohort, Manifest, Skip

ASSETS = "EHRSHOT_ASSETS"
EVENTS = "data/ehrshot.csv"
NEEDED = ("patient_id", "start", "code", "value")
LABEL_COLUMNS = ("patient_id", "prediction_time", "value")
TERMS = "EHRSHOT data use agreement: research only, no sharing with third parties"


def _header(file: Path, name: str) -> list[str]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            return [cell.strip() for cell in next(csv.reader(opened), [])]
    except OSError as error:
        raise data_error(error, name) from None
    except (UnicodeDecodeError, csv.Error):
        raise DataError(name, 1, "does not open like a CSV", "unpack it first") from None


def _columns_sql(header: list[str]) -> str:
    listed = ", ".join(f"{sql_text(column)}: 'VARCHAR'" for column in header)
    return "{" + listed + "}"


def _csv_sql(file: Path, header: list[str]) -> str:
    return (
        f"read_csv({sql_files([file])}, header=true, auto_detect=false, delim=',', quote='\"', "
        f"escape='\"', columns={_columns_sql(header)}, store_rejects=true, "
        "rejects_limit=1000000)"
    )


def _events(file: Path, root: Path) -> RawTable:
    name = shown(file, root)
    header = _header(file, name)
    check_columns(header, NEEDED, name)
    number = "try_cast(value AS FLOAT)"
    real = f"CASE WHEN isfinite({number}) THEN {number} END"
    optional = {
        out: f"nullif({column}, '')" if column in header else "NULL::VARCHAR"
        for out, column in (("u", "unit"), ("k", "omop_table"))
    }
    select = (
        "SELECT try_cast(patient_id AS BIGINT) AS p, epoch_us(try_cast(start AS TIMESTAMP)) AS t, "
        "nullif(start, '') IS NOT NULL AND try_cast(start AS TIMESTAMP) IS NULL AS bad, code, "
        f"{real} AS v, CASE WHEN {number} IS NULL THEN nullif(value, '') END AS x, "
        f"{optional['u']} AS u, {optional['k']} AS k FROM {_csv_sql(file, header)}"
    )
    return RawTable(name, select, (file,), time_needed=True, csv=True)


def _splits(file: Path, root: Path, skipped: list[Skip], warnings: list[str]) -> Mapping[int, str]:
    name = shown(file, root)
    found: dict[int, str] = {}
    twice: set[int] = set()
    try:
        rows = read_table(file, name, ("split", "omop_person_id"), skipped, warnings, ",")
    except DataError as error:
        warnings.append(f"{error} — no patient is in a split")
        return found
    wrong: list[int] = []
    for row in rows:
        written, split = row.get("omop_person_id"), row.get("split")
        if not re.fullmatch("-?[0-9]{1,19}", written) or abs(int(written)) >= 2**63:
            wrong.append(row.line)
        elif found.setdefault(int(written), split) != split:
            twice.add(int(written))
    if wrong:
        reason = f"{len(wrong):,} rows have no patient id that is a whole number — left out"
        skipped.append(Skip(name, wrong[0], reason))
    if twice:
        reason = f"{len(twice):,} patients are in two splits — they are in none now"
        skipped.append(Skip(name, None, reason))
    return {id: split for id, split in found.items() if id not in twice}


def _labels(file: Path, root: Path, skipped: list[Skip], warnings: list[str]) -> LabelRows:
    name = shown(file, root)
    header = _header(file, name)
    check_columns(header, LABEL_COLUMNS, name)
    return read_labels(
        "SELECT try_cast(patient_id AS BIGINT) AS p, "
        "epoch_us(try_cast(prediction_time AS TIMESTAMP)) AS t, "
        f"{text_value('value')} AS y FROM {_csv_sql(file, header)}",
        name,
        skipped,
        csv=file,
    )


@LOADERS.register("ehrshot")
class Ehrshot:
    """EHRSHOT's original layout."""

    name = "ehrshot"
    title = "EHRSHOT (EHRSHOT_ASSETS with data/ehrshot.csv, benchmark, splits)"

    def accepts(self, path: str) -> bool:
        """EHRSHOT_ASSETS, a folder that holds it, its ehrshot.csv, or one of its pickles."""
        return self._assets(Path(path)) is not None or _pickle(Path(path))

    @staticmethod
    def _assets(place: Path) -> Path | None:
        if place.is_file():
            return place.parent.parent if place.name == "ehrshot.csv" else None
        for folder in (place, place / ASSETS):
            if (folder / EVENTS).is_file():
                return folder
        return place / ASSETS if (place / ASSETS).is_dir() else None

    def load(self, path: str) -> Cohort:
        """Open it; events are read when they are needed. Raises DataError."""
        place = Path(path)
        if _pickle(place):
            raise DataError(
                place.name, None, "is a pickle, and opening one runs whatever it holds",
                f"name the folder with {EVENTS}; pickled features are refused",
            )  # fmt: skip
        assets = self._assets(place)
        if assets is None:
            raise DataError(path, None, f"holds no {EVENTS}", "name EHRSHOT_ASSETS")
        root = place if place.is_dir() else assets
        skipped: list[Skip] = []
        warnings: list[str] = []
        tasks = {
            file.parent.name: partial(_labels, file, root)
            for file in sorted(assets.glob("benchmark/*/labeled_patients.csv"))
        }
        if not tasks:
            warnings.append("benchmark holds no labeled_patients.csv — there are no labels")
        pickles(root, assets, warnings)
        files = EventFiles(
            root,
            _events(assets / EVENTS, root),
            partial(_splits, assets / "splits" / "person_id_map.csv", root),
            with_findings(tasks),
            _no_names,
        )
        data = LabelledData(files, skipped, warnings)
        default = Manifest(root.name, source="EHRSHOT", licence=TERMS, deidentified="yes")
        return Cohort(
            path=str(place),
            format=self.name,
            manifest=read_manifest(root, default, skipped),
            records=StoredRecords(data),
            labels=LabelCounts(data),
            skipped=skipped,
            warnings=warnings,
        )


def _pickle(place: Path) -> bool:
    return place.is_file() and place.suffix.lower() in (".pkl", ".pickle")


def _no_names(warnings: list[str]) -> Mapping[str, str]:
    return {}
