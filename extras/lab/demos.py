"""Synthetic cohorts of any size, and the archives of the included ones.

``python -m midchart.extras.lab.demos`` makes and packs those of ``data/demo``.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import tarfile
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from midchart.core.cohorts.demo import DEMOS
from midchart.extras.lab.synthetic.cohort import make_clinical
from midchart.extras.lab.synthetic.laboratory import make_laboratory
from midchart.extras.lab.synthetic.letters import LETTERS, MIXED

SIZES = {"clinical": (40, 300), "letters": (10, 1800), "ehrshot": (300, 400), "meds": (300, 400)}
"""Kind of cohort → patients, and events a patient, of the included one."""
PACKED_AT = 1_767_225_600
"""Time of the files in an archive, in seconds; the same in each, as the demo has no date."""
Progress = Callable[[int, int], None] | None


def generate(
    kind: str, out: Path, patients: int | None, events: int | None, seed: int, progress: Progress
) -> dict[str, Any]:
    """Write a synthetic cohort of a kind (:data:`SIZES`) into ``out`` and return its counts.

    Raises InputError where a number is out of range or the folder holds other data.
    """
    size = (patients or SIZES[kind][0], events or SIZES[kind][1])
    if kind in ("ehrshot", "meds"):
        return make_laboratory(out, kind, *size, seed, progress)
    return make_clinical(out, *size, seed, progress, LETTERS if kind == "letters" else MIXED)


def pack(cohort: Path) -> bytes:
    """The archive of a cohort's files: the same files give the same bytes."""
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(path for path in cohort.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(path.relative_to(cohort).as_posix())
            entry.size, entry.mode, entry.mtime = path.stat().st_size, 0o600, PACKED_AT
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return lzma.compress(packed.getvalue(), preset=9)


def main(folder: Path) -> None:
    """Make the included cohorts again and write their archives and ``demos.json`` into a folder."""
    included: dict[str, Any] = {}
    for kind, name in DEMOS.items():
        with tempfile.TemporaryDirectory() as place:
            counts = generate(kind, Path(place, name), None, None, 42, None)
            packed = pack(Path(place, name))
        (folder / f"{name}.tar.xz").write_bytes(packed)
        included[name] = {"sha256": hashlib.sha256(packed).hexdigest(), "counts": counts}
    (folder / "demos.json").write_text(json.dumps(included, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(__file__).resolve().parents[2] / "data" / "demo")
