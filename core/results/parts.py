"""Patients that a run's tables count: those that no gate of the run was trained or calibrated on.

This holds for every arm; patients that a gate has seen (:mod:`core.runs.gate_checkpoints`) are
reported in separate tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import UnknownName
from core.runs.directory import RunDirectory
from core.runs.experiment import EXPERIMENTS
from core.runs.gate_checkpoints import seen_patients
from core.runs.plan import Plan
from core.storage.query import literal
from core.storage.rows import RowStore

TEST, SEEN, ALL = "test", "seen", "all"
PARTS = (TEST, SEEN, ALL)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a run's patients.

    ``name``: "test", "seen" or "all", or the part that the run's spec asked for. ``where``: the
    condition on a row's ``record``, in SQL. ``patients``: their number among the run's rows;
    ``seen``: number of those that were seen, by arm's label. ``left_out``: the
    records that "test" leaves out.
    """

    name: str
    where: str
    patients: int
    seen: dict[str, int]
    left_out: frozenset[str] = frozenset()

    @property
    def words(self) -> str:
        """What a reader of the tables should know of the patients; empty where all count."""
        if not self.seen:
            return ""
        arms = ", ".join(f"{label} {n}" for label, n in self.seen.items())
        if self.name == TEST:
            return (
                f"part = test: every table of results is of the {self.patients} patients that no "
                f"gate of this run was trained on; seen in training: {arms}, in tables of their "
                "own (recall_seen, accuracy_seen)"
            )
        if self.name == SEEN:
            return f"part = seen: patients on whom a gate of this run was trained ({arms})"
        return (
            f"part = {self.name}: patients on whom a gate of this run was trained are among these "
            f"{self.patients} ({arms}), so its arm is not comparable with the others"
        )


def part_of(folder: RunDirectory, plan: Plan, part: str = "") -> Part:
    """A part of a run's patients.

    ``part``: "test", "seen" or "all"; empty for "test" where the run has a trained arm and its
    spec did not ask for the training patients themselves, else all. Raises UnknownName.
    """
    if part and part not in PARTS:
        raise UnknownName("part of a run's patients", part, PARTS)
    kind = EXPERIMENTS.build(plan.kind)
    if not kind.compares:
        return Part(ALL, "true", 0, {})
    store = folder.store(plan)
    rows = store.select(kind.main, "DISTINCT record")
    records = {row["record"] for row in rows}
    noted = seen_patients(folder.path)
    seen = {label: records & ids for label, ids in noted.items()}
    counts = {label: len(ids) for label, ids in seen.items() if ids}
    everyone = frozenset[str]().union(*seen.values())
    name = part
    if not name:
        asked_seen = plan.part in ("train", "validation")
        name = TEST if noted and not asked_seen else plan.part or ALL
    listed = ", ".join(map(literal, sorted(everyone)))
    inside = f"record IN ({listed})" if listed else "false"
    if name == TEST:
        return Part(name, f"NOT ({inside})", len(records - everyone), counts, everyone)
    if name == SEEN:
        return Part(name, inside, len(everyone), counts)
    return Part(name, "true", len(records), counts)


def counted_store(folder: RunDirectory, plan: Plan, part: str = "") -> RowStore:
    """A run's tables, whose tables of results count a part of its patients alone."""
    store = folder.store(plan)
    store.counted = part_of(folder, plan, part).where
    return store
