"""Errors of locating evidence by its text, measured on a cohort.

Where the source gives exact spans (``evidence_spans``) the truth is known. Whether the search
refuses text that a record does not contain is measured on any cohort of two records or more, with
the evidence of another patient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import DataError, UnknownName
from core.loaders.gold import LazyGold, exact_spans
from core.protocol import Protocol
from core.text import event_text
from core.text.evidence import decile_of, is_middle
from core.text.locating import Located, locate, place_of, quotes
from core.types import Cohort, Gold, Instruction, Record

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
    gold = cohort.gold
    if not isinstance(gold, LazyGold):
        return None
    by_record: dict[str, list[str]] = {}
    for instruction in cohort.instructions:
        if instruction.id in gold.sources and gold.sources[instruction.id].snippets:
            by_record.setdefault(instruction.record_id, []).append(instruction.id)
    if not by_record:
        return None
    counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
    ids = list(by_record)
    for number, id in enumerate(ids):
        if progress is not None:
            progress(number, len(ids))
        try:
            record = cohort.records[id]
        except DataError:
            continue  # it is among cohort.skipped now
        for instruction_id in by_record[id]:
            counts.update(_errors(record, instruction_id, gold, protocol, position))
        if len(ids) > 1:
            for instruction_id in by_record[ids[(number + len(ids) // 2) % len(ids)]]:
                located = locate(record, gold.sources[instruction_id].snippets, protocol)
                counts["foreign"] += len(located.matches)
                counts["foreign_refused"] += located.unlocated
    return {
        **counts,
        "score": protocol.locate,
        "threshold": protocol.locate_threshold,
        "position": position,
    }


def _errors(
    record: Record, id: str, gold: LazyGold, protocol: Protocol, position: str
) -> Counter[str]:
    source = gold.sources[id]
    located = locate(record, source.snippets, protocol)
    counts: Counter[str] = Counter(pieces=len(source.snippets))
    for snippet, match in zip(source.snippets, located.matches, strict=True):
        if match is not None:
            verbatim = bool(quotes(event_text(record.events[match.event]), snippet))
            counts.update(located=1, several=match.candidates > 1, containing=verbatim)
    check = _check(record, source.exact, located, position) if source.exact else None
    if check is not None:
        counts.update(known=1, unlocated=not check.located)
        if check.located:
            counts.update(
                wrong_event=not check.event,
                wrong_decile=not check.decile,
                wrong_zone=not check.zone,
            )
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
    spans = exact_spans(exact, record)
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
