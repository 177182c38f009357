"""A run on many machines: its portions of work done by workers on Ray, its rows written by one.

The run's own process (:mod:`core.runs.worker`; to Ray, the driver) holds the run's lock as ever and
is the only one that writes its rows, so resume, cancel, status and the tables know nothing of a
cluster. What differs is who does the work: Ray's workers (:mod:`core.runs.cluster.remote`), a
process each, which send every row as soon as it is done. A worker or a whole machine that dies
loses the items it was at; that portion is given to another with the rows that are there, so nothing
is lost and nothing is done twice.

Ray is imported in this room alone, and only where a run is to be done on it. It reads the cohort
from the shared folder that every machine sees; no row passes any other way than from a worker to
the run's own process.
"""

from __future__ import annotations

from core.runs.cluster.place import read_place
from core.runs.cluster.pool import Pool
from core.runs.cluster.session import connected
from core.runs.experiment import Experiment
from core.runs.job import Job

__all__ = ["read_place", "work_on"]


def work_on(place: str, job: Job, kind: Experiment, run: str, gpu: bool) -> None:
    """Do a run's portions on Ray; what cannot be parted is left to the run's own process.

    ``gpu``: a worker is to have a GPU of its own where the cluster has any. Raises Stopped when
    told to stop, WorkFailed where no cluster answers or a portion cannot be done.
    """
    if not kind.portion:
        return
    with connected(place, gpu) as session:
        Pool(job, kind, run, session).work()
