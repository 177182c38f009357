"""How often locating evidence by its text goes wrong, measured on a cohort itself.

Where the source gives exact spans (``evidence_spans``) the truth is known; that the search refuses
what a record does not hold can be measured on any cohort of two records or more, with the evidence
of another patient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.errors import DataError
from core.evidence import decile_of, is_middle
from core.loaders.gold import LazyGold, exact_spans
from core.locating import Match, locate, place_of, quotes
from core.protocol import Protocol
from core.text import event_text
from core.types import Cohort, Record, Span


@dataclass(slots=True)
class _Counts:
    """Pieces of evidence, and questions of which the truth is known."""

    pieces: int = 0
    located: int = 0
    containing: int = 0
    several: int = 0
    foreign: int = 0
    foreign_refused: int = 0
    known: int = 0
    unlocated: int = 0
    wrong_event: int = 0
    wrong_decile: int = 0
    wrong_zone: int = 0


def locator_errors(
    cohort: Cohort,
    protocol: Protocol,
    position: str = "order",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any] | None:
    """How often evidence is located, and where, under a protocol; None without such evidence.

    Of all ``pieces`` of evidence: ``located``, those ``containing`` (the event quotes the piece
    verbatim), and those at ``several`` places that match equally well. ``foreign``: pieces of
    another patient (half the cohort further on) looked for in each record, ``foreign_refused`` of
    them not found. Of the questions whose source gives exact spans (``known``): ``unlocated``,
    and, by the first span listed, ``wrong_event``, ``wrong_decile`` and ``wrong_zone`` (middle or
    edge), by ``position`` ("order", "time" or "token"); they are counts of the located.
    ``progress`` is given how many records are done and planned.
    """
    gold = cohort.gold
    if not isinstance(gold, LazyGold):
        return None
    by_record: dict[str, list[str]] = {}
    for instruction in cohort.instructions:
        if instruction.id in gold and gold.source(instruction.id).snippets:
            by_record.setdefault(instruction.record_id, []).append(instruction.id)
    if not by_record:
        return None
    counts = _Counts()
    ids = list(by_record)
    for number, id in enumerate(ids):
        if progress is not None:
            progress(number, len(ids))
        try:
            record = cohort.records[id]
        except DataError:
            continue  # it is among cohort.skipped now
        for asked in by_record[id]:
            _own(record, asked, gold, protocol, position, counts)
        if len(ids) > 1:
            for asked in by_record[ids[(number + len(ids) // 2) % len(ids)]]:
                found = locate(record, gold.source(asked).snippets, protocol)
                counts.foreign += len(found.matches)
                counts.foreign_refused += found.unlocated
    return {name: getattr(counts, name) for name in counts.__slots__} | {
        "score": protocol.locate,
        "threshold": protocol.locate_threshold,
        "position": position,
    }


def _own(
    record: Record, id: str, gold: LazyGold, protocol: Protocol, position: str, counts: _Counts
) -> None:
    source = gold.source(id)
    found = locate(record, source.snippets, protocol)
    for snippet, match in zip(source.snippets, found.matches, strict=True):
        counts.pieces += 1
        if match is not None:
            counts.located += 1
            counts.several += match.candidates > 1
            counts.containing += _contains(record, snippet, match)
    spans = exact_spans(source.exact, record) if source.exact else None
    if not spans:
        return
    counts.known += 1
    if found.best is None or found.place is None:
        counts.unlocated += 1
        return
    first: Span = spans[0]
    here, there = getattr(found.place, position), getattr(place_of(record, first), position)
    counts.wrong_event += found.best.event != first.event
    if here is None or there is None:
        wrong = here is not there
        counts.wrong_decile += wrong
        counts.wrong_zone += wrong
    else:
        counts.wrong_decile += decile_of(here) != decile_of(there)
        counts.wrong_zone += is_middle(here) != is_middle(there)


def _contains(record: Record, snippet: str, match: Match) -> bool:
    return bool(quotes(event_text(record.events[match.event]), snippet))
