"""The paper's tables beside this installation's, and its faults taken away one at a time."""

from core.run.replication.beside import (
    arms_and_judges,
    beside,
    faults_alone,
    readers_of,
    replication,
    waterfall,
)
from core.run.replication.elsewhere import other_runs
from core.run.replication.findings import findings
from core.run.replication.paper import TABLES as PAPER_TABLES
from core.run.replication.steps import ARMS as PAPER_ARMS
from core.run.replication.steps import step_specs

__all__ = [
    "PAPER_ARMS",
    "PAPER_TABLES",
    "arms_and_judges",
    "beside",
    "faults_alone",
    "findings",
    "other_runs",
    "readers_of",
    "replication",
    "step_specs",
    "waterfall",
]
