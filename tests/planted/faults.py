"""Fourteen faults planted one at a time, and the tests that fail.

Run by ``python -m tests.planted.faults``.

Each fault is an edit of a source file in a temporary copy of the tree. The tests named with it, of
those that ``make test`` runs, must pass in the copy without the edit and fail with it. Prints one
line a fault; exit status 1 where fewer than ``CAUGHT_AT_LEAST`` of them fail.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.run_helpers import ROOT

CAUGHT_AT_LEAST = 13
OF_MAKE_TEST = "not slow"
"""The tests of ``make test``, by their marks."""


@dataclass(frozen=True)
class Edit:
    """A replacement in a source file: ``before`` occurs there once."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Fault:
    """A fault, its edits, and the test files of ``make test`` that see it."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "ties go to the later sentence",
        (
            Edit(
                "core/arms/base.py",
                'order = np.argsort(-scores, kind="stable")',
                "order = np.lexsort((-np.arange(len(scores)), -scores))",
            ),
        ),
        ("tests/core/arms/test_arms_base.py",),
    ),
    Fault(
        "deciles are closed on the right",
        (
            Edit(
                "core/text/evidence.py",
                "return bisect_right(_EDGES, _checked(position))",
                "return bisect_right(_EDGES, _checked(position) - 1e-9)",
            ),
        ),
        ("tests/core/text/test_evidence.py",),
    ),
    Fault(
        "a pick of the recency buffer is shown twice",
        (
            Edit(
                "core/arms/base.py",
                '"time": sorted(fitting)',
                '"time": sorted([*fitting, *is_recent.intersection(best)])',
            ),
        ),
        ("tests/core/arms/test_arms_base.py",),
    ),
    Fault(
        "the judge's verdicts are inverted",
        (
            Edit(
                "core/judges/exact.py",
                '("correct" if correct else "incorrect")',
                '("incorrect" if correct else "correct")',
            ),
        ),
        ("tests/core/judges/test_judges_rules.py",),
    ),
    Fault(
        "the ends of Wilson's interval are swapped",
        (
            Edit(
                "core/stats/intervals.py",
                "return Interval(share, low, high)",
                "return Interval(share, high, low)",
            ),
        ),
        ("tests/core/stats/test_stats_intervals.py",),
    ),
    Fault(
        "DeLong's difference has the other sign",
        (
            Edit(
                "core/stats/auroc.py",
                "int(side.sum())\n    return _test(first.area - second.area,",
                "int(side.sum())\n    return _test(second.area - first.area,",
            ),
        ),
        ("tests/core/stats/test_stats_auroc.py",),
    ),
    Fault(
        "a gate is trained on its test patients",
        (Edit("core/gate/checkpoint.py", "parts = (order[held:seen],", "parts = (order[held:],"),),
        ("tests/planted/test_leaks_gate.py",),
    ),
    Fault(
        "k is ignored",
        (Edit("core/arms/base.py", "k = max(0, k)", "k = 20"),),
        ("tests/core/arms/test_arms_base.py",),
    ),
    Fault(
        "a resumed run writes its rows again",
        (
            Edit(
                "core/storage/rows.py",
                '{row["key"] for row in self.select(table, "key")}',
                "set[str]()",
            ),
            Edit(
                "core/runs/job.py",
                "self._names[table, by] = {row[by] for row in rows}",
                "self._names[table, by] = set[str]()",
            ),
        ),
        ("tests/core/runs/test_run.py", "tests/core/runs/test_run_stage1.py"),
    ),
    Fault(
        "every address is permitted",
        (Edit("core/egress/__init__.py", "        if address.local:\n", "        if address:\n"),),
        ("tests/core/egress/test_egress.py",),
    ),
    Fault(
        "text of records is not escaped",
        (
            Edit(
                "core/format.py",
                'return escape(for_terminal(text.replace("\\r\\n", "\\n")))',
                'return for_terminal(text.replace("\\r\\n", "\\n"))',
            ),
        ),
        ("tests/pages/test_patient_marks.py",),
    ),
    Fault(
        "places of sentences are shifted by one character",
        (
            Edit(
                "core/text/__init__.py",
                "span = Span(event.order, start, end)",
                "span = Span(event.order, start + 1, end + 1)",
            ),
        ),
        ("tests/core/text/test_text.py",),
    ),
    Fault(
        "a function without a stated role is open to viewers",
        (
            Edit(
                "core/access.py",
                'getattr(function, "needed_role", ROLES[-1])',
                'getattr(function, "needed_role", ROLES[0])',
            ),
        ),
        ("tests/extras/server/test_roles.py",),
    ),
    Fault(
        "any piece of the evidence counts as all pieces",
        (
            Edit(
                "core/arms/hits.py",
                'f"evidence_all{end}": None if held is None else len(held) == len(self.parts)',
                'f"evidence_all{end}": None if held is None else bool(held)',
            ),
        ),
        ("tests/core/experiments/curve/test_chance.py",),
    ),
)


def copied_tree(folder: Path) -> Path:
    """A copy of the files that git tracks or would add, next to the same samples."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    tree = folder / "midchart"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    samples = ROOT.parent / "shared"
    if samples.is_dir():
        (folder / "shared").symlink_to(samples)
    return tree


