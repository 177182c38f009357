"""How often locating evidence by its text goes wrong, measured on a cohort itself.

Where the source gives exact spans (``evidence_spans``) the truth is known; that the search refuses
what a record does not hold can be measured on any cohort of two records or more, with the evidence
of another patient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import DataError, UnknownName
from core.loaders.gold import LazyGold, exact_spans
from core.protocol import Protocol
from core.text import event_text
from core.text.evidence import decile_of, is_middle
from core.text.locating import Located, Match, locate, place_of, quotes
from core.types import Cohort, Gold, Instruction, Record, Span


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


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """Locating a question's evidence by its text, held against the spans that its source gives:
    was it ``located``, and on the right ``event``, in the right ``decile`` and ``zone`` (middle or
    edge)? All are False where it was not located."""

    located: bool
    event: bool = False
    decile: bool = False
    zone: bool = False


def check_with_source(
    gold: Mapping[str, Gold], id: str, record: Record, protocol: Protocol, position: str
) -> SourceCheck | None:
    """The check of one question's evidence, by ``position`` ("order", "time" or "token"); None
    where the source gives no exact spans, or no text to locate."""
    if not isinstance(gold, LazyGold) or id not in gold:
        return None
    source = gold.source(id)
    if not source.exact or not source.snippets:
        return None
    return _check(record, source.exact, locate(record, source.snippets, protocol), position)


def _check(record: Record, exact: str, found: Located, position: str) -> SourceCheck | None:
    spans = exact_spans(exact, record)
    if not spans:
        return None
    if found.best is None or found.place is None:
        return SourceCheck(False)
    first: Span = spans[0]
    here, there = getattr(found.place, position), getattr(place_of(record, first), position)
    event = found.best.event == first.event
    if here is None or there is None:
        same = here is there
        return SourceCheck(True, event, same, same)
    decile = decile_of(here) == decile_of(there)
    return SourceCheck(True, event, decile, is_middle(here) == is_middle(there))


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
    check = _check(record, source.exact, found, position) if source.exact else None
    if check is None:
        return
    counts.known += 1
    if not check.located:
        counts.unlocated += 1
        return
    counts.wrong_event += not check.event
    counts.wrong_decile += not check.decile
    counts.wrong_zone += not check.zone


def location_columns(gold: Gold | None, check: SourceCheck | None) -> dict[str, Any]:
    """What is known of the location of a question's evidence, as columns of a row.

    ``location_score`` and ``location_candidates`` of the best piece; ``evidence_pieces`` and how
    many of them are not in the record; ``text_located``, ``text_event``, ``text_decile`` and
    ``text_zone``: the four of :class:`SourceCheck`. What is not known is None.
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
    cohort: Cohort, instructions: Sequence[Instruction], protocol: Protocol, position: str
) -> list[dict[str, Any]]:
    """:func:`location_columns` of each question that has evidence; what cannot be read is left
    out (the cohort's ``skipped`` says why). ``cohort`` is located by ``protocol``."""
    rows: list[dict[str, Any]] = []
    for instruction in instructions:
        gold = cohort.gold.get(instruction.id)
        if gold is None or not gold.snippets:
            continue
        try:
            record = cohort.records[instruction.record_id]
        except (DataError, UnknownName):
            continue
        check = check_with_source(cohort.gold, instruction.id, record, protocol, position)
        rows.append(location_columns(gold, check))
    return rows


def _contains(record: Record, snippet: str, match: Match) -> bool:
    return bool(quotes(event_text(record.events[match.event]), snippet))
