"""A finished run for others: its report as one HTML file, its export as bytes for a download."""

from __future__ import annotations

import tempfile
from pathlib import Path

from core.errors import InputError
from core.files import replacing
from core.run import export_run, html_of


def export_html(run: str, file: str | Path) -> Path:
    """Write a run's report as one self-contained HTML file; raises InputErrors."""
    target = Path(file).expanduser()
    text = html_of(run)
    try:
        with replacing(target) as fresh:
            fresh.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def export_bytes(run: str, with_text: bool = False) -> bytes:
    """A finished run's zip, for a page's download; raises as :func:`core.run.export_run` does."""
    with tempfile.TemporaryDirectory(prefix="midchart-") as place:
        file = Path(place) / f"{run}.zip"
        export_run(run, file, with_text)
        return file.read_bytes()
