"""Division of a run among workers, with workers of this process instead of Ray's;
tests/core/runs/test_run_ray.py uses a real cluster."""

from __future__ import annotations

import dataclasses

import pytest

from midchart.core.errors import InputError, WorkFailed
from midchart.core.results.items import rows
from midchart.core.runs.directory import make_run
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.job import Job, Stopped
from midchart.core.runs.places import on_loopback, read_cluster, require_divisible
from midchart.core.runs.plan import ComponentSpec
from midchart.core.runs.planner import open_source, plan
from midchart.core.runs.schemas import ANSWERS
from midchart.core.runs.shards import (
    MOST_DEATHS,
    Pool,
    ShardBatch,
    ShardRows,
    ShardWorker,
    WorkerDied,
    batches,
    for_workers,
    most_workers,
)
from midchart.core.runs.spec import read_spec
from tests.support.run_helpers import contents, spec, write_cohort


@pytest.fixture(scope="module")
def cohort(place):
    return write_cohort(place / "data" / "cohorts" / "tiny", records=4, events=40)


class FakeWorker:
    """``dies(shards, sent)`` is asked before every message whether the worker dies now."""

    def __init__(self, run, dies, readiness):
        self.worker, self.dies, self.readiness, self.killed = (
            ShardWorker(run),
            dies,
            readiness,
            False,
        )
        self.working = None

    def begin(self, shards, there):
        self.working = self._messages(shards, there)

    def _messages(self, shards, there):
        sent = 0
        for messages in self.worker.work(shards, there):
            for message in messages:
                if self.dies(shards, sent):
                    raise WorkerDied
                sent += 1
                yield [message]

    def receive(self):
        if self.working is None:
            return {**self.worker.ready(), **self.readiness}
        return next(self.working, None)

    def kill(self):
        self.killed = True


class FakePlace:
    """Starts workers in this process."""

    where = "the cluster"

    def __init__(self, room=2, dies=lambda shards, sent: False, readiness=None):
        self.dies, self.readiness, self.workers = dies, readiness or {}, []
        self.room = lambda: room

    def worker(self, run):
        self.workers.append(FakeWorker(run, self.dies, self.readiness))
        return self.workers[-1]

    def ready(self, workers, patience_s):
        return list(workers)


class Run:
    """A run with its job, as its worker has it."""

    def __init__(self, table, go_on=lambda done: True):
        self.folder = make_run(plan(read_spec(table)))
        self.plan = self.folder.plan()
        self.kind = EXPERIMENTS.build(self.plan.kind)
        self.store = self.folder.store(self.plan)
        cohort = self.kind.cohort(open_source(self.plan.data), self.plan)
        self.job = Job(
            self.plan, cohort, self.store, lambda done, failed: go_on(done), self.folder.path
        )

    def pooled(self, session):
        try:
            Pool(self.job, self.kind, self.folder.id, session).work()
        finally:
            self.store.close()
        return self

    def alone(self):
        self.kind.execute(self.job)
        self.store.close()
        return self

    def contents(self):
        return contents(self.folder.id, tuple(self.kind.schemas), "item")


def small(cohort, kind="answers"):
    run_spec = spec(cohort, kind=kind, arms=["bm25", "full"], judges=["test_words"])
    if kind == "selection":
        return {k: v for k, v in run_spec.items() if k not in ("readers", "judges")}
    if kind == "needles":
        return run_spec | {"lengths": [100, 200], "depths": [0, 100], "needles": 1, "patients": 3}
    return run_spec


@pytest.mark.parametrize("kind", ["answers", "selection", "needles"])
def test_shards_give_the_rows_of_a_single_process_though_workers_die(cohort, kind):
    single = Run(small(cohort, kind)).alone()
    deaths = []

    def dies(shards, sent):
        # One worker in the middle of the first batch, one at its very start.
        if len(deaths) < 2 and sent == (3, 0)[len(deaths)]:
            deaths.append(shards)
            return True
        return False

    session = FakePlace(dies=dies)
    parted = Run(small(cohort, kind)).pooled(session)
    assert len(deaths) == 2 and len(session.workers) == 4
    assert parted.contents() == single.contents()
    assert parted.job.done == single.job.done > 8
    assert all(worker.killed for worker in session.workers), "none is left behind"


def test_finished_items_are_not_repeated(cohort):
    run = Run(small(cohort)).pooled(FakePlace())
    asked = []
    again = FakePlace(dies=lambda shards, sent: asked.append(sent) or False)
    run.pooled(again)
    # Each batch ends at once: its one message is its end.
    assert set(asked) == {0} and run.job.done == len(rows(run.folder.id, "answers")) * 2


def test_a_shard_that_kills_its_workers_is_named_and_the_others_finish(cohort):
    deaths = []

    def dies(shards, sent):
        if "2" in shards:
            deaths.append(shards)
            return True
        return False

    run = Run(small(cohort))
    with pytest.raises(WorkFailed, match=r"1 shards of the run died 3 times.*: 2;"):
        run.pooled(FakePlace(dies=dies))
    assert len(deaths) == MOST_DEATHS
    assert {row["record"] for row in rows(run.folder.id, "answers")} == {"1", "3", "4"}


def test_a_cancelled_pass_keeps_what_workers_still_send(cohort, monkeypatch):
    monkeypatch.setattr("midchart.core.runs.shards.DRAIN_S", 2.0)
    run = Run(small(cohort), go_on=lambda done: done < 3)
    with pytest.raises(Stopped):
        run.pooled(FakePlace(room=1))
    rows_by_table = run.contents()
    assert sum(map(len, rows_by_table.values())) == run.job.done >= 3
    run.job._progress = lambda done, failed: True
    run.pooled(FakePlace(room=1))
    assert run.contents() == Run(small(cohort)).alone().contents()


