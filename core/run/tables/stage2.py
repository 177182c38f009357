"""All tables of a run of kind answers that rest on verdicts, from one look at its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.run.plan import Plan
from core.run.tables.accuracy import (
    STRATA,
    accuracy,
    by_band,
    by_stratum,
    k_sweep,
    refusals,
    unlocated,
)
from core.run.tables.agreement import agreement, self_agreement
from core.run.tables.common import Table
from core.run.tables.costs import costs, spent
from core.run.tables.facts import facts
from core.run.tables.failures import failure_kinds, failures
from core.run.tables.hits import faults, hit_effect, hit_miss
from core.run.tables.paired import detectable, multiplicity, omnibus, paired, readers
from core.store import RowStore


def stage2(
    store: RowStore,
    run: Plan,
    judged: Plan | None = None,
    reviews: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Table]:
    """The tables of Stage 2 (PROTOCOL, Stage 2: judging), by name.

    ``judged``: the plan with people as further judges, whose verdicts are ``reviews``. Agreement
    over all arms, and costs, are of the ``run``'s own judges: a person judges words once that many
    arms gave, so agreement with people is counted by cards (:mod:`core.run.review.agreement`).
    """
    plan = judged or run
    with facts(store, plan, reviews) as ask:
        bands = by_band(ask)
        whole, by_arm = agreement(ask, run)
        tables: dict[str, Table] = {
            "accuracy": accuracy(plan, bands),
            "unlocated": unlocated(plan, bands),
            **{name: by_stratum(ask, plan, name) for name in STRATA},
            "refusals": refusals(ask, plan),
            "hit_miss": hit_miss(ask, plan),
            "paired": paired(ask, plan),
            "readers": readers(ask, plan),
            "omnibus": omnibus(ask, plan),
            "agreement": whole,
            "judges": by_arm,
            "self_agreement": self_agreement(ask, run),
            "failure_kinds": failure_kinds(ask, plan),
            "faults": faults(ask, plan),
            "costs": costs(ask, run),
            "spent": spent(ask, run, store.folder.parent),
        }
    tables["k_sweep"] = k_sweep(plan, tables["accuracy"])
    tables["hit_effect"] = hit_effect(tables["hit_miss"])
    tables["detectable"] = detectable(tables["paired"])
    tables["multiplicity"] = multiplicity(tables)
    tables["failures"] = failures(store, plan)
    return tables
