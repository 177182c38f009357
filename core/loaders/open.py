"""Open a cohort of any known format: the first loader that accepts the path reads it."""

from __future__ import annotations

from pathlib import Path

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.files import data_error
from core.types import Cohort

_LATER = {
    "FHIR": ("*.ndjson", "bundle*.json", "fhir/*.json"),
    "MEDS without events": ("metadata/codes.parquet",),
    "OMOP": ("person.csv", "PERSON.csv", "person.parquet", "PERSON.parquet", "*_5.4.zip"),
}
"""Files by which formats that a later version reads give themselves away."""


def _looks_like(path: Path) -> str:
    if path.is_file():
        head = path.open("rb").read(4096)
        if path.suffix == ".json" and b'"resourceType"' in head:
            return "FHIR"
        return {".parquet": "MEDS or OMOP", ".zip": "OMOP"}.get(path.suffix, "")
    for name, patterns in _LATER.items():
        if any(next(path.glob(pattern), None) for pattern in patterns):
            return name
    for file in sorted(path.glob("*.json"))[:1]:
        if b'"resourceType"' in file.open("rb").read(4096):
            return "FHIR"
    return ""


def open_cohort(path: str | Path) -> Cohort:
    """The cohort at a path; raises DataError where there is none or no loader knows it."""
    place = Path(path)
    try:
        place.stat()
        for name in LOADERS.names():
            loader = LOADERS.build(name)
            if loader.accepts(str(place)):
                return loader.load(str(place))
        other = _looks_like(place)
    except OSError as error:
        raise data_error(error, str(place)) from None
    known = "; ".join(LOADERS.get(name).title for name in LOADERS.names())  # pyright: ignore
    if other:
        reason = f"looks like {other}, which this version does not read yet"
    else:
        reason = "is in no format that is known here"
    raise DataError(str(place), None, reason, f"known: {known}")
