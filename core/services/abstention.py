"""How often each local reader is wrong without the evidence and abstains with it, as measured.

``core/readers/shipped/abstention.csv`` holds the table ``abstention`` of runs of
``docs/abstention.toml``; ``python -m midchart.core.services.abstention "NAME=RUN" …`` writes it,
NAME being what a page calls the data of a run.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from midchart.core import config as settings
from midchart.core.cohorts.files import write_atomic
from midchart.core.errors import InputError
from midchart.core.results.report import report
from midchart.core.services.components import members

FILE = settings.ROOT / "core" / "readers" / "shipped" / "abstention.csv"
_CONTEXTS = {"oracle fill=True": "present", "oracle evidence=False fill=True": "absent"}
"""Of the shipped rows, those of the default budget: arm label → whether the evidence is there."""
_NAMES = ("data", "reader", "label", "evidence")
_COUNTS = ("n", "patients", "abstained", "wrong")
_SHARES = tuple(
    f"{name}_{end}" for name in ("abstained", "wrong") for end in ("share", "low", "high")
)


@cache
def error_rates() -> dict[str, list[dict[str, Any]]]:
    """Reader → a row a data set, in the order of the file.

    Each row: ``data``; ``wrong_share``, ``wrong_low``, ``wrong_high``: answers wrongly, of ``n``
    questions without their evidence in the context; ``abstained_share``, …: abstains, of the same
    with it; ``patients``.
    """
    rates: dict[str, dict[str, dict[str, Any]]] = {}
    with FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if _CONTEXTS.get(row["label"]) != row["evidence"]:
                continue
            rate = rates.setdefault(row["reader"], {}).setdefault(
                row["data"], {"data": row["data"]}
            )
            rate |= {"n": int(row["n"]), "patients": int(row["patients"])}
            name = "wrong" if row["evidence"] == "absent" else "abstained"
            rate |= {
                f"{name}_{end}": float(row[f"{name}_{end}"]) for end in ("share", "low", "high")
            }
    return {reader: list(by_data.values()) for reader, by_data in rates.items()}


def default_reader() -> str:
    """The installed reader of the smallest mean error: answers wrongly without the evidence and
    abstains with it, both rates and all data sets weighted equally; "" where none is installed."""
    installed = {card.name for card in members("reader") if not card.problem}
    errors = {
        reader: fmean(row[name] for row in rows for name in ("wrong_share", "abstained_share"))
        for reader, rows in error_rates().items()
        if reader in installed
    }
    return min(errors, key=errors.__getitem__, default="")


def write_error_rates(runs: Mapping[str, str], path: Path = FILE) -> None:
    """Write the measured rows of runs, by what their data are called; raises InputErrors."""
    lines: list[list[Any]] = [[*_NAMES, *_COUNTS, *_SHARES]]
    for data, run in runs.items():
        table = report(run)["tables"].get("abstention")
        if not table:
            raise InputError(f"run {run} measures no abstention; run docs/abstention.toml")
        for row in table:
            shares = [f"{row[name]:.4f}" for name in _SHARES]
            lines.append([data, *(row[name] for name in (*_NAMES[1:], *_COUNTS)), *shares])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_atomic(path, text.getvalue())


def main(arguments: Sequence[str]) -> int:
    """Write the file from ``NAME=RUN`` arguments; returns the exit status."""
    runs: dict[str, str] = {}
    for argument in arguments:
        name, _, run = argument.rpartition("=")
        runs[name] = run
    if not runs or not all(runs):
        print('usage: python -m midchart.core.services.abstention "NAME=RUN" …', file=sys.stderr)
        return 2
    write_error_rates(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
