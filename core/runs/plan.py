"""What a run is to do: as a spec asks for it, and as it was planned and is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from midchart.core.protocol import Protocol
from midchart.core.types import Budget

UNLIMITED = 10**9
"""A k that takes all there are."""
BUFFER_ALONE = "recency"
"""The arm that picks nothing: all it keeps is the recency buffer."""
READER = "reader"
"""The constructor argument of an arm that works with a reader (a name or a table in a spec)."""
RULE_JUDGES = frozenset({"exact", "token_overlap", "exact_else_overlap", "nli", "statements"})
"""Judges that have no prompt."""
STATEMENTS = "statements"
"""The offline judge that decides by default."""
EXACT = "exact"
DECIDING = ("choice", STATEMENTS, "exact_else_overlap")
"""The judges that decide by default where a run has them, the first before the others."""


def default_primary(judges: Sequence[str]) -> str:
    """The primary judge of a run whose spec names none, by the labels of its judges: the first of
    :data:`DECIDING` that the run has, else the first of the spec; "" without judges."""
    return next((name for name in (*DECIDING, *judges) if name in judges), "")


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """A reader or judge of a run: its name, its options, and the label its rows carry: the name and
    every option that differs from the constructor's own default."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    label: str = ""

    @property
    def repeats(self) -> int:
        """Verdicts that each answer gets of a judge."""
        return int(self.options.get("repeats", 1))


@dataclass(frozen=True, slots=True)
class ArmConfig:
    """One entry of a spec's arms: the arm, its budget, its options, and its label, which is unique
    in a run: the arm's name, and what differs from the protocol."""

    name: str
    k: int
    recency: int
    tokens: int | None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    label: str = ""

    @property
    def budget(self) -> Budget:
        """What the arm may keep."""
        return Budget(self.k, self.recency, self.tokens)

    @property
    def shown_k(self) -> int | None:
        """``k`` as tables show it: None where it takes all there are."""
        return None if self.k >= UNLIMITED else self.k

    @property
    def shown_budget(self) -> str:
        """The budget in words: "k=20", "600 tokens", "k=20, 600 tokens" or "all"."""
        words = [] if self.shown_k is None else [f"k={self.k}"]
        words += [f"{self.tokens} tokens"] if self.tokens is not None else []
        return ", ".join(words) or "all"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a run is to do.

    ``data`` is as it was written; ``options`` are the kind's own fields; ``base`` is the spec
    file's folder. ``allow_hosts`` are the hosts off this machine that the user lets text go to.
    ``written``: the spec's table. ``named_primary``: the label of the judge that the spec names as
    the one that decides.
    """

    name: str
    kind: str
    data: str
    arms: tuple[ArmConfig, ...] = ()
    reader_entries: tuple[ComponentSpec, ...] = ()
    judge_entries: tuple[ComponentSpec, ...] = ()
    protocol: Protocol
    limit: int | None = None
    part: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    base: str = ""
    allow_hosts: tuple[str, ...] = ()
    written: Mapping[str, Any] = field(default_factory=dict[str, Any])
    group: str = ""
    named_primary: str = ""

    @property
    def primary_judge(self) -> str:
        """The label of the judge by which every conclusion on the run is drawn; "" without one."""
        labels = [entry.label for entry in self.judge_entries]
        return self.named_primary if self.named_primary in labels else default_primary(labels)

    @property
    def readers(self) -> tuple[str, ...]:
        """The readers' labels, as rows and tables hold them."""
        return tuple(entry.label for entry in self.reader_entries)

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges' labels, the primary one first."""
        labels, primary = (entry.label for entry in self.judge_entries), self.primary_judge
        return tuple(sorted(labels, key=lambda label: label != primary))

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """The verdicts that each answer gets: the judge's label, and which of its repeats."""
        return [(one.label, repeat) for one in self.judge_entries for repeat in range(one.repeats)]

    @property
    def readers_of_arms(self) -> list[ComponentSpec]:
        """The readers that arms work with themselves."""
        return [ComponentSpec(**a.options[READER]) for a in self.arms if READER in a.options]


@dataclass(frozen=True, kw_only=True)
class Plan(Spec):
    """What ``spec.json`` says: a spec on a cohort with this ``digest``; ``raw`` is all of it."""

    digest: str = ""
    planned: int = 0
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def position(self) -> Mapping[str, Any] | None:
        """Which position of the evidence the run goes by, and why; None where it has none."""
        return self.raw.get("position")

    @property
    def asked(self) -> Protocol:
        """The protocol as the spec named it: with "auto" for a position that the cohort decided."""
        if self.position and self.position["named"]:
            return self.protocol
        return replace(self.protocol, position="auto")