def plant(tree: Path, fault: Fault) -> None:
    """Edit the copy; raises ValueError where the text to replace does not occur once."""
    for edit in fault.edits:
        path = tree / edit.file
        text = path.read_text(encoding="utf-8")
        if text.count(edit.before) != 1:
            raise ValueError(f"{fault.name}: the line to edit occurs not once in {edit.file}")
        path.write_text(text.replace(edit.before, edit.after), encoding="utf-8")


def restore(tree: Path, fault: Fault) -> None:
    """The sources as they were, with their times, so that their compiled files stay valid."""
    for edit in fault.edits:
        shutil.copy2(ROOT / edit.file, tree / edit.file)


def failures(tree: Path, files: Sequence[str], *options: str, compiled: bool) -> list[str]:
    """The tests of ``files`` that fail in a copy; raises RuntimeError where pytest does not run.

    ``compiled``: bytecode is written; not that of a planted fault.
    """
    no_bytecode = "" if compiled else "1"
    marked = ["-m", OF_MAKE_TEST, "-p", "no:cacheprovider", "-rfE", "--tb=no"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *marked, *options, *files],
        cwd=tree, capture_output=True, text=True, check=False,
        env=os.environ
        | {
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": no_bytecode,
            "PYTHONPATH": str(tree.parent),
        },
    )  # fmt: skip
    if done.returncode not in (0, 1) or re.search(r"^ERROR ", done.stdout, re.M):
        raise RuntimeError(f"pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return re.findall(r"^FAILED (\S+)", done.stdout, re.M)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant each fault whose name contains one of the words; 0 where enough of them fail a test."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.planted.faults")
    parser.add_argument("words", nargs="*", help="of a fault's name; none: all faults")
    words: list[str] = parser.parse_args(arguments).words
    faults = [one for one in FAULTS if not words or any(word in one.name for word in words)]
    caught = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copied_tree(Path(folder))
        files = sorted({file for fault in faults for file in fault.tests})
        failed = failures(tree, files, compiled=True)
        if failed:
            print("without a fault these fail:", *failed, sep="\n  ")
            return 1
        for fault in faults:
            plant(tree, fault)
            failed = failures(tree, fault.tests, "-x", compiled=False)
            restore(tree, fault)
            caught += bool(failed)
            print(f"{fault.name:<52} {failed[0] if failed else 'NOT CAUGHT'}", flush=True)
    print(f"{caught} of {len(faults)} are caught")
    return 0 if caught >= min(CAUGHT_AT_LEAST, len(faults)) else 1


if __name__ == "__main__":
    sys.exit(main())
