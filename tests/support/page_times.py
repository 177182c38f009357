"""Processor seconds of a page's opening and of a rerun that changes nothing, by the size of the
cohort: ``python -m tests.support.page_times [--patients 40 2000 20000] [--events 63000]``.

Makes cohorts of small records in MedAlign's form (20 events, four questions each), and one patient
with so many events, about 16 tokens each, in a temporary folder. Each cohort is opened in a
process of its own, without a browser: ``first`` opens a page after a start of the program, ``open``
opens it again in a new session, ``rerun`` draws it once more in that one. Processor time, so that
other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from midchart.core import api
from midchart.core.cli import table
from tests.support.pages import open_page
from tests.support.run_helpers import write_cohort
from tests.support.scale import timed

PAGES = ("patient", "data", "questions", "gate", "review")


def measure(pages: list[str]) -> list[dict[str, Any]]:
    """A row for each page on the cohorts that are in force; a page that raises fails."""
    rows: list[dict[str, Any]] = []
    for name in pages:
        _, first = timed(partial(open_page, name))
        app, again = timed(partial(open_page, name))
        rerun = min(timed(app.run)[1] for _ in range(3))
        times = {"first": first, "open": again, "rerun": rerun}
        peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        rounded = {what: round(seconds, 2) for what, seconds in times.items()}
        rows.append({"page": name} | rounded | {"peak_mb": peak})
    return rows


def measured_apart(patients: int, events: int, pages: str) -> list[dict[str, Any]]:
    """The rows of a cohort of so many patients or, where there are none, of one with the events."""
    with tempfile.TemporaryDirectory() as place:
        cohort = Path(place) / "data" / "cohorts" / "made"
        if patients:
            write_cohort(cohort, records=patients)
            size: dict[str, Any] = {"patients": patients, "tokens": ""}
        else:
            api.prepare_demo(cohort, 1, events)
            [record] = api.open_data(cohort).records.values()
            units = api.sentences(record, api.PRESETS["corrected"])
            size = {"patients": 1, "tokens": sum(unit.tokens for unit in units)}
        env = os.environ | {
            f"MIDCHART_{name}": str(Path(place) / name.lower())
            for name in ("DATA", "CACHE", "STATE")
        }
        command = [sys.executable, "-m", __spec__.name, "--measure", pages]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
        )
    return [size | row for row in json.loads(done.stdout)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, nargs="*", default=[40, 2000, 20_000])
    parser.add_argument("--events", type=int, nargs="*", default=[63_000])
    parser.add_argument("--pages", default=",".join(PAGES))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure.split(","))))
        return
    for patients in chosen.patients:
        rows = measured_apart(patients, 0, chosen.pages)
        table(rows, tuple(rows[0]))
    for events in chosen.events:
        rows = measured_apart(0, events, chosen.pages)
        table(rows, tuple(rows[0]))


if __name__ == "__main__":
    main()
