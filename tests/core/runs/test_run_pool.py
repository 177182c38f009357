"""A run divided among worker processes has the rows of one process, whatever ends in between.

Ray is not among what CI installs: ``pip install -r docs/optional/ray.txt``, then ``pytest`` on this
file, by whoever changes core/runs/pool.py.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from midchart.core.errors import InputError, WorkFailed
from midchart.core.runs.plan import ComponentSpec, Plan
from midchart.core.runs.pool import for_workers, read_cluster, require_divisible
from midchart.core.runs.process import cancel, children, resume, start, status, wait
from midchart.core.runs.spec import parse_spec
from tests.support.run_helpers import (
    contents,
    finished_run,
    has_ray,
    members_place,
    spec,
    until,
    wait_for_items,
    wait_until,
    write_cohort,
)

RAY = importlib.util.find_spec("ray") is not None
PLACES = ["cores", pytest.param("ray", marks=pytest.mark.skipif(not RAY, reason="needs Ray"))]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with members_place(tmp_path_factory.mktemp("pool")) as folder:
        yield folder


@pytest.fixture(scope="module")
def cohort(place: Path) -> Path:
    return write_cohort(place / "data" / "cohorts" / "tiny", records=6)


@pytest.fixture(scope="module")
def undisturbed(cohort: Path) -> dict[str, dict[str, dict[str, object]]]:
    """What the run gives in one process."""
    return contents(finished_run(spec(cohort)))


def workers(run: str) -> set[int]:
    """Processes of a run's workers."""
    parent = str(children[run].pid)
    pids: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, of = path.read_text().rpartition(") ")[2].split()[:2]
            command = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        spawned = of == parent and state != "Z" and b"spawn_main" in command
        if spawned or command.startswith(b"ray::do_shards"):
            pids.add(int(path.parent.name))
    return pids


@pytest.fixture
def slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.04")


@pytest.mark.slow
@pytest.mark.usefixtures("slow_reader")
@pytest.mark.parametrize("on", PLACES)
@pytest.mark.parametrize("end", ["a worker", "the run", "cancelled"])
def test_whatever_ends_loses_nothing_and_doubles_nothing(cohort, undisturbed, on, end):
    run = start(spec(cohort), on=on)
    wait_for_items(run, 10)
    child, at_work = children[run], workers(run)
    if end == "a worker":
        os.kill(min(at_work), signal.SIGKILL)
    elif end == "the run":
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert status(run)["status"] == "crashed"
        until(lambda: not workers_left(at_work), "no worker is left", 20)
        resume(run)
    else:
        cancel(run)
        assert wait_until(run, "cancelled", patience_s=20) == "cancelled"
        assert 10 <= len(contents(run)["answers"]) < len(undisturbed["answers"])
        resume(run, on="here")
    wait(run)
    now = status(run)
    assert (now["status"], now["failed"], now["done"]) == ("done", 0, now["planned"])
    assert contents(run) == undisturbed


def workers_left(pids: set[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["selection", "needles"])
def test_other_kinds_are_divided_as_well(cohort: Path, kind: str):
    table = spec(cohort, kind=kind, arms=["bm25", "full"])
    if kind == "selection":
        table = {k: v for k, v in table.items() if k not in ("readers", "judges")}
    else:
        table |= {"lengths": [100, 200], "depths": [0, 100], "needles": 1, "patients": 3}
    run, single = start(table, on="cores"), finished_run(table)
    wait(run)
    tables = {"selection": ("selections",)}.get(kind, ("answers", "verdicts"))
    assert contents(run, tables, "item") == contents(single, tables, "item")


@pytest.mark.slow
def test_a_shard_that_ends_its_workers_is_given_up_and_nothing_is_doubled(
    cohort, undisturbed, monkeypatch
):
    monkeypatch.setenv("TEST_READER_EXITS_ON", "Patient 2 takes")
    run = start(spec(cohort), on="cores")
    with pytest.raises(WorkFailed, match=r"workers died 3 times"):
        wait(run)
    monkeypatch.delenv("TEST_READER_EXITS_ON")
    resume(run, on="here")
    wait(run)
    assert contents(run) == undisturbed


@pytest.mark.slow
@pytest.mark.skipif(not RAY, reason="needs Ray")
def test_no_cluster_there_is_reported_in_one_line(cohort, monkeypatch):
    from midchart.core.loaders.open import set_data_use

    monkeypatch.setenv("MIDCHART_HOSTS", "ray://127.0.0.1:1")
    set_data_use(cohort, "external_services_allowed", True, "the tests' own cohort")
    run = start(spec(cohort), on="ray://127.0.0.1:1")
    with pytest.raises(WorkFailed, match="no Ray cluster answers at ray"):
        wait(run)


@pytest.fixture
def plan(cohort: Path) -> Plan:
    return dataclasses.replace(parse_spec(spec(cohort)))


def test_a_worker_has_its_share_of_the_calls_and_no_judge_with_a_budget(plan):
    served = {"url": "http://127.0.0.1:9/v1", "model": "tiny"}
    readers = (
        ComponentSpec("served", {**served, "concurrency": 32}, "a"),
        ComponentSpec("served", served, "b"),  # 8 by default
        ComponentSpec("served", {**served, "concurrency": 1}, "c"),
        ComponentSpec("extractive", label="d"),
    )
    judges = (ComponentSpec("claude", label="claude"), *plan.judge_entries)
    shared = for_workers(dataclasses.replace(plan, reader_entries=readers, judge_entries=judges), 2)
    assert [entry.options.get("concurrency") for entry in shared.reader_entries] == [16, 4, 1, None]
    assert shared.judge_entries == plan.judge_entries


def test_what_cannot_be_divided_is_refused(plan, monkeypatch):
    paid = dataclasses.replace(plan, reader_entries=(ComponentSpec("claude", label="claude"),))
    require_divisible(paid, "")
    for on in ("cores", "ray"):
        with pytest.raises(InputError, match="keeps a budget"):
            require_divisible(paid, on)
    weights = dataclasses.replace(plan, reader_entries=(ComponentSpec("qwen", label="qwen"),))
    monkeypatch.setenv("MIDCHART_GPUS", "")
    require_divisible(weights, "cores")
    monkeypatch.setenv("MIDCHART_GPUS", "0")
    require_divisible(weights, "ray")
    with pytest.raises(InputError, match="uses a GPU"):
        require_divisible(weights, "cores")


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("", ""), ("here", ""), ("cores", "cores"), ("ray", "ray"),
        ("ray://head", "ray://head:6379"), ("ray://10.0.0.7:1/", "ray://10.0.0.7:1"),
        *((wrong, None) for wrong in
          ("slurm", "ray:", "ray://", "ray://a b:1", "ray://h:0", "http://h")),
    ],
)  # fmt: skip
def test_a_place_has_one_spelling(text: str, spelled: str | None, monkeypatch):
    has_ray(monkeypatch)
    if spelled is None:
        with pytest.raises(InputError, match="ray://HOST:PORT"):
            read_cluster(text)
    else:
        assert read_cluster(text) == spelled
    has_ray(monkeypatch, installed=False)
    if spelled and spelled.startswith("ray"):
        with pytest.raises(InputError, match="pip install -r docs"):
            read_cluster(text)
