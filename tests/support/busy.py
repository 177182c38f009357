"""How busy a run keeps a model's server: ``python -m tests.support.busy [--in-flight 8 32]``.

A server on loopback, in a process of its own, takes 0.2 s for an answer, however many it is asked
at once. A run of kind ``answers`` on the demo cohort asks it with so many prompts in flight, while
it selects. Tells the share of places in flight that were taken between the first prompt and the
last answer (``busy``: server seconds / in flight / seconds), in the middle eight tenths of the
answers (``steady``), and the processor time of the run, workers included, for an answer. It needs
the demo cohort; run it in an empty place:

    MIDCHART_DATA=/tmp/busy midchart demo --out /tmp/busy/cohorts/demo
    MIDCHART_DATA=/tmp/busy python -m tests.support.busy
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

from midchart.core import config as settings
from midchart.core.cli import table
from midchart.core.runs.directory import make_run, take_lock
from midchart.core.runs.places import spelled
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from midchart.core.runs.worker import do_run
from tests.support.openai_server import OpenAIFake

DELAY_S = 0.2
ARMS = ("bm25", "recency", "random", "bm25_ranked")


class TimedServer(OpenAIFake):
    """Notes the moment of each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.delay_s = DELAY_S
        self.answered: list[float] = []

    def answer(self, method: str, path: str, body: Any, headers: Any) -> Any:
        """The answer of the test server, after its delay."""
        if method == "POST":
            with self.lock:
                self.answered.append(time.monotonic())
        return super().answer(method, path, body, headers)


def serve() -> None:
    """Serve until the standard input ends, then print the moments of all answers."""
    with TimedServer() as server:
        print(server.url, flush=True)
        sys.stdin.read()
        print(json.dumps(sorted(server.answered)))


def busy(moments: list[float], in_flight: int) -> float:
    """The share of places in flight that were taken while these answers were computed."""
    return len(moments) * DELAY_S / in_flight / (moments[-1] - moments[0] + DELAY_S)


def processor_s() -> float:
    """Seconds of processor time of this process and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(in_flight: int, items: int, on: str) -> dict[str, Any]:
    """The row of a run with so many prompts in flight, done ``on`` a place."""
    command = [sys.executable, "-m", __spec__.name, "--serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        url = child.stdout.readline().strip()
        reader = {"name": "served", "url": f"{url}/v1", "model": "tiny", "window": 8000}
        spec = {
            "name": "busy",
            "kind": "answers",
            "data": str(settings.cohorts_folder() / "demo"),
            "arms": list(ARMS),
            "readers": [{**reader, "concurrency": in_flight}],
            "judges": ["token_overlap"],
            "limit": max(1, items // len(ARMS)),
        }
        run = make_run(plan(read_spec(spec)), cluster=spelled(on))
        lock = take_lock(run)
        begun = processor_s()
        try:
            do_run(run)
        finally:
            lock.release()
        taken = processor_s() - begun
        moments = json.loads(child.communicate()[0])
    cut = len(moments) // 10
    return {
        "in_flight": in_flight,
        "on": on,
        "answers": len(moments),
        "busy": f"{busy(moments, in_flight):.0%}",
        "steady": f"{busy(moments[cut : len(moments) - cut], in_flight):.0%}",
        "cpu_ms": round(taken / len(moments) * 1000, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--in-flight", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--items", type=int, default=480)
    parser.add_argument("--on", nargs="*", default=["here", "cores"])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    call = parser.parse_args()
    if call.serve:
        serve()
        return
    rows = [measure(number, call.items, on) for number in call.in_flight for on in call.on]
    table(rows, tuple(rows[0]))


if __name__ == "__main__":
    main()
