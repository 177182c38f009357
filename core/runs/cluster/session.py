"""This process's connection to Ray, and what the machines of its cluster offer.

A Ray of the run's own listens on loopback, shows no dashboard and sends no usage statistics; it
ends with the run. A cluster that is joined was set up by its owner, and stays.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from core import config as settings
from core.errors import WorkFailed
from core.runs.cluster.place import LOCAL, address_of
from core.runs.cluster.remote import RayWorker

SHARED = ("MIDCHART_DATA", "MIDCHART_CACHE", "MIDCHART_MODELS", "PYTHONPATH", "PYTHONUNBUFFERED")
"""What a worker's environment has from the run's own process: places that every machine sees.

Keys of services are not among them: a worker reads them on its own machine, so that they pass
through nobody's logs."""
OBJECTS = 256 << 20
"""Bytes of memory for rows on their way, of a Ray of the run's own."""


class Session:
    """A connection; ``gpu``: workers are to have a GPU each where the cluster has one."""

    def __init__(self, ray: Any, gpu: bool) -> None:
        self.ray = ray
        self._wants_gpu, self._gpu = gpu, False

    def _offered(self, resource: str) -> int:
        return sum(
            int(node["Resources"].get(resource, 0)) for node in self.ray.nodes() if node["Alive"]
        )

    @property
    def gpu(self) -> bool:
        """Whether workers get a GPU each; once one was there, until the end of the pass."""
        self._gpu = self._gpu or (self._wants_gpu and self._offered("GPU") > 0)
        return self._gpu

    def room(self) -> int:
        """How many workers the machines that are up have room for."""
        return self._offered("GPU" if self.gpu else "CPU")

    def worker(self, run: str) -> Any:
        """A new worker; it waits until a machine has room for it. Ray starts no second one for it:
        what died is replaced here, with the rows that are there by then."""
        resources = {"num_cpus": 1, "num_gpus": 1} if self.gpu else {"num_cpus": 1}
        made = self.ray.remote(max_restarts=0, max_task_retries=0, **resources)(RayWorker)
        return made.remote(run)


@contextmanager
def connected(place: str, gpu: bool) -> Generator[Session]:
    """A session at a place; raises WorkFailed where no cluster answers there."""
    # Not by a statement: the checks of types and layers need no Ray.
    ray: Any = importlib.import_module("ray")
    environment = settings.worker_environment()
    shared = {name: environment[name] for name in SHARED if name in environment}
    shared["PYTHONPATH"] = ":".join(
        part for part in (str(settings.ROOT), environment.get("PYTHONPATH", "")) if part
    )
    own: dict[str, Any] = {}
    if place == LOCAL:
        own = {
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
            "object_store_memory": OBJECTS,
        }
    try:
        ray.init(
            address=address_of(place),
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": shared},
            **own,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise WorkFailed(
            f"no Ray cluster answers at {place} ({type(error).__name__}); start its first machine "
            "with: ray start --head, and this command on a machine of the cluster"
        ) from None
    try:
        yield Session(ray, gpu)
    finally:
        ray.shutdown()
