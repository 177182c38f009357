"""Sizes and times that grow with patients: ``python -m tests.support.scale [--patients 1000
10000]``.

Makes cohorts of small records in MedAlign's form (20 events, four questions each) in a temporary
folder and tells, for each size, seconds of processor time to open the cohort, to hash all files, to
plan a run of two arms (which does both) and to part its work, and the memory that the opened cohort
takes; then how many rows of 20 kB (an answer with its prompt) the one writer of a run takes in a
second. Processor time, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from midchart.core.cli import table
from midchart.core.loaders.open import content_digest, open_cohort
from midchart.core.runs.cluster import batches
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.planner import plan
from midchart.core.runs.schemas import ANSWERS
from midchart.core.runs.spec import read_spec
from midchart.core.storage.rows import RowStore
from tests.support.run_helpers import write_cohort


def timed(do: Callable[[], Any]) -> tuple[Any, float]:
    """A call's result and the seconds of processor time it took."""
    begun = time.process_time()
    return do(), time.process_time() - begun


def appended(rows: int = 3000, prompt: int = 20_000) -> float:
    """Rows a second that a store takes."""
    with tempfile.TemporaryDirectory() as place:
        store = RowStore(Path(place), {"answers": ANSWERS})
        blank = dict.fromkeys(ANSWERS) | {"status": "ok", "prompt": "x" * prompt}

        def append() -> None:
            for i in range(rows):
                store.append("answers", {**blank, "key": str(i), "item": str(i)})
            store.close()

        return rows / timed(append)[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, nargs="*", default=[1000, 10_000])
    rows: list[dict[str, Any]] = []
    for patients in parser.parse_args().patients:
        with tempfile.TemporaryDirectory() as place:
            cohort = write_cohort(Path(place) / "cohort", records=patients)
            table_of = {"kind": "selection", "data": str(cohort), "arms": ["bm25", "recency"]}
            spec = read_spec(table_of)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            opened, open_s = timed(partial(open_cohort, str(cohort)))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            _, digest_s = timed(partial(content_digest, cohort))
            _, plan_s = timed(partial(plan, spec))
            kind = EXPERIMENTS.build("selection")
            shards, part_s = timed(partial(kind.shards, opened, spec))
            parts = batches(shards, room=128)
            size = sum(path.stat().st_size for path in cohort.rglob("*") if path.is_file())
            rows.append(
                {
                    "patients": patients,
                    "megabytes": round(size / 1e6, 1),
                    "open_s": round(open_s, 2),
                    "hash_s": round(digest_s, 2),
                    "plan_s": round(plan_s, 2),
                    "part_s": round(part_s, 2),
                    "lots": len(parts),
                    "memory_mb": round(memory / 1024),
                    "load": round(os.getloadavg()[0], 1),
                }
            )
            table(rows[-1:], tuple(rows[-1]))
    print(f"rows of 20 kB a second: {appended():,.0f}")


if __name__ == "__main__":
    main()
