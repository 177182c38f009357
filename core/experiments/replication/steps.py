"""From the published protocol to the corrected one, a fault at a time.

The first step is what the paper ran, each further one takes one fault more away, the last is the
corrected protocol: so the change between two steps is what that one fault does, given those that
are left. In another order each could do more or less, and a later one can hide behind an earlier
one: so each fault is run alone as well, turned on in the corrected protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.protocol import PRESETS, Protocol


@dataclass(frozen=True, slots=True)
class Fault:
    """A published fault: its name in a URL, what it did, in a word and a sentence, its fields.

    ``arms`` are those it concerns (all where empty); ``spared`` says why it did not act where it
    concerns an arm and nothing changed.
    """

    name: str
    title: str
    did: str
    fields: tuple[str, ...]
    spared: str
    arms: tuple[str, ...] = ()


FAULTS: tuple[Fault, ...] = (
    Fault(
        "right_truncation",
        "Questions cut off",
        "The finished prompt was cut at its end, where the question stood: the reader went on "
        "with the record instead of answering.",
        ("truncation", "map_reduce"),
        "no prompt here is long enough to be cut",
    ),
    Fault(
        "records_cut",
        "First pages only",
        "The whole record stood for its first 32,000 characters, a compressor saw 80,000: what "
        "was newer was never read.",
        ("full_side", "full_characters", "llmlingua_characters", "llmlingua_threshold"),
        "no record here is longer than the cut",
        ("full", "llmlingua2"),
    ),
    Fault(
        "whole_events",
        "Whole events picked",
        "An arm that was said to pick sentences picked whole events, notes of a page among them.",
        ("unit",),
        "no event of these records is longer than one sentence",
    ),
    Fault(
        "recency_first",
        "Latest events first",
        "The five latest events were taken whole before an arm's own picks; in a record of few "
        "long notes that is most of the selection, whatever the arm.",
        ("recency_rule",),
        "the prompts hold the same sentences either way",
    ),
    Fault(
        "salted_hash",
        "Salted hash",
        "Python salts its hash in each process, so the gate scored by weights that belonged to "
        "other n-grams than those it was trained on.",
        ("hash", "hash_salt"),
        "the gate keeps the same sentences",
        ("qccs",),
    ),
    Fault(
        "gate_limits",
        "Gate reads 500 characters",
        "Of each text the gate saw the first 500 characters and 128 n-grams.",
        ("gate_text",),
        "no text that the gate reads is longer than its limit",
        ("qccs",),
    ),
    Fault(
        "gate_examples",
        "Gate taught by first events",
        "Positives were the first three sentences with a shared word, negatives the record's "
        "earliest, so the gate could learn the date instead of the question.",
        ("gate_positives", "gate_negatives"),
        "the gate keeps the same sentences",
        ("qccs",),
    ),
    Fault(
        "evidence_join",
        "Evidence lost in a join",
        "Evidence was joined to answers by the first 100 characters of the question; what found "
        'no partner was judged against the text "nan".',
        ("evidence_join",),
        "no question of this cohort is longer than 100 characters, so each finds its evidence",
    ),
    Fault(
        "loose_location",
        "Evidence located anywhere",
        "Evidence was placed on the best event of the record from a score of .2 on, which another "
        "patient's evidence reaches as well, so its position could be that of any text.",
        ("locate", "locate_threshold"),
        "the evidence is located in the same places, or the arm is not shown it",
    ),
    Fault(
        "short_answers",
        "200 characters judged",
        "Only the first 200 characters of an answer were judged.",
        ("response_characters",),
        "no answer of this reader is longer than 200 characters",
    ),
)
"""In the order in which they are taken away."""

REPORTING = ("intervals", "position")
"""Published choices of how figures are reported: no answer or verdict depends on them, so they
have no step of their own and are taken away with the last fault."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step: the fault it takes away (None for the first; ``only``: the one it alone has) and the
    protocol it runs under."""

    fault: Fault | None
    protocol: Protocol
    only: bool = False

    @property
    def name(self) -> str:
        """``published``, then the name of the fault that is gone; ``only_`` before one alone."""
        if self.fault and self.only:
            return f"only_{self.fault.name}"
        return self.fault.name if self.fault else "published"

    @property
    def title(self) -> str:
        """For people."""
        if self.fault and self.only:
            return f"Only: {self.fault.title.lower()}"
        return f"Without: {self.fault.title.lower()}" if self.fault else "As published"


def steps() -> tuple[Step, ...]:
    """The published protocol, then one fault less each, down to the corrected one."""
    published = PRESETS["published"]
    found = [Step(None, published)]
    left = dict(published.differences())
    for fault in FAULTS:
        fields = fault.fields + (REPORTING if fault is FAULTS[-1] else ())
        changes: dict[str, Any] = {name: left.pop(name)[0] for name in fields if name in left}
        found.append(Step(fault, replace(found[-1].protocol, **changes)))
    if left:
        raise AssertionError(f"no fault takes these published fields away: {', '.join(left)}")
    return tuple(found)


def alone() -> tuple[Step, ...]:
    """The corrected protocol with one published fault each, named ``only_`` and the fault's."""
    corrected, published = PRESETS["corrected"], PRESETS["published"]
    return tuple(
        Step(
            fault,
            replace(corrected, **{name: getattr(published, name) for name in fault.fields}),
            only=True,
        )
        for fault in FAULTS
    )


ARMS: Sequence[Any] = (
    "full",
    "bm25",
    {"name": "bm25", "k": 1},
    {"name": "bm25", "k": 3},
    {"name": "bm25", "k": 5},
    "bm25_filtered",
    "bm25_temporal",
    "bm25_ranked",
    "dense",
    "mmr",
    "cross_encoder",
    "qccs",
    "qccs_plus",
    "llmlingua2",
    "map_reduce",
    "oracle",
    "recency",
    "random",
    "shortest",
)
"""The paper's arms, the controls it lacks, and the arms that were made since; ``map_reduce`` works
with the reader of the run."""


def spec(
    step: Step,
    data: str,
    arms: Sequence[Any],
    reader: Any,
    judges: Sequence[Any],
    hosts: Sequence[str] = (),
) -> dict[str, Any]:
    """The run of a step, as a mapping that :func:`core.runs.queue.enqueue` takes."""
    changed = step.protocol.differences()
    allowed = {"allow_hosts": list(hosts)} if hosts else {}
    return {
        "name": f"replication · {step.title.lower()}",
        "kind": "answers",
        "data": data,
        "arms": list(arms),
        "readers": [reader],
        "judges": list(judges),
        "protocol": {"preset": "corrected", **{k: here for k, (_, here) in changed.items()}},
        "seed": step.protocol.seed,
        **allowed,
    }


def step_specs(
    data: str,
    arms: Sequence[Any],
    reader: Any,
    judges: Sequence[Any],
    hosts: Sequence[str] = (),
) -> dict[str, dict[str, Any]]:
    """The run of every step and of every fault alone, by the step's name.

    ``reader``, ``judges`` and ``arms`` are names or tables as a spec holds them; ``hosts`` are
    those off this machine that text of records may go to.
    """
    every = (*steps(), *alone())
    return {step.name: spec(step, data, arms, reader, judges, hosts) for step in every}
