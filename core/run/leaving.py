"""What of a run would leave this machine: asked before its folder is made and again in its worker.

A reader or judge that calls a server says where, by a class method ``addresses(**options)``; one
without it calls nobody. Whether it may is decided in :mod:`core.egress` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from core.egress import Gate, audit, gate_of, read_address
from core.judges import JUDGES
from core.readers import READERS
from core.registry import Registry
from core.run.entries import READER, ArmEntry
from core.run.members import MemberEntry
from core.types import Manifest


@dataclass(frozen=True, slots=True)
class Destination:
    """An address that a member of a run calls.

    ``purpose`` is the family and the member's name; ``local``: it is this machine; ``calls`` how
    many items go there, at most (None: an arm's own reader, called as its records need);
    ``encrypted``: over https.
    """

    purpose: str
    host: str
    local: bool
    encrypted: bool
    calls: int | None
    url: str

    def shown(self) -> dict[str, Any]:
        """The destination without its address's path."""
        return {
            "purpose": self.purpose,
            "host": self.host,
            "local": self.local,
            "encrypted": self.encrypted,
            "calls": self.calls,
        }


def readers_of_arms(arms: Sequence[ArmEntry]) -> list[MemberEntry]:
    """The readers that arms work with themselves."""
    return [MemberEntry.read(arm.options[READER]) for arm in arms if READER in arm.options]


def destinations(
    arms: Sequence[ArmEntry],
    readers: Sequence[MemberEntry],
    judges: Sequence[MemberEntry],
    instructions: int,
) -> list[Destination]:
    """Where the text of a run of so many instructions goes, member by member."""
    answers = instructions * len(arms)
    found = _of(READERS, "reader", [(reader, None) for reader in readers_of_arms(arms)])
    found += _of(READERS, "reader", [(reader, answers) for reader in readers])
    each = answers * len(readers)
    found += _of(JUDGES, "judge", [(judge, each * judge.repeats) for judge in judges])
    return found


def _of(
    registry: Registry[Any], family: str, entries: Iterable[tuple[MemberEntry, int | None]]
) -> list[Destination]:
    found: list[Destination] = []
    for entry, calls in entries:
        addresses = getattr(registry.get(entry.name), "addresses", None)
        for url in addresses(**entry.options) if addresses is not None else ():
            address = read_address(url)
            found.append(
                Destination(
                    f"{family} {entry.name}",
                    address.host,
                    address.local,
                    address.scheme == "https",
                    calls,
                    url,
                )
            )
    return found


def permit(
    found: Sequence[Destination], manifest: Manifest, hosts: Iterable[str], cluster: str = ""
) -> Gate:
    """The gate of a run, once every destination and the ``cluster`` that works are permitted.

    Raises EgressRefused.
    """
    gate = gate_of(manifest, hosts)
    if cluster:
        gate.join(cluster)
    for destination in found:
        gate.permit(destination.url)
    return gate


def note(run: str, cohort: str, found: Sequence[Destination], records: int) -> None:
    """Write one audit line for each member that sends text of so many records off this machine."""
    for destination in found:
        if not destination.local:
            audit.left(
                run=run,
                cohort=cohort,
                host=destination.host,
                encrypted=destination.encrypted,
                purpose=destination.purpose,
                records=records,
                items=destination.calls,
            )
