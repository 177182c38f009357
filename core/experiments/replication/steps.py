"""From the published protocol to the corrected one, a fault at a time.

The first step is what the paper ran, each further one takes one fault more away, the last is the
corrected protocol. The effect of a step depends on the faults that remain, so each fault is also
run alone, turned on in the corrected protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.experiments.replication.paper import read_data
from core.protocol import PRESETS, Protocol
from core.synthetic.reference import table_row


@table_row
class Fault:
    """A published fault; its fields are described in ``faults.yaml``."""

    name: str
    title: str
    did: str
    fields: tuple[str, ...]
    spared: str
    arms: tuple[str, ...] = ()


FAULTS = read_data(tuple[Fault, ...], "faults.yaml")
"""In the order in which they are taken away."""

REPORTING = ("intervals", "position")
"""Published choices of how figures are reported: no answer or verdict depends on them, so they
are corrected with the last fault, without a separate step."""


@dataclass(frozen=True, slots=True)
class Step:
    """A run of a replication: ``fault`` is the one that it takes away or alone has, None for the
    first; ``title`` is for people."""

    name: str
    title: str
    protocol: Protocol
    fault: Fault | None = None


def steps() -> tuple[Step, ...]:
    """The published protocol, then one fault less each, down to the corrected one."""
    published = PRESETS["published"]
    sequence = [Step("published", "As published", published)]
    left = dict(published.differences())
    for fault in FAULTS:
        fields = fault.fields + (REPORTING if fault is FAULTS[-1] else ())
        changes: dict[str, Any] = {name: left.pop(name)[0] for name in fields if name in left}
        protocol = replace(sequence[-1].protocol, **changes)
        sequence.append(Step(fault.name, f"Without: {fault.title.lower()}", protocol, fault))
    if left:
        raise AssertionError(f"no fault takes these published fields away: {', '.join(left)}")
    return tuple(sequence)


def alone() -> tuple[Step, ...]:
    """The corrected protocol with one published fault each, named ``only_`` and the fault's."""
    sequence: list[Step] = []
    for fault in FAULTS:
        changes: dict[str, Any] = {f: getattr(PRESETS["published"], f) for f in fault.fields}
        protocol = replace(PRESETS["corrected"], **changes)
        title = f"Only: {fault.title.lower()}"
        sequence.append(Step(f"only_{fault.name}", title, protocol, fault))
    return tuple(sequence)


ARMS: Sequence[Any] = (
    *("full", "bm25", {"name": "bm25", "k": 1}, {"name": "bm25", "k": 3}, {"name": "bm25", "k": 5}),
    *("bm25_filtered", "bm25_temporal", "bm25_ranked", "dense", "mmr", "cross_encoder", "qccs"),
    *("qccs_plus", "llmlingua2", "map_reduce", "oracle", "recency", "random", "shortest"),
)
"""The paper's arms, the controls it lacks, and the arms added since; ``map_reduce`` works with the
reader of the run."""


def step_specs(
    data: str,
    arms: Sequence[Any],
    reader: Any,
    judges: Sequence[Any],
    hosts: Sequence[str] = (),
    part: str = "",
) -> dict[str, dict[str, Any]]:
    """The spec (:func:`core.runs.process.enqueue`) of every step and every fault alone, by name.

    ``reader``, ``judges`` and ``arms`` are names or tables as a spec holds them; ``hosts`` are
    those off this machine to which text of records may be sent; ``part``: the patients asked
    about, all where empty.
    """
    specs: dict[str, dict[str, Any]] = {}
    reader_name = reader if isinstance(reader, str) else reader["name"]
    for step in (*steps(), *alone()):
        changed = {name: value for name, (_, value) in step.protocol.differences().items()}
        specs[step.name] = {
            "name": f"replication · {step.title.lower()}",
            "group": f"replication, {reader_name}",
            "kind": "answers",
            "data": data,
            "arms": list(arms),
            "readers": [reader],
            "judges": list(judges),
            "protocol": {"preset": "corrected", **changed},
            "seed": step.protocol.seed,
        }
        more = {"part": part, "allow_hosts": list(hosts)}
        specs[step.name] |= {name: value for name, value in more.items() if value}
    return specs
