"""Preflight: what a run must know of its services is asked of them before its first item.

A reader that calls a server may offer a class method ``preflight(protocol, egress, **options)``: it
raises InputError where every item would fail for the same reason. No text of a record is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.egress import Gate
from core.protocol import Protocol
from core.readers import READERS
from core.run.entries import ArmEntry
from core.run.leaving import readers_of_arms
from core.run.members import MemberEntry


def preflight(
    arms: Sequence[ArmEntry], readers: Sequence[MemberEntry], protocol: Protocol, egress: Gate
) -> None:
    """Ask the services of a run's readers, those of its arms included; raises InputError."""
    for entry in (*readers_of_arms(arms), *readers):
        ask = getattr(READERS.get(entry.name), "preflight", None)
        if ask is not None:
            ask(protocol, egress, **entry.options)
