"""The workers of a run: as many as the cluster has room for, each given lots until none is left.

What comes from a worker is written down at once by this process, which holds the run's lock. A
worker that dies gives its lot back; its machine, or another that joins meanwhile, may take it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.egress import audit
from core.errors import WorkFailed
from core.runs.cluster.remote import END, NOTE, ROW, Message
from core.runs.cluster.session import Session
from core.runs.cluster.shards import Begun, Lot, lots
from core.runs.experiment import Experiment
from core.runs.job import Job, Stopped
from core.runs.provenance import code_digest

LOOK_S = 0.2
ROOM_S = 2.0
"""How often the cluster is asked for its machines: some come, some go."""
MOST_DEATHS = 3
"""Workers that may die over one portion before it is left, for this pass, to whoever mends it."""
MOST_REFUSALS = 3
"""Workers that may fail to start, one after another, before the run gives up."""
DRAIN_S = 5.0
"""How long a cancelled run waits for the items that are being done."""


@dataclass
class _Worker:
    """A worker, seen from here: Ray's handle, what it is asked now, its lot (None: starting)."""

    actor: Any
    asked: Any
    lot: Lot | None = None


class Pool:
    """One pass of a run's portions over a cluster."""

    def __init__(self, job: Job, kind: Experiment, run: str, session: Session) -> None:
        self.job, self.run, self.session, self.ray = job, run, session, session.ray
        self.begun = Begun(job, kind)
        self.todo = lots(kind.portions(job.cohort, job.plan), session.room())
        self.workers: list[_Worker] = []
        self.left: list[str] = []
        self.refusals = 0
        self.noted: set[str] = {platform.node()}
        self._room, self._looked = 0, float("-inf")
        self._said = ""

    def work(self) -> None:
        """Do every portion; raises Stopped when told to stop, WorkFailed for what is left over."""
        try:
            while self.todo or self.workers:
                self._hire()
                self._look(LOOK_S)
                self.job.tell()
        except Stopped:
            self._drain()
            raise
        finally:
            for worker in self.workers:
                self.ray.kill(worker.actor)
        if self.left:
            raise WorkFailed(
                f"the workers of {len(self.left)} shards of the run died "
                f"{MOST_DEATHS} times (too little memory?): {', '.join(self.left[:5])}; all others "
                "are done; resume repeats these"
            )

    def _hire(self) -> None:
        """Have as many workers as there is room and work for."""
        if not self.todo:
            for worker in [one for one in self.workers if one.lot is None]:
                self._let_go(worker)
            return
        if time.monotonic() - self._looked > ROOM_S:
            self._looked = time.monotonic()
            self._room = self.session.room()
        busy = sum(worker.lot is not None for worker in self.workers)
        said = "at work on the cluster"
        if not busy:
            said = "workers are being started on the cluster, or wait for room there"
        if not self._room:
            said = "no machine of the cluster is up; waiting for one"
        if said != self._said:
            self._said = said
            self.job.watch(said)
        while len(self.workers) < min(self._room, len(self.todo) + busy):
            actor = self.session.worker(self.run)
            self.workers.append(_Worker(actor, actor.ready.remote()))

    def _look(self, patience_s: float) -> None:
        """Take what workers have sent and give lots to those that are free."""
        if not self.workers:
            time.sleep(patience_s)
            return
        asked = {worker.asked: worker for worker in self.workers}
        refs = list(asked)
        # What is there already of every worker, so that none waits for the others; else the first.
        ready, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        if not ready:
            ready, _ = self.ray.wait(refs, num_returns=1, timeout=patience_s, fetch_local=False)
        for ref in ready:
            worker = asked[ref]
            try:
                self._heard(worker)
            except self.ray.exceptions.RayError:
                self._died(worker)

    def _heard(self, worker: _Worker) -> None:
        if worker.lot is None:
            self._started(worker, self.ray.get(worker.asked))
            return
        try:
            messages: Sequence[Message] = self.ray.get(next(worker.asked))
        except StopIteration:
            self._next(worker)
            return
        # Every row that came is kept before a note or the end may stop the pass.
        for what, name, row in messages:
            if what == ROW:
                self.job.write(name, row)
                self.begun.add(row)
        for what, name, _ in messages:
            if what == NOTE:
                self.job.watch(name)
            elif what == END and name:
                raise WorkFailed(name)

    def _started(self, worker: _Worker, told: dict[str, str]) -> None:
        """A worker is there: hold it to this run's code, note a machine that is not this one."""
        if told["code"] != code_digest():
            raise WorkFailed("a machine of the cluster has other code of Midchart than this one")
        if told["problem"]:
            raise WorkFailed(f"a machine of the cluster cannot take part: {told['problem']}")
        self.refusals = 0
        if told["host"] not in self.noted:
            self.noted.add(told["host"])
            audit.left(
                run=self.run,
                cohort=self.job.cohort.manifest.name,
                host=told["host"],
                encrypted=False,
                purpose="worker of the cluster",
                records=len(self.job.cohort.records),
                items=None,
            )
        self._next(worker)

    def _next(self, worker: _Worker) -> None:
        """Give a free worker its next lot, or let it go."""
        if not self.todo:
            self._let_go(worker)
            return
        lot = self.todo.popleft()
        there = self.begun.there(lot)
        worker.lot = lot
        worker.asked = worker.actor.work.options(num_returns="streaming").remote(
            lot.portions, there
        )

    def _let_go(self, worker: _Worker) -> None:
        """Nothing of this worker is heard any more, should it only have been out of reach."""
        self.workers.remove(worker)
        self.ray.kill(worker.actor)

    def _died(self, worker: _Worker) -> None:
        """A worker, or its machine, is gone: its lot goes to others, in smaller lots."""
        self._let_go(worker)
        self._looked = float("-inf")
        if worker.lot is None:
            self.refusals += 1
            if self.refusals >= MOST_REFUSALS * max(1, self._room):
                raise WorkFailed("no worker can be started on the cluster; see Ray's logs")
            return
        smaller = worker.lot.after_death()
        if len(smaller) == 1 and smaller[0].deaths >= MOST_DEATHS:
            self.left += worker.lot.portions
            return
        self.todo.extendleft(reversed(smaller))

    def _drain(self) -> None:
        """Keep the items that workers still send after they were told to stop."""
        self.todo.clear()
        self._hire()
        deadline = time.monotonic() + DRAIN_S
        while self.workers and time.monotonic() < deadline:
            try:
                self._look(LOOK_S)
            except Stopped:
                continue
