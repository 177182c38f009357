"""Gold located on access, each answer once; errors of locating it.

Locating the evidence of a cohort means reading all its records, so it is done when a judge, a score
or a check asks. What a search gives is in the chart store (:mod:`midchart.core.charts`).

Where the source gives exact spans (``evidence_spans``) the truth is known. Whether the search
refuses text that a record does not contain is measured on any cohort of two records or more, with
the evidence of another patient.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from midchart.core.access import needs
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.records import GoldSource
from midchart.core.errors import DataError, UnknownName
from midchart.core.protocol import Protocol
from midchart.core.text import event_text
from midchart.core.text.evidence import (
    Located,
    decile_of,
    is_middle,
    locate,
    place_of,
    quotes,
)
from midchart.core.types import Cohort, Gold, Instruction, Record, Span

_SPAN = re.compile(r"\s*(\d{1,18}):(\d{1,18})-(\d{1,18})\s*")


class LazyGold(Mapping[str, Gold]):
    """Instruction id → Gold, located on access.

    A record that cannot be read leaves its gold unlocated (the cohort's ``skipped`` says why).
    Where the source gives exact spans, the first one gives the position; otherwise the
    best-matching snippet (:func:`midchart.core.text.evidence.locate`), by the score and threshold
    of ``protocol`` (default: corrected). ``located``: gold whose place the format itself gives.
    """

    def __init__(
        self,
        sources: Mapping[str, GoldSource],
        records: Mapping[str, Record],
        log: LoadLog,
        protocol: Protocol | None = None,
        located: Mapping[str, Gold] | None = None,
    ) -> None:
        self._sources, self._records, self._log = sources, records, log
        self._protocol = protocol or Protocol()
        self._given = located or {}
        self._located: dict[str, Gold] = dict(self._given)
        self._lock = threading.RLock()

    def __getitem__(self, id: str) -> Gold:
        with self._lock:
            if id not in self._located:
                self._located[id] = self._locate(self._sources[id])
            return self._located[id]

    def __contains__(self, id: object) -> bool:
        return id in self._sources or id in self._given

    def __iter__(self) -> Iterator[str]:
        return chain(self._given, self._sources)

    def __len__(self) -> int:
        return len(self._given) + len(self._sources)

    def under(self, protocol: Protocol) -> LazyGold:
        """The same gold, located by a protocol's score and threshold."""
        if _rule(protocol) == _rule(self._protocol):
            return self
        return LazyGold(self._sources, self._records, self._log, protocol, self._given)

    def joined(self, sources: Mapping[str, GoldSource]) -> LazyGold:
        """The same gold with further sources."""
        joined = LazyGold(
            {**self._sources, **sources}, self._records, self._log, self._protocol, self._given
        )
        joined._located = {**self._located, **joined._located}
        return joined

    @property
    def sources(self) -> Mapping[str, GoldSource]:
        """The answers in the cohort's files whose evidence is located here."""
        return self._sources

    @property
    def stated(self) -> Mapping[str, Gold]:
        """The gold whose place the format itself gives."""
        return self._given

    def _locate(self, source: GoldSource) -> Gold:
        gold = Gold(source.instruction_id, source.answer, source.snippets)
        try:
            record = self._records[source.record_id]
        except DataError:
            return gold
        place = f"{source.file}:{source.line}"
        if source.exact:
            spans = _exact_spans(source.exact, record)
            if spans and source.verbatim:
                texts = (event_text(record.events[s.event])[s.start : s.end] for s in spans)
                spans = spans if tuple(texts) == source.snippets else None
            if spans:
                ordered = tuple(sorted(spans, key=lambda s: (s.event, s.start, s.end)))
                order, time, token = place_of(record, spans[0])
                return dataclasses.replace(
                    gold, spans=ordered, order=order, time=time, exact=True, token=token
                )
            self._log.warn(
                f"{place}: evidence_spans do not lie within events, or the record changed since "
                "they were marked — write order:start-end, joined by |||; the evidence was "
                "located by its text"
            )
        located = _located(record, source.snippets, self._protocol)
        if located.unlocated:
            self._log.warn(
                f"{place}: {located.unlocated} of {len(source.snippets)} pieces of evidence were "
                "not found in the record — check that they are quoted from it"
            )
        return dataclasses.replace(
            located,
            instruction_id=gold.instruction_id,
            answer=gold.answer,
            snippets=gold.snippets,
        )


@needs("viewer")
def gold_under(cohort: Cohort, protocol: Protocol) -> Cohort:
    """A cohort whose evidence is located as a protocol says.

    Gold with exact spans, or made by a run, is the same under every protocol.
    """
    gold = cohort.gold
    under = gold.under(protocol) if isinstance(gold, LazyGold) else gold
    return cohort if under is gold else dataclasses.replace(cohort, gold=under)


def _rule(protocol: Protocol) -> tuple[str, float]:
    return protocol.locate, protocol.locate_threshold


def _exact_spans(text: str, record: Record) -> tuple[Span, ...] | None:
    """Spans written as ``order:start-end|||…``, as listed; None unless all are within events."""
    spans: dict[Span, None] = {}
    for part in text.split("|||"):
        match = _SPAN.fullmatch(part)
        if match is None:
            return None
        span = Span(*map(int, match.groups()))
        if span.event >= len(record.events) or span.start >= span.end:
            return None
        if span.end > len(event_text(record.events[span.event])):
            return None
        spans[span] = None
    return tuple(spans)


def _located(record: Record, snippets: tuple[str, ...], protocol: Protocol) -> Gold:
    """Gold of :func:`core.text.evidence.locate`, without the instruction's id, answer and
    snippets."""
    located = locate(record, snippets, protocol)
    order, time, token = located.place or (None, None, None)
    return Gold(
        "",
        "",
        (),
        located.spans,
        order,
        time,
        token=token,
        score=None if located.best is None else located.best.score,
        candidates=None if located.best is None else located.best.candidates,
        unlocated=located.unlocated,
    )


COUNTS = (
    *("pieces", "located", "containing", "several", "foreign", "foreign_refused"),
    *("known", "unlocated", "wrong_event", "wrong_decile", "wrong_zone"),
)


def locator_errors(
    cohort: Cohort,
    protocol: Protocol,
    position: str = "order",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any] | None:
    """How often evidence is located, and where, under a protocol; None without such evidence.

    Of all ``pieces`` of evidence: ``located``, those ``containing`` (the event quotes the piece
    verbatim), and those with ``several`` equally good candidates. ``foreign``: pieces of another
    patient (half the cohort further on) searched in each record, ``foreign_refused`` of them not
    found. Of the questions whose source gives exact spans (``known``): ``unlocated``, and, by the
    first span, ``wrong_event``, ``wrong_decile`` and ``wrong_zone`` (middle or edge), by
    ``position`` ("order", "time" or "token"), as counts of the located. ``progress`` is called
    with the records done and planned.
    """
    sources = cohort.gold.sources if isinstance(cohort.gold, LazyGold) else {}
    asked: dict[str, list[GoldSource]] = {}
    for instruction in cohort.instructions:
        source = sources.get(instruction.id)
        if source is not None and source.snippets:
            asked.setdefault(instruction.record_id, []).append(source)
    if not asked:
        return None
    counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
    ids = list(asked)
    for number, id in enumerate(ids):
        if progress is not None:
            progress(number, len(ids))
        try:
            record = cohort.records[id]
        except DataError:
            continue  # it is among cohort.skipped now
        for source in asked[id]:
            counts.update(_errors(record, source, protocol, position))
        for source in asked[ids[(number + len(ids) // 2) % len(ids)]] if len(ids) > 1 else ():
            located = locate(record, source.snippets, protocol)
            counts["foreign"] += len(located.matches)
            counts["foreign_refused"] += located.unlocated
    rule = {"score": protocol.locate, "threshold": protocol.locate_threshold}
    return {**counts, **rule, "position": position}


def _errors(
    record: Record, source: GoldSource, protocol: Protocol, position: str
) -> dict[str, int]:
    located = locate(record, source.snippets, protocol)
    matched = [
        (match, bool(quotes(event_text(record.events[match.event]), snippet)))
        for snippet, match in zip(source.snippets, located.matches, strict=True)
        if match is not None
    ]
    counts = {
        "pieces": len(source.snippets),
        "located": len(matched),
        "several": sum(match.candidates > 1 for match, _ in matched),
        "containing": sum(verbatim for _, verbatim in matched),
    }
    check = _check(record, source.exact, located, position) if source.exact else None
    if check is not None:
        counts |= {"known": 1, "unlocated": not check.located}
        for part in ("event", "decile", "zone"):
            counts[f"wrong_{part}"] = check.located and not getattr(check, part)
    return counts


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """Evidence located by its text, compared with the spans that its source gives.

    Whether it was ``located``, in the right ``event``, ``decile`` and ``zone`` (middle or edge);
    all are False where it was not located.
    """

    located: bool
    event: bool = False
    decile: bool = False
    zone: bool = False


def check_with_source(
    gold: Mapping[str, Gold], id: str, record: Record, protocol: Protocol, positions: Sequence[str]
) -> list[SourceCheck | None]:
    """The check of one question's evidence by each of ``positions`` ("order", "time" or "token");
    None where the source gives no exact spans, or no text to locate."""
    source = gold.sources.get(id) if isinstance(gold, LazyGold) else None
    if source is None or not source.exact or not source.snippets:
        return [None] * len(positions)
    located = locate(record, source.snippets, protocol)
    return [_check(record, source.exact, located, position) for position in positions]


def _check(record: Record, exact: str, location: Located, position: str) -> SourceCheck | None:
    spans = _exact_spans(exact, record)
    if not spans:
        return None
    if location.best is None or location.place is None:
        return SourceCheck(False)
    located, true = getattr(location.place, position), getattr(place_of(record, spans[0]), position)
    event = location.best.event == spans[0].event
    if located is None or true is None:
        return SourceCheck(True, event, located is true, located is true)
    decile = decile_of(located) == decile_of(true)
    return SourceCheck(True, event, decile, is_middle(located) == is_middle(true))


def location_columns(gold: Gold | None, check: SourceCheck | None) -> dict[str, Any]:
    """What is known of the location of a question's evidence, as columns of a row.

    ``location_score`` and ``location_candidates`` of the best piece; ``evidence_pieces`` and how
    many of them are not in the record; ``text_located``, ``text_event``, ``text_decile`` and
    ``text_zone`` of :class:`SourceCheck`. Unknown values are None.
    """
    names = ("located", "event", "decile", "zone")
    return {
        "location_score": gold.score if gold else None,
        "location_candidates": gold.candidates if gold else None,
        "evidence_pieces": len(gold.snippets) if gold else None,
        "evidence_unlocated": gold.unlocated if gold else None,
        **{f"text_{name}": getattr(check, name) if check else None for name in names},
    }


def evidence_locations(
    cohort: Cohort,
    instructions: Sequence[Instruction],
    protocol: Protocol,
    positions: Sequence[str],
) -> dict[str, list[dict[str, Any]]]:
    """By position, :func:`location_columns` of each question with evidence and a readable record.

    ``cohort`` is located by ``protocol``.
    """
    rows: dict[str, list[dict[str, Any]]] = {position: [] for position in positions}
    for instruction in instructions:
        gold = cohort.gold.get(instruction.id)
        if gold is None or not gold.snippets:
            continue
        try:
            record = cohort.records[instruction.record_id]
        except (DataError, UnknownName):
            continue
        checks = check_with_source(cohort.gold, instruction.id, record, protocol, positions)
        for position, check in zip(positions, checks, strict=True):
            rows[position].append(location_columns(gold, check))
    return rows
