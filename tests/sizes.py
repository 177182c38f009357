"""Sizes of the product with their limits: ``python -m tests.sizes``.

Lines and files are those that git tracks; a package is a direct child of ``core`` and its Python
files; the import time is the shortest of five fresh processes, as other work only adds to it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from midchart.core import api
from tests.support.run_helpers import ROOT, workspace_at, write_cohort

REPEATS = 5


def tracked(folder: str) -> list[Path]:
    """The Python files of a folder that git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name.endswith(".py")]
    return [path for path in paths if path.exists()]


def lines(paths: list[Path]) -> int:
    """Lines of all files together."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def packages() -> list[tuple[str, int]]:
    """Packages of ``core`` and their lines, the largest first."""
    groups: dict[str, list[Path]] = {}
    for path in tracked("core"):
        parts = path.relative_to(ROOT / "core").parts
        groups.setdefault(parts[0] if len(parts) > 1 else "(modules)", []).append(path)
    return sorted(((name, lines(files)) for name, files in groups.items()), key=lambda x: -x[1])


def import_seconds(module: str) -> float:
    """Seconds of ``import module`` above those of an empty interpreter."""

    def shortest(code: str) -> float:
        times: list[float] = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
            times.append(time.perf_counter() - begun)
        return min(times)

    return shortest(f"import {module}") - shortest("pass")


def files_entered(arm: str) -> set[str]:
    """Files of core of which ``api.select`` executes a function for a question by ``arm``.

    Another question is asked before, of another record, so that no module is imported meanwhile.
    """
    entered: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    with tempfile.TemporaryDirectory() as folder, workspace_at(Path(folder)):
        cohort = api.open_data(write_cohort(Path(folder) / "tiny", records=2))
        protocol = api.Protocol()
        for id, profile in (("1", None), ("2", note)):
            asked = next(one for one in cohort.instructions if one.record_id == id)
            record = cohort.records[id]
            sys.setprofile(profile)
            api.select(cohort, record, asked, arm, protocol)
            sys.setprofile(None)
    return {name for name in entered if name.startswith(f"{ROOT / 'core'}/")}


def main() -> None:
    """Print one row a size: what, now, limit."""
    core, largest = tracked("core"), packages()
    rows = [
        ("core, lines", f"{lines(core):,}", "35,000"),
        ("core, files", f"{len(core):,}", "250"),
        ("pages, lines", f"{lines(tracked('pages')):,}", "9,000"),
        ("tests, lines", f"{lines(tracked('tests')):,}", "18,000"),
        *((f"core/{name}, lines", f"{size:,}", "6,000") for name, size in largest[:5]),
        ("one question by BM25, files entered", f"{len(files_entered('bm25'))}", "15"),
        ("import midchart.core.api, s", f"{import_seconds('midchart.core.api'):.2f}", "0.4"),
    ]
    print("| what | now | limit |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
