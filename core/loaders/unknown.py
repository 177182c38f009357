"""What a path that no loader reads holds, and the format that it is nearest to.

Names of columns and keys are given only where a format has them: a file without a header has text
of records in their place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from midchart.core.cohorts.columns import known_names
from midchart.core.cohorts.files import entries_of, read_start
from midchart.core.cohorts.tables import DELIMITERS, header_of, table_kind
from midchart.core.loaders.plain_notes import COLUMNS, NEEDED

_MOST_FILES, _MOST_ENDINGS, _HEAD = 200, 4, 1 << 14
_ROOT = re.compile(rb"<(?![?!])(?:[\w.-]{1,40}:)?([A-Za-z][\w.-]{0,40})")
_TABLES: dict[str, tuple[tuple[str, ...], str]] = {
    "plain notes": (NEEDED, "a table of notes"),
    "OMOP": (("person_id",), "person.csv and tables of what happened, as note.csv"),
    "MedAlign questions": (("filename", "question"), "questions without records: add ehrs/*.xml"),
    "EHRSHOT": (("patient_id", "code", "value"), "data/ehrshot.csv and benchmark/"),
    "MEDS": (("subject_id", "time", "code"), "data/*.parquet"),
    "Synthea CSV": (("PATIENT", "DESCRIPTION"), "patients.csv beside the other tables"),
}
"""Format → columns that its tables have, and what it needs."""
_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"urn:hl7-org:v3", "C-CDA: the root element is ClinicalDocument"),
    (b"hl7.org/fhir", "FHIR: each resource names its resourceType"),
    (b'"resourceType"', "FHIR: a JSON document, or NDJSON with one resource a line"),
    (b"<eventstream", "MedAlign: records in ehrs/*.xml"),
    (b"<encounter", "MedAlign: records in ehrs/*.xml"),
    (b'"paragraphs"', "SQuAD-shaped JSON: data[].paragraphs[].context and qas"),
    (b'"questions"', "LongHealth: patients with texts and questions"),
    (b"DICM", "none: images in DICOM hold no text; export their reports"),
    (b"PK\x03\x04", "OMOP tables in a zip; unpack a zip of another format, or save as text"),
    (b"\xd0\xcf\x11\xe0", "plain notes: save Word and Excel files as text or CSV"),
    (b"SQLite format 3", "OMOP in DuckDB or CSV: export the tables"),
    (b"PAR1", "MEDS or OMOP in Parquet, with their names of columns"),
)
"""What files of a kind hold near their beginning, and the format that they are nearest to."""


def seen(place: Path) -> str:
    """What a path holds: files by their endings."""
    if place.is_file():
        return f"it is a file of {place.stat().st_size:,} bytes ({place.suffix or 'no ending'})"
    endings = Counter(file.suffix.lower() or "no ending" for file in _files(place))
    if not endings:
        return "the folder holds no file"
    most = ", ".join(f"{n:,} {ending}" for ending, n in endings.most_common(_MOST_ENDINGS))
    return f"the folder holds files ({most})"


def nearest(place: Path) -> str:
    """The format that the files at a path are nearest to and what they lack of it, or ""."""
    for file in _files(place):
        if name := _nearest(file):
            return f"{file.name} is nearest to {name}"
    return ""


def _files(place: Path) -> list[Path]:
    inside = (file for file in entries_of(place, deep=True) if file.is_file())
    return [file for _, file in zip(range(_MOST_FILES), inside, strict=False)]


def _nearest(file: Path) -> str:
    head = read_start(file, _HEAD)
    if table_kind(file) in DELIMITERS:
        return next(_by_columns(header_of(file, NEEDED)), "")
    mark = next((name for text, name in _MARKS if text in head), "")
    if not mark and (root := _ROOT.match(head.lstrip(b"\xef\xbb\xbf \r\n\t"))):
        return f"no format (its root element is {root[1].decode()})"
    return mark


def _by_columns(header: list[str]) -> Iterator[str]:
    """The formats of tables by how many of their columns a header has."""
    exact = {one.strip() for one in header}
    known = exact | set(known_names(header, COLUMNS).values())
    scored = sorted(
        (
            (len(known & {*columns}) + len(exact & {*columns}), n)
            for n, (columns, _) in _TABLES.items()
        ),
        reverse=True,
    )
    for count, name in scored:
        columns, needs = _TABLES[name]
        lacks = [column for column in columns if column not in known]
        if count:
            more = f", and lacks the column {' and '.join(lacks)}" if lacks else ""
            yield f"{name} ({needs}){more}"