@pytest.mark.parametrize(
    ("readiness", "message"),
    [
        ({"code": "other"}, "other code of Midchart"),
        ({"problem": "there is no such cohort"}, "cannot take part: there is no such cohort"),
    ],
)
def test_an_unsuitable_machine_stops_the_run(cohort, readiness, message):
    with pytest.raises(WorkFailed, match=message):
        Run(small(cohort)).pooled(FakePlace(readiness=readiness))


def test_another_machine_is_noted_in_the_audit_file(cohort):
    from midchart.core.egress import audit

    before = len(audit.lines())
    Run(small(cohort)).pooled(FakePlace(readiness={"host": "node-7"}))
    (line,) = [line for line in audit.lines()[before:] if line["event"] == "left"]
    assert (line["host"], line["purpose"]) == ("node-7", "worker of the cluster")


def test_judges_with_a_budget_are_not_sent_to_workers(cohort):
    run = Run(small(cohort))
    judges = (ComponentSpec("claude", label="claude"), *run.plan.judge_entries)
    assert for_workers(dataclasses.replace(run.plan, judge_entries=judges)) == run.plan


def test_concurrent_calls_are_divided_among_processes_of_a_machine(cohort):
    served = {"url": "http://127.0.0.1:9/v1", "model": "tiny"}
    entries = (
        ComponentSpec("served", {**served, "concurrency": 32}, "a"),
        ComponentSpec("served", served, "b"),  # 8 by default
        ComponentSpec("served", {**served, "concurrency": 2}, "c"),
        ComponentSpec("extractive", label="d"),
    )
    plan = dataclasses.replace(Run(small(cohort)).plan, reader_entries=entries)
    assert most_workers(plan) == 2, "no more workers than calls to divide"
    assert most_workers(dataclasses.replace(plan, reader_entries=entries[3:])) is None
    divided = for_workers(plan, 2).reader_entries
    assert [entry.options.get("concurrency") for entry in divided] == [16, 4, 1, None]
    assert [entry.label for entry in divided] == ["a", "b", "c", "d"]
    assert for_workers(plan).reader_entries == entries


def test_a_reader_with_a_budget_is_not_divided(cohort, monkeypatch):
    plan = dataclasses.replace(
        Run(small(cohort)).plan, reader_entries=(ComponentSpec("claude", label="claude"),)
    )
    require_divisible(plan, "")
    for place in ("cores", "ray"):
        with pytest.raises(InputError, match="keeps a budget"):
            require_divisible(plan, place)
    weights = dataclasses.replace(plan, reader_entries=(ComponentSpec("qwen", label="qwen"),))
    monkeypatch.setenv("MIDCHART_GPUS", "")
    require_divisible(weights, "cores")
    monkeypatch.setenv("MIDCHART_GPUS", "0")
    with pytest.raises(InputError, match="uses a GPU"):
        require_divisible(weights, "cores")
    require_divisible(weights, "ray")


def test_rows_in_memory_are_reported_on_arrival_and_selected_by_plain_columns():
    reported = []
    store = ShardRows({"answers": ANSWERS}, lambda table, row: reported.append((table, row["key"])))
    row = {**dict.fromkeys(ANSWERS), "key": "a", "item": "x"}
    store.begin({"answers": [{**row, "key": "there"}]})
    store.append("answers", row)
    assert store.select("answers", "item, key") == [
        {"item": "x", "key": "there"},
        {"item": "x", "key": "a"},
    ]
    assert reported == [("answers", "a")], "what was there is sent by nobody"
    for columns, where in (("count(*)", "true"), ("key", "key = 'a'")):
        with pytest.raises(ValueError, match="plain columns"):
            store.select("answers", columns, where)
    with pytest.raises(ValueError, match="declared columns"):
        store.append("answers", {"key": "b"})


@pytest.mark.parametrize(
    "text", ["slurm", "ray:", "ray://", "ray://a b:1", "ray://h:0", "http://h"]
)
def test_an_invalid_cluster_address_is_refused(text):
    with pytest.raises(InputError, match="ray://HOST:PORT"):
        read_cluster(text)


def test_valid_cluster_addresses(monkeypatch):
    assert read_cluster("") == read_cluster("here") == ""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert read_cluster("ray") == "ray"
    assert read_cluster("ray://head") == "ray://head:6379"
    assert read_cluster("ray://10.0.0.7:1/") == "ray://10.0.0.7:1"
    assert [on_loopback(p) for p in ("ray", "ray://127.0.0.1:1", "ray://head:6379")] == [
        True, True, False,
    ]  # fmt: skip
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install -r docs"):
        read_cluster("ray")


def test_batches_cover_all_shards_and_shrink_after_a_death():
    cut = batches([str(i) for i in range(100)], room=2)
    assert [p for batch in cut for p in batch.shards] == [str(i) for i in range(100)]
    # Half of a worker's share of what is left, by hand.
    sizes = [len(batch.shards) for batch in cut]
    assert sizes[:5] == [25, 18, 14, 10, 8] and sizes[-2:] == [1, 1]
    four = ShardBatch(tuple(str(i) for i in range(4)))
    assert four.after_death() == [ShardBatch((str(i),), 1) for i in range(4)]
    assert ShardBatch(("a",), 1).after_death() == [ShardBatch(("a",), 2)]
