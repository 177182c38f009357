"""A finished run exported as a zip, and changes of such a zip."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from midchart.core.results.export import export_run
from tests.support.run_helpers import finished_run, members_place, spec, write_cohort


@dataclass(frozen=True)
class Exported:
    """A finished run, the cohort it is on, and the zip of it; the folder holds all three."""

    folder: Path
    cohort: Path
    run: str
    file: Path


@contextmanager
def exported_run(folder: Path) -> Iterator[Exported]:
    """A place for runs with one that is finished and exported as one does by default."""
    with members_place(folder):
        cohort = write_cohort(folder / "data" / "cohorts" / "tiny")
        readers = [{"name": "test_echo", "shout": True}]
        run = finished_run(spec(cohort, readers=readers, token_matched=[60]))
        assert export_run(run, folder / "out.zip")["with_text"] is False
        yield Exported(folder, cohort, run, folder / "out.zip")


def unpacked(file: Path, into: Path) -> Path:
    """The files of a zip in a folder; gives the folder."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(into)
    return into


def zipped(folder: Path, file: Path) -> Path:
    """A zip of a folder's files; gives the zip."""
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(path, path.relative_to(folder).as_posix())
    return file


def sealed(folder: Path) -> Path:
    """The manifest's list made anew, as somebody who forges an export would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256(path.read_bytes()).hexdigest(),
        }
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def nothing_left(there: Path) -> bool:
    """Whether a refused import took away all it had begun."""
    return not list((there / "runs").iterdir())
