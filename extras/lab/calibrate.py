"""The calibration file of the arm ``certain``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from midchart.core.named_files import place_of
from midchart.core.protocol import parse
from midchart.core.services.cohorts import open_data
from midchart.core.storage.files import output_path, writing
from midchart.extras.lab.certain import calibrate, split_coverage


def make_calibration(
    data: str | Path,
    out: str | Path,
    protocol: str | Mapping[str, Any] = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Calibrate the arm on a cohort; returns its coverage (``calibrate --json``).

    ``out`` is the file to write; it holds numbers and hashes of records, no text. Raises InputError
    where no question has located evidence, or where the file cannot be written.
    """
    cohort = open_data(data)
    path = output_path(place_of(out))
    with writing(path):
        calibration = calibrate(cohort, parse(protocol), path, progress)
    return {"file": str(path.resolve()), **split_coverage(calibration)}
