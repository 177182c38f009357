"""A cohort of needle records, made from a cohort as it is: what a run of kind ``needles`` works on.

Each prompt's record is a record of its own here, made when it is asked for: one source record,
cut to one length, with one needle at one depth and so many distractors. Its instruction is the
needle's question and its gold the needle's own event. Needles and cuts are worked out at once, so
that a run's items are counted before it starts; the same spec gives the same cohort anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import lru_cache
from typing import Any, TypeVar

from core.errors import DataError, SpecError
from core.experiments.needles.haystack import Haystack, Measured, Placed, Refused, place
from core.protocol import Protocol
from core.synthetic.needles import Needle, make_needles
from core.text import event_text
from core.text.locating import place_of
from core.text.prompt import day
from core.types import Cohort, Gold, Instruction, Record

T = TypeVar("T")
UNDATED = date(2010, 1, 1)
"""When a record without any date is taken to begin."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a needle stands: source record, needle's number, length, distractors, depth in %."""

    record: str
    needle: str
    length: int
    distractors: int
    depth: int

    @property
    def id(self) -> str:
        """The id of the record made for it, and of its instruction."""
        return f"{self.record}/{self.needle}/{self.length}/{self.distractors}/{self.depth}"


@dataclass(frozen=True, slots=True)
class CutRecord:
    """A source record at a length: what was kept, or the ``reason`` why it was refused."""

    record: str
    length: int
    events: int
    tokens: int
    begins: str
    ends: str
    events_before: int
    events_after: int
    reason: str


