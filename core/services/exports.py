"""Exports of finished runs: HTML report, zip for a download, and the exports included here."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core import config as settings
from core.egress import audit
from core.errors import InputError, UnknownName
from core.parsing import user_path
from core.results.export import MANIFEST, export_run, html_of, read_manifest
from core.results.importing import import_run
from core.storage.files import replacing, use_ordinary_mode


def export_html(run: str, file: str | Path) -> Path:
    """Write a run's report as one self-contained HTML file; raises InputErrors."""
    target = user_path(file)
    text = html_of(run)
    try:
        with replacing(target) as fresh:
            fresh.write_text(text, encoding="utf-8")
        use_ordinary_mode(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def export_bytes(run: str, with_text: bool = False) -> bytes:
    """A finished run's zip, for a page's download; raises as
    :func:`core.results.export.export_run` does."""
    with tempfile.TemporaryDirectory(prefix="midchart-") as place:
        file = Path(place) / f"{run}.zip"
        export_run(run, file, with_text)
        return file.read_bytes()


def download(file: str, make: Callable[[], bytes | str]) -> bytes | str:
    """What ``make`` gives, for a page to hand to a browser as ``file``; audited first."""
    audit.downloaded(file)
    return make()


# Exports of finished runs that are included in the program.


COMMANDS = "commands.json"
"""In the folder of exports: file, or folder of files, → the command that made what is in it."""


def _files() -> dict[str, tuple[Path, dict[str, Any]]]:
    """Run → its export and that one's manifest."""
    files: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(settings.shipped_folder().rglob("*.zip")):
        try:
            with zipfile.ZipFile(path) as archive:
                manifest = read_manifest(archive.read(MANIFEST))
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(f"{path}: is no export ({type(error).__name__})") from None
        files[manifest["run"]] = (path, manifest)
    return files


def shipped_runs(kind: str = "") -> list[dict[str, Any]]:
    """The included exports (of a kind): ``run``, ``made`` (time), the ``command`` of each, and the
    ``folder`` of those that one command made together, "" for one alone."""
    top = settings.shipped_folder()
    book = top / COMMANDS
    commands = json.loads(book.read_text(encoding="utf-8")) if book.exists() else {}
    rows: list[dict[str, Any]] = []
    for run, (path, manifest) in _files().items():
        folder = "" if path.parent == top else path.parent.name
        command = commands.get(folder or path.name, "")
        if kind in ("", manifest["kind"]):
            rows.append(
                {"run": run, "made": manifest["made"], "command": command, "folder": folder}
            )
    return rows


def open_shipped(run: str) -> dict[str, Any]:
    """Open one of them read-only, as :func:`core.results.importing.import_run` does; raises
    InputErrors."""
    files = _files()
    if run not in files:
        raise UnknownName("included run", run, tuple(files))
    return import_run(files[run][0])


def open_examples(folder: str = "") -> dict[str, int]:
    """Open all included exports (of a ``folder``) that are not here yet; ``opened`` and
    ``already_here``: how many.

    A run is linked to its cohort where that exists here; raises InputErrors.
    """
    files = {run: one for run, one in _files().items() if folder in ("", one[0].parent.name)}
    missing = [
        path for run, (path, _) in files.items() if not (settings.runs_folder() / run).exists()
    ]
    for path in missing:
        import_run(path)
    return {"opened": len(missing), "already_here": len(files) - len(missing)}
