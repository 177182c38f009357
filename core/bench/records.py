"""Reading a MedAlign record: a whole tree with strptime, and a stream."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from core.bench import BENCHES, compare, reference
from core.loaders.medalign_xml import read_record
from core.synthetic.cohort import make_clinical


@BENCHES.register("record_xml")
def record_xml() -> dict[str, Any]:
    """One synthetic record of about 1,500 events."""
    plain = reference("xml").read_record
    with tempfile.TemporaryDirectory() as folder:
        make_clinical(Path(folder), 2, 1500, 1)
        file = next(iter(sorted((Path(folder) / "ehrs").glob("*.xml"))))
        return compare(
            "record_xml",
            f"{file.stat().st_size // 1024} KiB",
            lambda: plain(file, file.name),
            lambda: read_record(file, file.name),
            ask=2,
        )
