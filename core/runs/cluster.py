"""Workers of a run on Ray, on this machine or a cluster's; imported only for such a run."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from midchart.core import config as settings
from midchart.core.egress import require_cluster
from midchart.core.errors import WorkFailed
from midchart.core.runs.places import LOCAL, named_cluster
from midchart.core.runs.shards import Message, Rows, ShardWorker, WorkerDied

SHARED = (
    "MIDCHART_DATA", "MIDCHART_CACHE", "MIDCHART_MODELS", "MIDCHART_STATE", "PYTHONPATH",
    "PYTHONUNBUFFERED",
)  # fmt: skip
"""What a worker's environment has from the run's own process: places that every machine sees.

Keys of services are not among them: a worker reads them on its own machine, so that they pass
through nobody's logs."""
OBJECTS = 256 << 20
"""Bytes of memory for rows on their way, of a Ray of the run's own."""


class Session:
    """A connection to Ray; ``gpu``: workers get a GPU each where the cluster has one."""

    where = "the cluster"

    def __init__(self, ray: Any, gpu: bool) -> None:
        self.ray = ray
        self._wants_gpu, self._gpu = gpu, False

    def _offered(self, resource: str) -> int:
        return sum(
            int(node["Resources"].get(resource, 0)) for node in self.ray.nodes() if node["Alive"]
        )

    @property
    def gpu(self) -> bool:
        """Whether workers get a GPU each; stays true once the cluster had one."""
        self._gpu = self._gpu or (self._wants_gpu and self._offered("GPU") > 0)
        return self._gpu

    def room(self) -> int:
        """Number of workers that the machines now up have room for."""
        return self._offered("GPU" if self.gpu else "CPU")

    def worker(self, run: str) -> RayWorker:
        """A new worker; Ray does not restart it: :class:`midchart.core.runs.shards.Pool` replaces
        what died."""
        resources = {"num_cpus": 1, "num_gpus": 1} if self.gpu else {"num_cpus": 1}
        actor = self.ray.remote(max_restarts=0, max_task_retries=0, **resources)(ShardWorker)
        return RayWorker(self.ray, actor.remote(run))

    def ready(self, workers: Sequence[RayWorker], patience_s: float) -> list[RayWorker]:
        """Workers that have sent something, awaited for so long."""
        asked = {worker.asked: worker for worker in workers}
        refs = list(asked)
        # First what every worker has ready, so that none waits for the others.
        ready, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        if not ready:
            ready, _ = self.ray.wait(refs, num_returns=1, timeout=patience_s, fetch_local=False)
        return [asked[ref] for ref in ready]


class RayWorker:
    """An actor of Ray; ``asked``: its pending call."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor, self.asked = ray, actor, actor.ready.remote()
        self._working = False

    def begin(self, shards: Sequence[str], there: Rows) -> None:
        """Give it a batch."""
        self._working = True
        work = self._actor.work.options(num_returns="streaming")
        self.asked = work.remote(shards, there)

    def receive(self) -> Mapping[str, str] | Sequence[Message] | None:
        """Its report, messages of its batch, or None at the batch's end; raises WorkerDied."""
        try:
            return self._ray.get(next(self.asked) if self._working else self.asked)
        except StopIteration:
            return None
        except self._ray.exceptions.RayError:
            raise WorkerDied from None

    def kill(self) -> None:
        """End it, though it may only be out of reach."""
        self._ray.kill(self._actor)


@contextmanager
def connected(cluster: str, gpu: bool) -> Generator[Session]:
    """A session on a cluster; raises WorkFailed where no cluster answers there, EgressRefused for
    one that the installation's owner has not listed."""
    if named_cluster(cluster):
        require_cluster(cluster)  # what a cluster's head sends back is unpickled
    # Not by a statement: the checks of types and layers need no Ray.
    ray: Any = importlib.import_module("ray")
    environment = settings.worker_environment()
    shared = {name: environment[name] for name in SHARED if name in environment}
    shared["PYTHONPATH"] = ":".join(
        part for part in (str(settings.ROOT), environment.get("PYTHONPATH", "")) if part
    )
    options: dict[str, Any] = {}
    if cluster == LOCAL:
        options = {
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
            "object_store_memory": OBJECTS,
        }
    try:
        ray.init(
            address="local" if cluster == LOCAL else cluster.removeprefix("ray://"),
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": shared},
            **options,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise WorkFailed(
            f"no Ray cluster answers at {cluster} ({type(error).__name__}); start its first "
            "machine with: ray start --head, and this command on a machine of the cluster"
        ) from None
    try:
        yield Session(ray, gpu)
    finally:
        ray.shutdown()
