"""Where a run is done: here, on all cores of this machine, or on Ray.

As the command line says it: "" (here) is the run's own process; "cores" as many processes as this
machine has cores for it; "ray" a Ray that serves this run alone, listens on loopback and uses all
of this machine; "ray://HOST:PORT" the cluster whose first machine was started with ``ray start
--head --port=PORT``.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Iterator
from typing import Any

from midchart.core import config as settings
from midchart.core.arms import ARMS
from midchart.core.egress.owners_list import RAY_PORT
from midchart.core.errors import InputError, MissingModel
from midchart.core.judges import JUDGES
from midchart.core.readers import READERS
from midchart.core.registry import Registry
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.plan import READER, ComponentSpec, Spec

HERE, CORES, LOCAL = "here", "cores", "ray"
CPU, GPU = "cpu", "gpu"
PORT = RAY_PORT
"""Where ``ray start --head`` listens by default."""
INSTALL = "pip install -r docs/optional/ray.txt"
_ADDRESS = re.compile(r"ray://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?/?")


def read_cluster(text: str) -> str:
    """A place as :func:`spelled` spells it; raises MissingModel where Ray is not installed."""
    cluster = spelled(text)
    if on_ray(cluster) and importlib.util.find_spec("ray") is None:
        raise MissingModel(f"a run on Ray needs the package ray; get it with: {INSTALL}")
    return cluster


def spelled(text: str) -> str:
    """A place in its one spelling: "cores", "ray" or "ray://HOST:PORT", "" for here; raises
    InputError."""
    if text in ("", HERE):
        return ""
    if text in (CORES, LOCAL):
        return text
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"] or PORT) if match else 0
    if match is None or not 0 < port < 65536:
        raise InputError(
            f"a run is done on 'here', 'cores', 'ray' or 'ray://HOST:PORT', not on {text!r}"
        )
    return f"ray://{match['host']}:{port}"


def on_ray(cluster: str) -> bool:
    """Whether Ray starts the workers of a place."""
    return cluster == LOCAL or cluster.startswith("ray://")


def named_cluster(cluster: str) -> str:
    """The cluster whose machines would see records; "" here and on a Ray made for the run alone.

    One whose first machine is this one may have others, so its address does not decide.
    """
    return cluster if cluster.startswith("ray://") else ""


def on_loopback(cluster: str) -> bool:
    """Whether this machine's loopback is all that is needed to reach a cluster."""
    return cluster == LOCAL or cluster.startswith(("ray://127.0.0.1:", "ray://localhost:"))


def wanted(plan: Spec) -> str:
    """ "gpu" for a run that trains or has a component that loads weights, else "cpu".

    A spec whose ``device`` is "cpu" keeps training off the GPUs.
    """
    trains = EXPERIMENTS.build(plan.kind).gpu and plan.options.get("device") != CPU
    if trains or plan.options.get("semantic"):
        return GPU
    for registry, name in _components(plan):
        factory = registry.get(name)
        if getattr(factory, "needs", None) or hasattr(factory, "mark"):
            return GPU
    return CPU


def _components(plan: Spec) -> Iterator[tuple[Registry[Any], str]]:
    for arm in plan.arms:
        yield ARMS, arm.name
        if READER in arm.options:
            yield READERS, ComponentSpec.read(arm.options[READER]).name
    yield from ((READERS, entry.name) for entry in plan.reader_entries)
    yield from ((JUDGES, entry.name) for entry in plan.judge_entries)


def require_divisible(plan: Spec, cluster: str) -> None:
    """Refuse a run that cannot be divided among the workers of a place; raises InputError.

    A reader's budget is tracked by one process.
    """
    if not cluster:
        return
    for entry in (*plan.reader_entries, *plan.readers_of_arms):
        if "folder" in inspect.signature(READERS.get(entry.name)).parameters:
            raise InputError(
                f"the reader {entry.label!r} keeps a budget, which one process tracks: do the run "
                "without workers (--on here)"
            )
    if cluster == CORES and wanted(plan) == GPU and settings.gpus():
        raise InputError(
            "this run uses a GPU, which processes would share: do it in one process (--on here), "
            "or with a worker for each GPU (--on ray)"
        )
