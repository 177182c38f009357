"""Seconds that pages take as cohorts and records grow: ``python -m tests.support.page_times
[demo|patients|tokens …] [--most N] [--pages patient,data]``.

Three series of cohorts, each in a temporary folder: the demo with the included runs; so many
patients of about 250 tokens; two patients of so many tokens. In the last two, a run of two arms on
up to 2,000 questions, and one of a question set for every patient with as many answers, are there
to be shown. Each page is opened without a browser in a process of its own, which has imported what
a server has before it answers: ``start`` opens the cohorts, as the server does in a thread; ``new``
opens the page when nothing was computed of the cohort, ``first`` after another start, when what is
stored for every process is there; ``rerun`` draws it once more in the same session; ``other``
chooses another patient (page Questions: the next patients). Each is given in seconds of processor
time (``cpu``), so that other work on the machine counts little, and by the clock (``s``), with the
load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.core.cli import table
from tests.support import run_members
from tests.support.pages import open_page
from tests.support.run_helpers import finished_run
from tests.support.scale import Size, sizes, spec, write

PAGES = (
    *("home", "patient", "questions", "review", "curve", "arms", "gate", "forecast", "inhibition"),
    *("replication", "results", "runs", "data"),
)
AT_START = ("midchart.pages.ui.home_view", "midchart.pages.ui.patient.view")
"""What app.py imports before the server answers."""
QUESTIONS = ("Which dose is ordered?", "Which drug is ordered?")
COHORT, MOST_ASKED = "large", 2000
"""Name of a cohort, and how many of its questions a run asks: those of 20,000 take minutes."""
QUIET_CPU, QUIET_S, MOST_S = 0.03, 0.4, 120.0
"""Less processor time than this in so many seconds, and a page's threads have ended; how long they
are waited for."""
Times = tuple[float, float]
"""Seconds of processor time and by the clock."""


def measured(do: Callable[[], Any]) -> tuple[Any, Times]:
    """A call's result and its times."""
    cpu, clock = time.process_time(), time.perf_counter()
    result = do()
    return result, (time.process_time() - cpu, time.perf_counter() - clock)


def _wait_for_threads() -> None:
    """Wait until what a page left to threads is done."""
    deadline, used = time.monotonic() + MOST_S, -1.0
    while time.process_time() - used > QUIET_CPU and time.monotonic() < deadline:
        used = time.process_time()
        time.sleep(QUIET_S)


def _checked(app: AppTest) -> AppTest:
    assert not app.exception, [error.value for error in app.exception]
    return app


def _other(name: str, app: AppTest) -> Callable[[], AppTest] | None:
    """What chooses other patients on a page; None where it has no such choice."""
    if name == "patient":
        box = app.selectbox(key="patient_patient")
        return lambda: _checked(box.select_index((box.index or 0) + 1).run())
    if name == "questions":
        boxes = [box for box in app.number_input if box.key == "set_page"]
        return (lambda: _checked(boxes[0].set_value(2).run())) if boxes else None
    return None


def measure(name: str, stored: bool) -> dict[str, Times]:
    """The times of a page in this process; not ``stored``: of its opening alone."""
    for module in AT_START:
        import_module(module)
    run_members.enter()
    _, start = measured(api.cohorts)
    app, first = measured(partial(open_page, name))
    if not stored:
        return {"new": first}
    _wait_for_threads()
    rerun = min(measured(lambda: _checked(app.run()))[1] for _ in range(3))
    times = {"start": start, "first": first, "rerun": rerun}
    if act := _other(name, app):
        times["other"] = measured(act)[1]
    return times


def make(series: str, number: int) -> None:
    """Make the cohort of a series and its runs in the workspace of this process."""
    if series == "demo":
        api.prepare_demo()
        api.open_examples()
        return
    run_members.enter()
    [size] = [size for one, size in sizes(series, number) if one == number]
    folder = Path(api.folders()["cohorts"]) / COHORT
    size = Size(size.patients, size.tokens, size.questions, 2)
    write(folder, size)
    finished_run(spec(folder, size) | {"limit": MOST_ASKED})
    api.save_question_set(folder, "set", QUESTIONS)
    asked = api.question_set_spec(str(folder), "set", QUESTIONS, ["bm25"], "test_echo")
    finished_run(asked | {"limit": MOST_ASKED})


def _summarise() -> None:
    """Wait until every cohort was counted, as pages let another process do."""
    for card in api.cohorts():
        while api.reading_progress(card.path) is not None:
            time.sleep(1)


def rows(series: str, number: int, pages: list[str]) -> list[dict[str, Any]]:
    """A row for each page at one size of a series."""
    with tempfile.TemporaryDirectory() as place:
        env = os.environ | {
            f"MIDCHART_{name}": str(Path(place) / name.lower())
            for name in ("DATA", "CACHE", "STATE")
        }

        def apart(*words: str) -> Any:
            command = [sys.executable, "-m", __spec__.name, "--part", *words]
            done = subprocess.run(command, check=True, capture_output=True, env=env)
            return json.loads(done.stdout.splitlines()[-1])

        apart("make", series, str(number))
        times = {name: apart("new", name) for name in pages}
        apart("summarise")
        for name in pages:
            more = apart("stored", name)
            times[name]["times"] |= more["times"]
            times[name]["peak_mb"] = more["peak_mb"]
    return [_row(series, number, name, **times[name]) for name in pages]


def _row(
    series: str, number: int, name: str, times: dict[str, Times], peak_mb: int
) -> dict[str, Any]:
    row: dict[str, Any] = {"by": series, "number": number or "", "page": name}
    for what in ("start", "new", "first", "rerun", "other"):
        for at, unit in enumerate(("cpu", "s")):
            row[f"{what}_{unit}"] = round(times[what][at], 2) if what in times else ""
    return row | {"peak_mb": peak_mb, "load": round(os.getloadavg()[0], 1)}


def part(what: str, *words: str) -> dict[str, Any]:
    """What a process of its own does."""
    times: dict[str, Times] = {}
    if what == "make":
        make(words[0], int(words[1]))
    elif what == "summarise":
        _summarise()
    else:
        times = measure(words[0], what == "stored")
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return {"times": times, "peak_mb": peak}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("series", nargs="*", help="demo, patients, tokens")
    parser.add_argument("--most", type=int, default=1 << 40, help="largest number of a series")
    parser.add_argument("--least", type=int, default=0, help="smallest number of a series")
    parser.add_argument("--pages", default=",".join(PAGES))
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part:
        print(json.dumps(part(*chosen.part)), flush=True)
        os._exit(0)  # threads of a page may be at work in torch, which ends a process with an error
    for series in chosen.series or ("demo", "patients", "tokens"):
        numbers = [0] if series == "demo" else [number for number, _ in sizes(series, chosen.most)]
        for number in numbers:
            if number >= chosen.least or series == "demo":
                measured_rows = rows(series, number, chosen.pages.split(","))
                table(measured_rows, tuple(measured_rows[0]))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
