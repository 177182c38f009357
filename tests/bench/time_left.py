"""Error of the estimated time left of runs at 10, 25, 50 and 75 % of their items.

    python -m tests.bench.time_left [RUN …] [--record]

Without RUN the timings in ``time_left.json`` are replayed: real runs on a laptop's two shared
cores. ``--record`` adds those of finished runs of this installation. An error is the estimate
relative to the time that the rest took; "–": nothing was stated yet.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from midchart.core import api
from midchart.core.runs.directory import find_run
from midchart.core.runs.schemas import EVENT
from midchart.core.runs.worker import LEAST_ROUNDS
from midchart.core.storage.jsonl import read_lines
from midchart.core.time_left import TimeLeft

RECORDED = Path(__file__).with_suffix(".json")
SHARES = (0.1, 0.25, 0.5, 0.75)


def timing(run: str) -> dict[str, Any]:
    """Planned items, patients, and (seconds, items done) at each report of progress of a run."""
    events = list(read_lines(find_run(run).events, EVENT))
    moments = [
        [event["seconds"], event.get("done", 0) + event.get("failed", 0)]
        for event in events
        if event["event"] == "progress"
    ]
    status, patients = api.status(run), len({row["record"] for row in _rows(run)})
    return {
        "run": status["name"], "planned": status["planned"], "patients": patients,
        "moments": moments,
    }  # fmt: skip


def _rows(run: str) -> list[dict[str, Any]]:
    folder = find_run(run)
    store = folder.store(folder.plan())
    table = next(name for name, columns in store.schemas.items() if "record" in columns)
    return store.select(table, "DISTINCT record")


def errors(timing: dict[str, Any]) -> dict[str, float | None]:
    """The relative error of the estimate at each of :data:`SHARES`; None: nothing was stated."""
    planned, (end, _) = timing["planned"], timing["moments"][-1]
    time_left = TimeLeft(planned / max(timing["patients"], LEAST_ROUNDS))
    stated: dict[str, float | None] = {}
    before, counted = 0.0, 0
    for seconds, done in timing["moments"]:
        left = time_left.after(done - counted, seconds - before, planned - done)
        before, counted = seconds, done
        for share in SHARES:
            if done >= share * planned and f"{share:.0%}" not in stated:
                rest = max(end - seconds, 0.1)
                stated[f"{share:.0%}"] = None if left is None else left / rest - 1
    return stated


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", metavar="RUN", nargs="*")
    parser.add_argument("--record", action="store_true")
    call = parser.parse_args(arguments)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else []
    timings = [timing(run) for run in call.runs] or recorded
    if call.record:
        RECORDED.write_text(json.dumps(recorded + timings, ensure_ascii=False) + "\n")
    for one in timings:
        seconds = one["moments"][-1][0]
        shown = "  ".join(
            f"{share} {'–' if error is None else f'{100 * error:+.0f} %'}"
            for share, error in errors(one).items()
        )
        print(f"{one['run']}: {one['planned']:,} items, {seconds:.0f} s: {shown}")


if __name__ == "__main__":
    main()
