"""The cohort of a needle run, derived from another cohort; the same spec gives the same cohort.

Each prompt has a separate record, built on access: one source record, cut to one length, with one
needle at one depth and a number of distractors. Its instruction is the needle's question and its
gold the needle's event. Needles and cuts are computed at once, so that a run's items are counted
before it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from core.errors import DataError, SpecError
from core.experiments.needles.haystack import Haystack, Measured, Refused, insert
from core.protocol import Protocol
from core.runs.documents import LazyValues
from core.synthetic.needles import Needle, make_needles
from core.text import event_text
from core.text.locating import place_of
from core.text.prompt import day
from core.types import Cohort, Gold, Instruction, Record

UNDATED = date(2010, 1, 1)
"""First day of a record without dates."""


@dataclass(frozen=True, slots=True)
class Site:
    """Source record, number of the needle, length in tokens, distractors, and depth in per cent."""

    record: str
    needle: str
    length: int
    distractors: int
    depth: int

    @property
    def id(self) -> str:
        """Id of its record and of its instruction."""
        return f"{self.record}/{self.needle}/{self.length}/{self.distractors}/{self.depth}"


@dataclass(frozen=True)
class NeedleCohort(Cohort):
    """``cuts``: a row each source record and length, as JSON values; ``columns``: the columns of an
    instruction's rows that name its site (:data:`core.experiments.needles.tables.SITE`)."""

    cuts: tuple[dict[str, Any], ...] = ()
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


def needle_cohort(cohort: Cohort, options: Mapping[str, Any], protocol: Protocol) -> NeedleCohort:
    """The needle records of the first ``options["patients"]`` records of a cohort.

    Raises SpecError where no record can be used.
    """
    most = max(options["distractors"])
    cuts: list[dict[str, Any]] = []
    needles: dict[tuple[str, str], Needle] = {}
    haystacks: dict[tuple[str, int], Haystack] = {}
    used: set[str] = set()
    for turn, id in enumerate(list(cohort.records)[: options["patients"]]):
        try:
            measured = Measured(cohort.records[id], protocol)
        except DataError as error:
            reason = f"{error.file}: {error.reason}"
            cuts += [_cut_row(id, Refused(n, 0, reason)) for n in options["lengths"]]
            continue
        own_cuts = [measured.cut(length) for length in options["lengths"]]
        usable = [cut for cut in own_cuts if isinstance(cut, Haystack)]
        drawn: tuple[Needle, ...] = ()
        if usable:
            text = "\n".join(event_text(event) for event in measured.record.events)
            begins = _begins(measured.record, min(cut.first for cut in usable))
            drawn = make_needles(
                id, text, begins, options["needles"], most, protocol.seed, turn, used
            )
        reason = ""
        if len(drawn) < options["needles"]:
            reason = f"it mentions so much that only {len(drawn)} needles are new to it"
        cuts += [_cut_row(id, cut, reason) for cut in own_cuts]
        if not reason:
            haystacks |= {(id, cut.length): cut for cut in usable}
            needles |= {(id, needle.id): needle for needle in drawn}
            used.update(text for n in drawn for text in (n.statement, *n.distractors))
    if not haystacks:
        reasons = dict.fromkeys(f"{cut['length']}: {cut['reason']}" for cut in cuts[:3])
        raise SpecError(
            f"no record of {cohort.path} can be cut to any of 'lengths' of the spec: "
            + "; ".join(reasons)
        )
    return _cohort(cohort, options, protocol, tuple(cuts), needles, haystacks)


def _begins(record: Record, first: int) -> date:
    """The first day of a record from event number ``first`` on."""
    times = [event.time for event in record.events[first:] if event.time is not None]
    return times[0].date() if times else UNDATED


def _cut_row(record: str, cut: Haystack | Refused, reason: str = "") -> dict[str, Any]:
    """A source record at a length: what is left of it, or the reason why it is refused."""
    row = {"record": record, "length": cut.length, "events": 0}
    if isinstance(cut, Refused):
        row |= {"tokens": cut.tokens, "begins": "", "ends": "", "events_before": 0}
        return row | {"events_after": 0, "reason": cut.reason}
    events = cut.record.events
    return row | {
        "events": cut.last - cut.first,
        "tokens": cut.total,
        "begins": day(events[cut.first].time),
        "ends": day(events[cut.last - 1].time),
        "events_before": cut.first,
        "events_after": len(events) - cut.last,
        "reason": reason,
    }


def _cohort(
    cohort: Cohort,
    options: Mapping[str, Any],
    protocol: Protocol,
    cuts: tuple[dict[str, Any], ...],
    needles: Mapping[tuple[str, str], Needle],
    haystacks: Mapping[tuple[str, int], Haystack],
) -> NeedleCohort:
    sites = [
        Site(record, needle, length, distractors, depth)
        for record, needle in needles
        for length in options["lengths"]
        if (record, length) in haystacks
        for distractors in options["distractors"]
        for depth in options["depths"]
    ]

    def place(site: Site) -> Placed:
        haystack, needle = haystacks[site.record, site.length], needles[site.record, site.needle]
        depth, count = site.depth / 100, site.distractors
        built = insert(site.id, haystack, needle, depth, count, protocol.seed)
        order, time, token = place_of(built.record, built.span)
        snippets, spans = (needle.statement,), (built.span,)
        gold = Gold(site.id, needle.answer, snippets, spans, order, time, True, token)
        return Placed(built.record, gold, built.reached, haystack.total)

    def instruction(site: Site) -> Instruction:
        needle = needles[site.record, site.needle]
        return Instruction(site.id, site.id, needle.question, domain=needle.kind)

    return cohort_of(cohort, sites, cuts, place, instruction)


@dataclass(frozen=True, slots=True)
class Placed:
    """The record of a site and its question's gold; ``reached``: share of the ``tokens`` of all
    else in it that precede what was placed."""

    record: Record
    gold: Gold
    reached: float
    tokens: int


def cohort_of(
    cohort: Cohort,
    sites: Iterable[Site],
    cuts: tuple[dict[str, Any], ...],
    place: Callable[[Site], Placed],
    instruction: Callable[[Site], Instruction],
) -> NeedleCohort:
    """The cohort of sites of a cohort's records, each placed on access; an instruction's domain is
    its kind of fact."""
    by_id = {site.id: site for site in sites}
    ids = list(by_id)
    placed = LazyValues(ids, lambda id: place(by_id[id]))
    instructions = {id: instruction(site) for id, site in by_id.items()}

    def columns(id: str) -> dict[str, Any]:
        site = by_id[id]
        return {
            "record": site.record,
            "needle": site.needle,
            "fact": instructions[id].domain,
            "length": site.length,
            "depth": site.depth,
            "distractors": site.distractors,
            "reached": placed[id].reached,
            "haystack_tokens": placed[id].tokens,
        }

    return NeedleCohort(
        cohort.path,
        cohort.format,
        cohort.manifest,
        LazyValues(ids, lambda id: placed[id].record),
        tuple(instructions.values()),
        LazyValues(ids, lambda id: placed[id].gold),
        skipped=cohort.skipped,
        warnings=cohort.warnings,
        patient={id: site.record for id, site in by_id.items()},
        cuts=cuts,
        columns=LazyValues(ids, columns),
    )
