"""Sizes of the product with their limits: ``python -m tests.sizes``.

Lines and files are those that git tracks; a package is a direct child of ``core`` and its Python
files; the import time is the shortest of five fresh processes, as other work only adds to it.
``tests/test_sizes.py`` holds the product to the limits, except those of ``NOT_MET``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from midchart.core import api
from tests.support.run_helpers import ROOT, workspace_at, write_cohort

REPEATS = 5
PAGES, CORE, TESTS = "pages, lines", "core, lines", "tests, lines"
DATA = "YAML and TSV, lines"
NOT_MET = frozenset({PAGES, CORE, TESTS, DATA})
"""Limits that the product is above; it is printed how far."""


@dataclass(frozen=True, slots=True)
class Size:
    """What is counted, the count, and its limit."""

    what: str
    now: int
    limit: int


def tracked(folder: str, *endings: str) -> list[Path]:
    """The files of a folder that git tracks, by default those of Python."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = listed.stdout.split("\0")
    paths = [ROOT / name for name in names if name.endswith(endings or (".py",))]
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


def repeated_class_names() -> list[str]:
    """Names, without leading underscores, of several classes of core and pages."""
    names = Counter(
        node.name.lstrip("_")
        for path in (*tracked("core"), *tracked("pages"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, count in names.items() if count > 1)


def sizes() -> list[Size]:
    """All sizes but the import time, with their limits."""
    return [
        Size(PAGES, lines(tracked("pages")), 9_500),
        Size(CORE, lines(tracked("core")), 52_000),
        Size(TESTS, lines(tracked("tests")), 32_000),
        Size(DATA, lines(tracked(".", ".yaml", ".tsv")), 5_000),
        *(Size(f"core/{name}, lines", size, 6_000) for name, size in packages()[:5]),
        Size("one question by BM25, files entered", len(files_entered("bm25")), 15),
        Size("class names of several classes", len(repeated_class_names()), 0),
    ]


def main() -> None:
    """Print one row a size: what, now, limit, and whether it is met."""
    print("| what | now | limit | |\n|---|---|---|---|")
    for size in sizes():
        state = "" if size.now <= size.limit else "not met"
        print(f"| {size.what} | {size.now:,} | {size.limit:,} | {state} |")
    print(f"| import midchart.core.api, s | {import_seconds('midchart.core.api'):.2f} | 0.40 | |")


if __name__ == "__main__":
    main()
