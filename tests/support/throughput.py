"""Items a second of 1, 2 and 4 workers on Ray: ``python -m tests.support.throughput [--items N]``.

Two kinds of work on the demo cohort: ``waiting``, a served reader that takes a quarter of a second
for an answer (a stub on loopback, asked one prompt at a time), and ``computing``, what BM25 keeps
with three budgets, beside random and recency. Each is done by the run's own worker alone and by a
Ray of this machine with so many places. The rate is that of the run's own stopwatch from its first
row on, so starting Ray (told apart, ``start_s``) is not in it. Run in an empty place:

    MIDCHART_DATA=/tmp/throughput midchart demo --out /tmp/throughput/cohorts/demo
    MIDCHART_DATA=/tmp/throughput python -m tests.support.throughput
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from midchart.core import config as settings
from midchart.core.cli import table
from midchart.core.runs.process import start, status, wait
from tests.support.openai_server import OpenAIFake

DELAY_S = 0.25


def spec(work: str, url: str, items: int) -> dict:
    """A spec of so many answers."""
    common = {"name": work, "data": str(settings.cohorts_folder() / "demo")}
    if work == "computing":
        arms = [{"name": "bm25", "k": k} for k in (1, 5, 20)]
        return {**common, "kind": "selection", "arms": [*arms, "random", "recency"]}
    reader = {"name": "served", "url": f"{url}/v1", "model": "tiny", "concurrency": 1}
    arms = ["bm25", "recency"]
    return {
        **common,
        "kind": "answers",
        "arms": arms,
        "readers": [{**reader, "window": 4096}],
        "limit": max(1, items // len(arms)),
    }


def measured(run: str) -> tuple[float, float]:
    """Items a second from the first row on, and seconds until then."""
    lines = (Path(status(run)["folder"]) / "events.jsonl").read_text().splitlines()
    progress = [event for event in map(json.loads, lines) if event["event"] == "progress"]
    first = next(event for event in progress if event["done"])
    last = progress[-1]
    seconds = last["seconds"] - first["seconds"]
    return (last["done"] - first["done"]) / seconds, first["seconds"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    call = parser.parse_args()
    for name, value in settings.ray_environment(loopback=True).items():
        os.environ[name] = value
    from ray.cluster_utils import Cluster

    rows = []
    with OpenAIFake() as server:
        server.delay_s = DELAY_S
        for workers in (0, *call.workers):
            cluster = None
            if workers:
                head = {"num_cpus": workers, "include_dashboard": False}
                cluster = Cluster(
                    initialize_head=True,
                    head_node_args={**head, "object_store_memory": 100_000_000},
                )
            for work in ("waiting", "computing"):
                run = start(
                    spec(work, server.url, call.items),
                    on=f"ray://{cluster.address}" if cluster else "",
                )
                wait(run)
                rate, begun = measured(run)
                rows.append(
                    {
                        "work": work,
                        "workers": workers or "its own",
                        "items_a_second": round(rate, 1),
                        "start_s": round(begun, 1),
                        "load": round(os.getloadavg()[0], 1),
                    }
                )
                table(rows[-1:], tuple(rows[-1]))
            if cluster:
                cluster.shutdown()
    print()
    table(sorted(rows, key=lambda row: row["work"]), tuple(rows[0]))


if __name__ == "__main__":
    main()
