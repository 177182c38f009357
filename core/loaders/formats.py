"""The format of a path, and what its loader reads there."""

from __future__ import annotations

from pathlib import Path

from midchart.core.cohorts.files import data_error
from midchart.core.errors import DataError
from midchart.core.interfaces import Loader
from midchart.core.loaders import LOADERS
from midchart.core.loaders.unknown import nearest, seen


def find_loader(path: str | Path) -> Loader:
    """The loader that accepts a path; raises DataError where the path or a loader is missing."""
    place = Path(path)
    try:
        place.stat()
        name = _format_of(place)
        if name:
            return LOADERS.build(name)
        reason, remedy = _why_not(place)
    except OSError as error:
        raise data_error(error, str(place)) from None
    raise DataError(str(place), None, reason, remedy)


def _format_of(place: Path) -> str:
    """Name of the first loader that accepts a path; "" where none does. Raises OSError."""
    loaders = (name for name in LOADERS.names() if LOADERS.build(name).accepts(str(place)))
    return next(loaders, "")


def _why_not(path: Path) -> tuple[str, str]:
    """Reason and remedy for a path that no loader reads."""
    zips = sorted(path.glob("*.zip")) if path.is_dir() else []
    if len(zips) > 1:
        return f"holds {len(zips)} zip files", f"name one of them, as {zips[0].name}"
    if path.is_dir() and (path / "metadata" / "codes.parquet").exists():
        return "holds the metadata of MEDS and no events", "add data/*.parquet"
    known = "; ".join(LOADERS.get(name).title for name in LOADERS.names())  # pyright: ignore
    near = nearest(path)
    return (
        f"is in no format that is known here: {seen(path)}",
        f"{near}; known: {known}" if near else f"known: {known}",
    )
