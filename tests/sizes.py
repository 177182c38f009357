"""Sizes of the product with their limits: ``python -m tests.sizes``.

Lines and files are those that git tracks; a package is a direct child of ``core`` and its Python
files; the import time is the shortest of five fresh processes, as other work only adds to it.
``tests/test_sizes.py`` prints each size above its limit, allows a tenth more, and holds what is
above that to the size it has reached.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from midchart.core import api
from tests.support import patient_cohort
from tests.support.run_helpers import ROOT, workspace_at, write_cohort

REPEATS = 5
TOLERANCE = 0.1
"""Share above a limit at which the test fails."""
CODE = tuple(f"{ROOT / top}/" for top in ("core", "pages", "extras"))


@dataclass(frozen=True, slots=True)
class Size:
    """What is counted, the count, and its limit."""

    what: str
    now: int
    limit: int

    @property
    def state(self) -> str:
        """Empty within the limit, "above" within a tenth more, else "not met"."""
        if self.now <= self.limit:
            return ""
        return "above" if self.now <= self.limit * (1 + TOLERANCE) else "not met"


def tracked(folder: str, *endings: str) -> list[Path]:
    """The files of a folder that git tracks, by default those of Python."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", folder],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
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


@contextmanager
def entered() -> Iterator[set[str]]:
    """The files of the product of which a function is executed in the block, by any thread."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(CODE):
            files.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def files_of_a_selection(arm: str) -> int:
    """Files that ``api.select`` enters for a question by ``arm``.

    Another question is asked before, of another record, so that no module is imported meanwhile.
    """
    with tempfile.TemporaryDirectory() as folder, workspace_at(Path(folder)):
        cohort = api.open_data(write_cohort(Path(folder) / "tiny", records=2))
        first, second = (
            next(one for one in cohort.instructions if one.record_id == id) for id in ("1", "2")
        )
        api.select(cohort, cohort.records["1"], first, arm, api.Protocol())
        record = cohort.records["2"]
        with entered() as files:
            api.select(cohort, record, second, arm, api.Protocol())
    return len(files)


def files_of_a_typed_question() -> int:
    """Files that page Patient enters for a question that somebody types, after one was shown."""
    from tests.support.pages import open_page

    with tempfile.TemporaryDirectory() as folder, workspace_at(Path(folder)):
        patient_cohort.make(Path(folder) / "data" / "cohorts" / "hand")
        app = open_page("patient")
        for question in ("Was a stool test done?", "Which dose of lisinopril?"):
            app.session_state["patient_question"] = "typed"
            app.session_state["patient_typed"] = question
            with entered() as files:
                app.run()
        assert not app.exception
    return len(files)


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
    documents = ROOT / "docs"
    return [
        Size("core, lines", lines(tracked("core")), 50_000),
        Size("pages, lines", lines(tracked("pages")), 9_500),
        Size("extras, lines", lines(tracked("extras")), 15_000),
        Size("tests, lines", lines(tracked("tests")), 40_000),
        Size("core, YAML and TSV, lines", lines(tracked("core", ".yaml", ".tsv")), 1_000),
        *(Size(f"core/{name}, lines", size, 5_000) for name, size in packages()[:5]),
        Size("SECURITY.md, bytes", (ROOT / "SECURITY.md").stat().st_size, 8_000),
        Size("guide.md, lines", lines([documents / "guide.md"]), 600),
        Size("log.md, lines", lines([documents / "log.md"]), 400),
        Size("a selection by BM25, files entered", files_of_a_selection("bm25"), 15),
        Size("a typed question on page Patient, files entered", files_of_a_typed_question(), 40),
        Size("class names of several classes", len(repeated_class_names()), 0),
    ]


def main() -> None:
    """Print one row a size: what, now, limit, and whether it is met."""
    print("| what | now | limit | |\n|---|---|---|---|")
    for size in sizes():
        print(f"| {size.what} | {size.now:,} | {size.limit:,} | {size.state} |")
    print(f"| import midchart.core.api, s | {import_seconds('midchart.core.api'):.2f} | 0.40 | |")


if __name__ == "__main__":
    main()
