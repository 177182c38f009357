"""Runs on a real Ray cluster of several nodes on this machine: a node and a worker are killed.

Not among what CI installs: starting nodes takes it over its time. By hand, and by whoever changes
core/runs/cluster.py: ``pip install -r docs/optional/ray.txt``, then ``pytest`` on this file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import time
from pathlib import Path

import pytest

from midchart.core import config as settings
from midchart.core.cli import main
from midchart.core.errors import WorkFailed
from midchart.core.loaders.open import set_data_use
from midchart.core.runs.process import cancel, children, resume, start, status, wait
from tests.support.run_helpers import (
    contents,
    members_place,
    spec,
    until,
    wait_for_items,
    wait_until,
    write_cohort,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    # Not imported here: its switches are read from the environment when it is.
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="needs Ray: pip install -r docs/optional/ray.txt",
    ),
]
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    ray = settings.ray_environment(loopback=True)
    with members_place(folder, TEST_READER_DELAY_S="0.04", **ray):
        yield folder


@pytest.fixture(scope="module")
def cluster(place):
    """Two nodes of one CPU each, on loopback."""
    from ray.cluster_utils import Cluster

    ray_cluster = Cluster(initialize_head=True, head_node_args=NODE)
    ray_cluster.add_node(**NODE)
    assert ray_cluster.address.startswith("127.0.0.1:")
    yield ray_cluster
    ray_cluster.shutdown()


@pytest.fixture(scope="module")
def cohort(place: Path) -> Path:
    folder = write_cohort(place / "data" / "cohorts" / "tiny", records=6)
    set_data_use(folder, "external_services_allowed", True, "the tests' own cohort and cluster")
    return folder


@pytest.fixture(autouse=True)
def listed(cluster, monkeypatch) -> None:
    monkeypatch.setenv("MIDCHART_HOSTS", on(cluster))


def on(cluster) -> str:
    return f"ray://{cluster.address}"


def workers() -> set[int]:
    """Processes of workers on this machine."""
    pids = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::ShardWorker"):
                pids.add(int(path.parent.name))
        except OSError:
            continue
    return pids


@pytest.fixture(scope="module")
def undisturbed(cohort: Path):
    """What the run gives on this machine alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_READER_DELAY_S", "0")
        run = start(spec(cohort))
        wait(run)
    return contents(run)


def test_a_worker_and_a_node_killed_lose_nothing_and_double_nothing(cluster, cohort, undisturbed):
    before = workers()
    run = start(spec(cohort), on=on(cluster))
    seen = []

    def watch(done: int, planned: int, *_: object):
        seen.append(done)
        if len(killed) == 0 and done > planned * 0.1 and (pids := workers() - before):
            os.kill(min(pids), signal.SIGKILL)
            killed.append("worker")
        elif len(killed) == 1 and done > planned * 0.4:
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
            killed.append("node")

    killed: list[str] = []
    wait(run, watch)
    assert killed == ["worker", "node"]
    assert seen == sorted(seen)
    now = status(run)
    assert (now["status"], now["failed"], now["done"]) == ("done", 0, now["planned"])
    assert contents(run) == undisturbed


def test_cancelled_in_seconds_resumed_here_and_the_command_line_says_the_same(
    cluster, cohort, undisturbed, capsys
):
    run = start(spec(cohort), on=on(cluster))
    wait_for_items(run, 10)
    assert status(run)["slot"] == "ray"
    begun = time.monotonic()
    cancel(run)
    assert wait_until(run, "cancelled") == "cancelled"
    assert time.monotonic() - begun < 8
    rows_by_table = contents(run)
    assert 10 <= len(rows_by_table["answers"]) < len(undisturbed["answers"])
    assert main(["status", run, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["done"] == sum(map(len, rows_by_table.values()))
    resume(run, on="here")
    wait(run)
    assert contents(run) == undisturbed


def test_a_killed_run_leaves_no_worker_and_goes_on_where_it_was(cluster, cohort, undisturbed):
    before = workers()
    run = start(spec(cohort), on=on(cluster))
    wait_for_items(run, 10)
    child = children[run]
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert status(run)["status"] == "crashed"
    until(lambda: not workers() - before, "no worker is left", 10)
    resume(run)
    wait(run)
    assert contents(run) == undisturbed


def test_no_cluster_there_is_reported_in_one_line(cohort):
    run = start(spec(cohort), on="ray://127.0.0.1:1")
    with pytest.raises(WorkFailed, match="no Ray cluster answers at ray"):
        wait(run)
    assert status(run)["status"] == "crashed"
