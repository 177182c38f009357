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
from typing import Any

from midchart.core import config as settings
from midchart.core.arms import ARMS
from midchart.core.egress.owners_list import RAY_PORT
from midchart.core.errors import InputError, MissingModel
from midchart.core.judges import JUDGES
from midchart.core.readers import READERS
from midchart.core.registry import Registry
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.plan import ComponentSpec, Spec

HERE, CORES, LOCAL = "here", "cores", "ray"
CPU, GPU = "cpu", "gpu"
_ADDRESS = re.compile(r"ray://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?/?")


def read_cluster(text: str) -> str:
    """A place in its one spelling: "cores", "ray" or "ray://HOST:PORT", "" for here.

    Raises InputError, MissingModel where Ray is not installed.
    """
    if text in ("", HERE, CORES):
        return "" if text == HERE else text
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"] or RAY_PORT) if match else 0
    if text != LOCAL and (match is None or not 0 < port < 65536):
        raise InputError(
            f"a run is done on 'here', 'cores', 'ray' or 'ray://HOST:PORT', not on {text!r}"
        )
    if importlib.util.find_spec("ray") is None:
        raise MissingModel(
            "a run on Ray needs the package ray; get it with: pip install -r docs/optional/ray.txt"
        )
    return f"ray://{match['host']}:{port}" if match else LOCAL


def on_ray(cluster: str) -> bool:
    """Whether Ray starts the workers of a place."""
    return cluster == LOCAL or cluster.startswith("ray://")


def named_cluster(cluster: str) -> str:
    """The cluster whose machines would see records; "" here and on a Ray made for the run alone.

    One whose first machine is this one may have others, so its address does not decide.
    """
    return cluster if cluster.startswith("ray://") else ""


def wanted(plan: Spec) -> str:
    """ "gpu" for a run that trains or has a component that loads weights, else "cpu".

    A spec whose ``device`` is "cpu" keeps training off the GPUs.
    """
    trains = EXPERIMENTS.build(plan.kind).gpu and plan.options.get("device") != CPU
    components: list[tuple[Registry[Any], str]] = [
        *((ARMS, arm.name) for arm in plan.arms),
        *((READERS, entry.name) for entry in (*plan.reader_entries, *plan.readers_of_arms)),
        *((JUDGES, entry.name) for entry in plan.judge_entries),
    ]
    factories = [registry.get(name) for registry, name in components]
    loads = any(getattr(one, "needs", None) or hasattr(one, "mark") for one in factories)
    return GPU if trains or loads or plan.options.get("semantic") else CPU


def tracks_budget(registry: Registry[Any], entry: ComponentSpec) -> bool:
    """Whether a reader or judge has a budget, which one process tracks."""
    return "folder" in inspect.signature(registry.get(entry.name)).parameters


def require_divisible(plan: Spec, cluster: str) -> None:
    """Refuse a run that cannot be divided among the workers of a place; raises InputError."""
    readers = (*plan.reader_entries, *plan.readers_of_arms)
    paid = [entry.label for entry in readers if tracks_budget(READERS, entry)]
    if cluster and paid:
        raise InputError(
            f"the reader {paid[0]!r} keeps a budget, which one process tracks: do the run without "
            "workers (--on here)"
        )
    if cluster == CORES and wanted(plan) == GPU and settings.gpus():
        raise InputError(
            "this run uses a GPU, which processes would share: do it in one process (--on here), "
            "or with a worker for each GPU (--on ray)"
        )
