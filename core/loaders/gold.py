"""Gold located on access, each answer once, and cached on disk.

Locating the evidence of a cohort means reading all its records, so it is done when a judge, a
score or a check asks. Results are cached under ``positions`` in the cache folder, keyed by the
record's content, the evidence, the algorithm's version and the protocol's score and threshold.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from pydantic import TypeAdapter

from core import config as settings
from core.errors import DataError
from core.loaders.files import LoadLog, write_atomic
from core.loaders.questions import GoldSource
from core.protocol import Protocol
from core.text import event_text
from core.text.locating import ALGORITHM, locate, place_of
from core.types import Cohort, Gold, Record, Span

_GOLD = TypeAdapter(Gold)
_SPAN = re.compile(r"\s*(\d{1,18}):(\d{1,18})-(\d{1,18})\s*")


class LazyGold(Mapping[str, Gold]):
    """Instruction id → Gold, located on access.

    A record that cannot be read leaves its gold unlocated (the cohort's ``skipped`` says why).
    Where the source gives exact spans, the first one gives the position; otherwise the
    best-matching snippet (:func:`core.text.locating.locate`), by the score and threshold of
    ``protocol`` (default: corrected). ``located``: gold whose place the format itself gives.
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

    def locate_as(self, located: Mapping[str, Gold], warnings: Iterable[str]) -> None:
        """Take over what locating every answer gave in another process, with its warnings."""
        with self._lock:
            self._located = {**located, **self._located}
        for warning in warnings:
            self._log.warn(warning)

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

    def _locate(self, source: GoldSource) -> Gold:
        gold = Gold(source.instruction_id, source.answer, source.snippets)
        try:
            record = self._records[source.record_id]
        except DataError:
            return gold
        place = f"{source.file}:{source.line}"
        if source.exact:
            spans = exact_spans(source.exact, record)
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


def gold_under(cohort: Cohort, protocol: Protocol) -> Cohort:
    """A cohort whose evidence is located as a protocol says.

    Gold with exact spans, or made by a run, is the same under every protocol.
    """
    gold = cohort.gold
    under = gold.under(protocol) if isinstance(gold, LazyGold) else gold
    return cohort if under is gold else dataclasses.replace(cohort, gold=under)


def _rule(protocol: Protocol) -> tuple[str, float]:
    return protocol.locate, protocol.locate_threshold


def exact_spans(text: str, record: Record) -> tuple[Span, ...] | None:
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


def _cache_file(record: Record, snippets: tuple[str, ...], protocol: Protocol) -> Path:
    key = hashlib.blake2b(digest_size=16)
    for part in (ALGORITHM, *map(str, _rule(protocol)), record.digest, *snippets):
        encoded = part.encode("utf-8", "surrogatepass")
        key.update(len(encoded).to_bytes(8, "big"))
        key.update(encoded)
    name = key.hexdigest()
    return settings.cache_folder() / "positions" / name[:2] / f"{name}.json"


def _located(record: Record, snippets: tuple[str, ...], protocol: Protocol) -> Gold:
    """Gold of :func:`core.text.locating.locate`, from the disk where it was computed, without the
    instruction's id, answer and snippets."""
    if not snippets:
        return Gold("", "", ())
    path = _cache_file(record, snippets, protocol)
    if path.is_file():
        with suppress(OSError, ValueError):  # damaged: computed again
            return _GOLD.validate_json(path.read_bytes())
    located = locate(record, snippets, protocol)
    order, time, token = located.place or (None, None, None)
    gold = Gold(
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
    write_atomic(path, _GOLD.dump_json(gold).decode())
    return gold
