"""Synthea's CSV export: a folder with ``patients.csv`` and tables of what happened to them.

Each table is declared: its kind, and the columns of its time, end, code, name and parts. A later
end is a separate entry. Tables of payers, claims, providers and organizations are administration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import ISO
from midchart.core.cohorts.records import Entry, PatientEntries, entry, tables_in, with_end
from midchart.core.cohorts.tables import DELIMITERS, TableRow, header_of, leave_out, read_table
from midchart.core.documents.payloads import cell_shown
from midchart.core.loaders import LOADERS
from midchart.core.storage.sources import Source

PATIENTS = "patients"
_PATIENT_COLUMNS = ("Id", "BIRTHDATE", "GENDER")
_FACTS = {"birthdate": "BIRTHDATE", "gender": "GENDER", "race": "RACE", "ethnicity": "ETHNICITY",
          "marital status": "MARITAL"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _RowForm:
    """How a row becomes an entry. ``parts``: ``label: COLUMN`` or ``COLUMN`` of its text."""

    kind: str
    time: str = "START"
    end: str = ""
    name: str = "DESCRIPTION"
    code: str = "CODE"
    parts: tuple[str, ...] = ()
    prefix: str = ""
    unit: str = ""


_REASON = "reason: REASONDESCRIPTION"
_TABLES: Mapping[str, _RowForm] = {
    "encounters": _RowForm("visit", parts=("class: ENCOUNTERCLASS", _REASON)),
    "conditions": _RowForm("condition", end="STOP"),
    "allergies": _RowForm(
        "observation", end="STOP", prefix="Allergy to ",
        parts=("TYPE", "CATEGORY", "reaction: DESCRIPTION1", "severity: SEVERITY1",
               "reaction: DESCRIPTION2", "severity: SEVERITY2"),
    ),
    "medications": _RowForm("drug_exposure", end="STOP", parts=("dispenses: DISPENSES", _REASON)),
    "observations": _RowForm("measurement", "DATE", parts=("VALUE",), unit="UNITS"),
    "procedures": _RowForm("procedure", parts=(_REASON,)),
    "immunizations": _RowForm("immunization", "DATE"),
    "careplans": _RowForm("observation", end="STOP", parts=(_REASON,), prefix="Care plan: "),
    "devices": _RowForm("device_exposure", end="STOP"),
    "supplies": _RowForm("device_exposure", "DATE", parts=("quantity: QUANTITY",)),
    "imaging_studies": _RowForm(
        "image", "DATE", name="PROCEDURE_DESCRIPTION", code="PROCEDURE_CODE",
        parts=("of: BODYSITE_DESCRIPTION", "MODALITY_DESCRIPTION", "SOP_DESCRIPTION"),
    ),
    "notes": _RowForm("note", "DATE", name="TYPE", parts=("TEXT",)),
}  # fmt: skip


@LOADERS.register("synthea_csv")
class SyntheaCsv(RecordLoader):
    """The tables of Synthea's CSV exporter."""

    name = "synthea_csv"
    title = "Synthea CSV (patients.csv, encounters.csv, observations.csv, …)"
    source, unit = "Synthea", "patient"

    def accepts(self, place: Source) -> bool:
        """A folder with ``patients.csv`` in Synthea's columns and another of its tables."""
        tables = _tables(place) if place.is_folder() else {}
        header = header_of(tables.get(PATIENTS, place), _PATIENT_COLUMNS)
        named = {*map(str.upper, _PATIENT_COLUMNS)} <= {*map(str.upper, header)}
        return named and bool(tables.keys() & _TABLES)

    def enter(self, place: Source, patients: PatientEntries) -> list[Source]:
        """All rows by patient, and the questions of other tables."""
        log, asked = patients.log, tables_in(place)
        for table, file in _tables(place).items():
            if table == PATIENTS or table in _TABLES:
                with log.reading(file):
                    _read(table, file, patients)
            elif file not in asked:
                log.opened.add(file)
                log.account(file.name, "tables", total=1, shown=0, reasons={"administration": 1})
        return [file for file in asked if file.stem.lower() not in (*_TABLES, PATIENTS)]


def _tables(place: Source) -> dict[str, Source]:
    """The CSV files of a folder by the names of their tables."""
    return {file.stem.lower(): file for file in place.entries() if file.ending in DELIMITERS}


def _read(table: str, file: Source, patients: PatientEntries) -> None:
    """Enter the rows of a table; raises DataError where it has no such rows."""
    name = file.name
    if table == PATIENTS:
        for row in read_table(file, _PATIENT_COLUMNS, patients.log):
            died = row.get("DEATHDATE")
            dead = entry(ISO.read(died), "death", name="Death", text="recorded")
            patients.add(row.get("Id"), name, *([dead] if died else []))
            patients.facts[row.get("Id")] = {
                fact: row.get(column) for fact, column in _FACTS.items() if row.get(column)
            }
        return
    form, nobody = _TABLES[table], 0
    for row in read_table(file, ("PATIENT", form.time), patients.log):
        if not row.get("PATIENT"):
            patients.log.skip(name, row.line, "names no patient — fill in PATIENT")
            nobody += 1
            continue
        patients.add(row.get("PATIENT"), name, *_entries(form, row))
    leave_out(patients.log, name, {"names no patient": nobody})


def _entries(form: _RowForm, row: TableRow) -> list[Entry]:
    """The entry of a row, and one for its end where that is on a later day."""
    texts: list[str] = []
    for part in form.parts:
        label, _, column = part.rpartition(": ")
        text = cell_shown(row.get(column))
        texts += [f"{label} {text}".strip()] if text else []
    code, system = row.get(form.code), row.get("SYSTEM")
    one = entry(
        ISO.read(row.get(form.time)),
        form.kind,
        code=f"{system}/{code}" if system and code else code,
        name=form.prefix + (row.get(form.name) or form.kind),
        text="; ".join(texts),
        unit=row.get(form.unit) if form.unit else "",
        visit_id=row.get("ENCOUNTER") or (row.get("Id") if form.kind == "visit" else ""),
        line=row.line,
    )
    return with_end(one, ISO.read(row.get(form.end)) if form.end else None)
