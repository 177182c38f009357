"""Gold located on access, each answer once; errors of locating it.

Locating the evidence of a cohort means reading all its records, so it is done when a judge, a score
or a check asks. What a search gives is in the chart store (:mod:`midchart.core.charts`).

Where the source gives exact spans (``evidence_spans``) the truth is known. Whether the search
refuses text that a record does not contain is measured on any cohort of two records or more, with
the evidence of another patient.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

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
    locate_rule,
    place_of,
    quotes,
)
from midchart.core.types import Cohort, Gold, Instruction, Record

T = TypeVar("T")


class LazyValues(Mapping[str, T]):
    """Values by id, computed on access; the last ``cached`` are kept (None: all)."""

    def __init__(
        self, ids: Iterable[str], compute: Callable[[str], T], cached: int | None = 4
    ) -> None:
        self._ids = dict.fromkeys(ids)
        self._compute = lru_cache(maxsize=cached)(compute)

    def __getitem__(self, id: str) -> T:
        if id not in self._ids:
            raise KeyError(id)
        return self._compute(id)

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class LazyGold(LazyValues[Gold]):
    """Instruction id → Gold, located on access.

    A record that cannot be read leaves its gold unlocated (the cohort's ``skipped`` says why).
    Where the source gives spans, the first one gives the position; otherwise the best-matching
    snippet (:func:`midchart.core.text.evidence.locate`), by the score and threshold of ``protocol``
    (default: corrected).
    """

    def __init__(
        self,
        sources: Mapping[str, GoldSource],
        records: Mapping[str, Record],
        log: LoadLog,
        protocol: Protocol | None = None,
    ) -> None:
        super().__init__(sources, self._gold, cached=None)
        self.sources, self._records, self._log = sources, records, log
        self._protocol = protocol or Protocol()

    def under(self, protocol: Protocol) -> LazyGold:
        """The same gold, located by a protocol's score and threshold."""
        if locate_rule(protocol) == locate_rule(self._protocol):
            return self
        return LazyGold(self.sources, self._records, self._log, protocol)

    def joined(self, sources: Mapping[str, GoldSource]) -> LazyGold:
        """The same gold with further sources."""
        return LazyGold({**self.sources, **sources}, self._records, self._log, self._protocol)

    def _gold(self, id: str) -> Gold:
        source = self.sources[id]
        try:
            record = self._records[source.record_id]
        except DataError:
            return Gold(id, source.answer, source.snippets)
        texts = _texts_at(source, record)
        place = f"{source.file}:{source.line}"
        if texts and source.spans and not (source.verbatim and texts != source.snippets):
            order, time, token = place_of(record, source.spans[0])
            spans = tuple(sorted(source.spans, key=lambda s: (s.event, s.start, s.end)))
            snippets = source.snippets or tuple(text.strip() for text in texts)
            return Gold(id, source.answer, snippets, spans, order, time, source.exact, token)
        if source.exact and source.spans == ():
            return Gold(id, source.answer, exact=True)  # there is none, as the source says
        if source.spans != ():
            self._log.warn(
                f"{place}: evidence_spans do not lie within events, or the record changed since "
                "they were marked — write order:start-end, joined by |||; the evidence was "
                "located by its text"
            )
        gold = located_gold(id, source.answer, source.snippets, record, self._protocol)
        if gold.unlocated:
            self._log.warn(
                f"{place}: {gold.unlocated} of {len(source.snippets)} pieces of evidence were "
                "not found in the record — check that they are quoted from it"
            )
        return gold


def sources_of(gold: Mapping[str, Gold]) -> Mapping[str, GoldSource]:
    """What the files of a cohort say of its gold, by instruction; none of gold made by a run."""
    return gold.sources if isinstance(gold, LazyGold) else {}


def located_gold(
    id: str, answer: str, snippets: tuple[str, ...], record: Record, protocol: Protocol
) -> Gold:
    """The gold of an instruction whose evidence is located by its texts."""
    located = locate(record, snippets, protocol)
    order, time, token = located.place or (None, None, None)
    best = located.best
    return Gold(
        id,
        answer,
        snippets,
        located.spans,
        order,
        time,
        token=token,
        score=best and best.score,
        candidates=best and best.candidates,
        unlocated=located.unlocated,
    )


@needs("viewer")
def gold_under(cohort: Cohort, protocol: Protocol) -> Cohort:
    """A cohort whose evidence is located as a protocol says.

    Gold with exact spans, or made by a run, is the same under every protocol.
    """
    gold = cohort.gold
    under = gold.under(protocol) if isinstance(gold, LazyGold) else gold
    return cohort if under is gold else dataclasses.replace(cohort, gold=under)


def _texts_at(source: GoldSource, record: Record) -> tuple[str, ...] | None:
    """The texts of a source's spans; None unless all are within events."""
    texts: list[str] = []
    for span in source.spans or ():
        text = event_text(record.events[span.event]) if span.event < len(record.events) else ""
        if not span.start < span.end <= len(text):
            return None
        texts.append(text[span.start : span.end])
    return tuple(texts)


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
    asked: dict[str, list[GoldSource]] = {}
    for source in sources_of(cohort.gold).values():
        if source.snippets:
            asked.setdefault(source.record_id, []).append(source)
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
            counts.update(
                _errors(record, source, locate(record, source.snippets, protocol), position)
            )
        for source in asked[ids[(number + len(ids) // 2) % len(ids)]] if len(ids) > 1 else ():
            located = locate(record, source.snippets, protocol)
            counts["foreign"] += len(located.matches)
            counts["foreign_refused"] += located.unlocated
    rule = {"score": protocol.locate, "threshold": protocol.locate_threshold}
    return {**counts, **rule, "position": position}


def _errors(record: Record, source: GoldSource, located: Located, position: str) -> dict[str, int]:
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
    check = _checks(source, record, located).get(position)
    if check is not None:
        counts |= {"known": 1, "unlocated": not check["located"]}
        for part in ("event", "decile", "zone"):
            counts[f"wrong_{part}"] = check["located"] and not check[part]
    return counts


_PARTS = ("located", "event", "decile", "zone")
Check = Mapping[str, bool]
"""How evidence located by its text compares with the spans that its source gives: whether it was
``located``, in the right ``event``, ``decile`` and ``zone`` (middle or edge); all are False where
it was not located."""


def check_with_source(
    gold: Mapping[str, Gold], id: str, record: Record, protocol: Protocol
) -> Mapping[str, Check]:
    """The check of one question's evidence by position ("order", "time", "token"); none where the
    source gives no exact spans, or no text to locate."""
    source = sources_of(gold).get(id)
    if source is None or not source.snippets or not source.spans:
        return {}
    return _checks(source, record, locate(record, source.snippets, protocol))


def _checks(source: GoldSource, record: Record, located: Located) -> dict[str, Check]:
    if not source.spans or not _texts_at(source, record):
        return {}
    true = place_of(record, source.spans[0])
    checks: dict[str, Check] = {}
    for position in true._fields:
        at = getattr(true, position)
        if located.best is None or located.place is None:
            checks[position] = dict.fromkeys(_PARTS, False)
            continue
        place = getattr(located.place, position)
        alike = {"decile": place is at, "zone": place is at}
        if place is not None and at is not None:
            alike = {"decile": decile_of(place) == decile_of(at),
                     "zone": is_middle(place) == is_middle(at)}  # fmt: skip
        event = located.best.event == source.spans[0].event
        checks[position] = {"located": True, "event": event, **alike}
    return checks


def location_columns(gold: Gold | None, check: Check | None) -> dict[str, Any]:
    """What is known of the location of a question's evidence, as columns of a row.

    ``location_score`` and ``location_candidates`` of the best piece; ``evidence_pieces`` and how
    many of them are not in the record; ``text_located``, ``text_event``, ``text_decile`` and
    ``text_zone`` of a :data:`Check`. Unknown values are None.
    """
    return {
        "location_score": gold.score if gold else None,
        "location_candidates": gold.candidates if gold else None,
        "evidence_pieces": len(gold.snippets) if gold else None,
        "evidence_unlocated": gold.unlocated if gold else None,
        **{f"text_{name}": check[name] if check else None for name in _PARTS},
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
        checks = check_with_source(cohort.gold, instruction.id, record, protocol)
        for position in positions:
            rows[position].append(location_columns(gold, checks.get(position)))
    return rows
