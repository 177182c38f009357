"""Sizes of the product with their limits: ``python -m tests.sizes``.

Lines and files are those that git tracks; a package is a direct child of ``core`` and its Python
files; the import time is the shortest of five fresh processes, as other work only adds to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.run_helpers import ROOT, write_cohort

REPEATS = 5
SELECT = """
import json, sys
from core.cli import main
status = main(sys.argv[1:])
loaded = sorted(name for name in sys.modules if name == "core" or name.startswith("core."))
print(json.dumps([status, loaded]), file=sys.stderr)
"""


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


def modules_of_select(arm: str) -> list[str]:
    """Names of the core modules that ``select --arm ARM`` imports on a tiny cohort."""
    with tempfile.TemporaryDirectory() as folder:
        cohort = write_cohort(Path(folder) / "tiny", records=1)
        call = ["select", str(cohort), "--record", "1", "--question", "dose", "--arm", arm]
        env = os.environ | {"MIDCHART_CACHE": f"{folder}/cache", "MIDCHART_DATA": f"{folder}/data"}
        done = subprocess.run(
            [sys.executable, "-c", SELECT, *call, "--json"],
            cwd=ROOT, env=env, capture_output=True, text=True, check=True,
        )  # fmt: skip
    status, loaded = json.loads(done.stderr.splitlines()[-1])
    if status:
        raise RuntimeError(f"select ended with status {status}")
    return loaded


def with_code(names: list[str]) -> list[str]:
    """Of module names, those that are not only a package's ``__init__``."""
    return [name for name in names if not (ROOT / name.replace(".", "/")).is_dir()]


def main() -> None:
    """Print one row a size: what, now, limit."""
    core, largest = tracked("core"), packages()
    bm25 = modules_of_select("bm25")
    rows = [
        ("core, lines", f"{lines(core):,}", "35,000"),
        ("core, files", f"{len(core):,}", "250"),
        ("pages, lines", f"{lines(tracked('pages')):,}", "9,000"),
        ("tests, lines", f"{lines(tracked('tests')):,}", "18,000"),
        *((f"core/{name}, lines", f"{size:,}", "6,000") for name, size in largest[:5]),
        ("select --arm bm25, modules", f"{len(with_code(bm25))}", "15"),
        ("– with packages' `__init__`", f"{len(bm25)}", ""),
        ("import core.api, s", f"{import_seconds('core.api'):.2f}", "0.4"),
    ]
    print("| what | now | limit |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
