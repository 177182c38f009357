"""The format of a path; of one that no loader reads, what it holds and the format it is nearest to.

Names of columns and keys are given only where a format has them: a file without a header has text
of records in their place.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from pathlib import Path

from midchart.core.cohorts.base import CohortLoader
from midchart.core.cohorts.columns import known_names
from midchart.core.cohorts.tables import DELIMITERS, header_of
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.loaders.plain_notes import COLUMNS, NEEDED
from midchart.core.storage.sources import DEEP, Source, reading_file

_MOST_FILES, _MOST_ENDINGS, _HEAD = 200, 4, 1 << 14
_ROOT = re.compile(rb"[\xef\xbb\xbf \r\n\t]*<(?![?!])(?:[\w.-]{1,40}:)?([A-Za-z][\w.-]{0,40})")
_TABLES: dict[str, tuple[tuple[str, ...], str]] = {
    "plain notes": (NEEDED, "a table of notes"),
    "OMOP": (("person_id",), "person.csv and tables of what happened, as note.csv"),
    "MedAlign questions": (("filename", "question"), "questions without records: add ehrs/*.xml"),
    "EHRSHOT": (("patient_id", "code", "value"), "data/ehrshot.csv and benchmark/"),
    "MEDS": (("subject_id", "time", "code"), "data/*.parquet"),
    "Synthea CSV": (("PATIENT", "DESCRIPTION"), "patients.csv and the other tables in one folder"),
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


def find_loader(path: str | Path) -> CohortLoader:
    """The first loader that accepts a path; raises DataError where the path or a loader is
    missing."""
    with reading_file(str(path)):
        Path(path).stat()
        source = Source.at(path)
        for loader in map(LOADERS.build, LOADERS.names()):
            if loader.accepts(source):
                return loader
        raise DataError(str(path), None, *_why_not(source))


def _why_not(source: Source) -> tuple[str, str]:
    """Reason and remedy for what no loader reads."""
    zips = [file.name for file in source.entries() if file.ending == ".zip"]
    if len(zips) > 1:
        return f"holds {len(zips)} zip files", f"name one of them, as {zips[0]}"
    if source.within("metadata/codes.parquet").exists():
        return "holds the metadata of MEDS and no events", "add data/*.parquet"
    # What it holds, by the endings of files, and the first file that is near to a format.
    files = list(islice(filter(Source.is_file, source.entries(DEEP)), _MOST_FILES))
    endings = Counter(file.ending or "no ending" for file in files)
    most = ", ".join(f"{n:,} {ending}" for ending, n in endings.most_common(_MOST_ENDINGS))
    seen = f"the folder holds files ({most})" if files else "the folder holds no file"
    if source.is_file():
        seen = f"it is a file of {source.size:,} bytes ({source.ending or 'no ending'})"
    near = ((file.own_name, name) for file in files if (name := _nearest(file)))
    known = "known: " + "; ".join(LOADERS.get(name).title for name in LOADERS.names())  # pyright: ignore
    remedy = next((f"{file} is nearest to {name}; {known}" for file, name in near), known)
    return f"is in no format that is known here: {seen}", remedy


def _nearest(file: Source) -> str:
    """The format that a file is nearest to and what it lacks of it, or ""."""
    if file.ending not in DELIMITERS:
        head = file.start(_HEAD)
        mark = next((name for text, name in _MARKS if text in head), "")
        root = _ROOT.match(head)
        return mark or (f"no format (its root element is {root[1].decode()})" if root else "")
    header = header_of(file, NEEDED)
    # Of tables, by how many of a format's columns are there.
    exact = {one.strip() for one in header}
    known = exact | set(known_names(header, COLUMNS).values())
    count, name = max(
        (len(known & {*columns}) + len(exact & {*columns}), name)
        for name, (columns, _) in _TABLES.items()
    )
    columns, needs = _TABLES[name]
    lacks = [column for column in columns if column not in known]
    more = f", and lacks the column {' and '.join(lacks)}" if lacks else ""
    return f"{name} ({needs}){more}" if count else ""