class _Made(Mapping[str, T]):
    """Things by site, each made when it is asked for; a few are kept."""

    def __init__(self, sites: Mapping[str, Site], make: Callable[[Site], T]) -> None:
        self._sites = sites
        self._make = lru_cache(maxsize=4)(make)

    def __getitem__(self, id: str) -> T:
        return self._make(self._sites[id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._sites)

    def __len__(self) -> int:
        return len(self._sites)


@dataclass(frozen=True)
class NeedleCohort(Cohort):
    """The cohort of a needle run, with where each needle stands and how records were cut."""

    sites: Mapping[str, Site] | None = None
    cuts: tuple[CutRecord, ...] = ()
    needles: Mapping[tuple[str, str], Needle] | None = None
    placed: Mapping[str, Placed] | None = None
    haystacks: Mapping[tuple[str, int], Haystack] | None = None

    def site(self, id: str) -> Site:
        """Where the needle of an instruction stands."""
        assert self.sites is not None
        return self.sites[id]

    def columns(self, id: str) -> dict[str, Any]:
        """What a row tells of where its needle stands
        (:data:`core.experiments.needles.tables.PLACE`)."""
        assert self.needles is not None and self.placed is not None and self.haystacks is not None
        site, placed = self.site(id), self.placed[id]
        return {
            "record": site.record,
            "needle": site.needle,
            "fact": self.needles[site.record, site.needle].kind,
            "length": site.length,
            "depth": site.depth,
            "distractors": site.distractors,
            "reached": placed.reached,
            "haystack_tokens": self.haystacks[site.record, site.length].total,
        }


def needle_cohort(cohort: Cohort, options: Mapping[str, Any], protocol: Protocol) -> NeedleCohort:
    """The needle records of the first ``options["patients"]`` records of a cohort.

    Raises SpecError where no record can be used.
    """
    most = max(options["distractors"])
    cuts: list[CutRecord] = []
    needles: dict[tuple[str, str], Needle] = {}
    haystacks: dict[tuple[str, int], Haystack] = {}
    said: set[str] = set()
    for turn, id in enumerate(list(cohort.records)[: options["patients"]]):
        try:
            measured = Measured(cohort.records[id], protocol)
        except DataError as error:
            reason = f"{error.file}: {error.reason}"
            cuts += [CutRecord(id, n, 0, 0, "", "", 0, 0, reason) for n in options["lengths"]]
            continue
        found = {length: measured.cut(length) for length in options["lengths"]}
        kept = {length: cut for length, cut in found.items() if isinstance(cut, Haystack)}
        made: tuple[Needle, ...] = ()
        if kept:
            made = make_needles(
                id,
                "\n".join(event_text(event) for event in measured.record.events),
                _begins(measured.record, min(cut.first for cut in kept.values())),
                options["needles"],
                most,
                protocol.seed,
                turn,
                said,
            )
        short = len(made) < options["needles"]
        for length, cut in found.items():
            reason = ""
            if isinstance(cut, Refused):
                reason = cut.reason
            elif short:
                reason = f"it mentions so much that only {len(made)} needles are new to it"
            cuts.append(_told(id, length, cut, reason))
            if isinstance(cut, Haystack) and not short:
                haystacks[id, length] = cut
        if not short:
            needles |= {(id, needle.id): needle for needle in made}
            said.update(text for needle in made for text in (needle.statement, *needle.distractors))
    if not haystacks:
        raise SpecError(
            f"no record of {cohort.path} can be cut to any of 'lengths' of the spec: "
            + "; ".join(dict.fromkeys(f"{cut.length}: {cut.reason}" for cut in cuts[:3]))
        )
    return _assembled(cohort, options, protocol, tuple(cuts), needles, haystacks)


def _begins(record: Record, first: int) -> date:
    """The first day of a record from event number ``first`` on."""
    times = [event.time for event in record.events[first:] if event.time is not None]
    return times[0].date() if times else UNDATED


def _told(record: str, length: int, cut: Haystack | Refused, reason: str) -> CutRecord:
    if isinstance(cut, Refused):
        return CutRecord(record, length, 0, cut.tokens, "", "", 0, 0, reason)
    events = cut.record.events
    return CutRecord(
        record,
        length,
        cut.last - cut.first,
        cut.total,
        day(events[cut.first].time),
        day(events[cut.last - 1].time),
        cut.first,
        len(events) - cut.last,
        reason,
    )


def _assembled(
    cohort: Cohort,
    options: Mapping[str, Any],
    protocol: Protocol,
    cuts: tuple[CutRecord, ...],
    needles: Mapping[tuple[str, str], Needle],
    haystacks: Mapping[tuple[str, int], Haystack],
) -> NeedleCohort:
    sites = {
        site.id: site
        for record, needle in needles
        for length in options["lengths"]
        if (record, length) in haystacks
        for distractors in options["distractors"]
        for depth in options["depths"]
        for site in (Site(record, needle, length, distractors, depth),)
    }

    def needle_of(site: Site) -> Needle:
        return needles[site.record, site.needle]

    def put(site: Site) -> Placed:
        haystack = haystacks[site.record, site.length]
        depth = site.depth / 100
        return place(site.id, haystack, needle_of(site), depth, site.distractors, protocol.seed)

    placed = _Made(sites, put)

    def gold(site: Site) -> Gold:
        here, needle = placed[site.id], needle_of(site)
        order, time, token = place_of(here.record, here.span)
        snippets, spans = (needle.statement,), (here.span,)
        return Gold(site.id, needle.answer, snippets, spans, order, time, True, token)

    instructions = tuple(
        Instruction(site.id, site.id, needle_of(site).question, domain=needle_of(site).kind)
        for site in sites.values()
    )
    return NeedleCohort(
        path=cohort.path,
        format=cohort.format,
        manifest=cohort.manifest,
        records=_Made(sites, lambda site: placed[site.id].record),
        instructions=instructions,
        gold=_Made(sites, gold),
        skipped=cohort.skipped,
        warnings=cohort.warnings,
        sites=sites,
        cuts=cuts,
        needles=needles,
        placed=placed,
        haystacks=haystacks,
    )


def cut_rows(cohort: NeedleCohort) -> list[dict[str, Any]]:
    """How each record was cut to each length, as JSON values."""
    return [asdict(cut) for cut in cohort.cuts]
