"""Gold that is located when it is asked for, once, and remembered on disk.

Locating the evidence of a whole cohort means reading all its records, so it waits until a judge,
a score or a check asks. What was found is kept under ``positions`` in the cache folder, keyed by
the record's content, the evidence, the algorithm's version and the protocol's choice of score and
threshold; deleting it costs time only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from core import config as settings
from core.errors import DataError
from core.loaders.files import write_atomic
from core.loaders.questions import GoldSource
from core.protocol import Protocol
from core.text import event_text
from core.text.locating import ALGORITHM, Place, locate, place_of
from core.types import Cohort, Gold, Record, Span

_SPAN = re.compile(r"\s*(\d+):(\d+)-(\d+)\s*")


class LazyGold(Mapping[str, Gold]):
    """Instruction id → Gold, located on access.

    A record that cannot be read leaves its gold unlocated (the cohort's ``skipped`` says why).
    Where the source gives exact spans, the first one it lists is the decisive one and gives the
    position; otherwise the best-matching snippet does (:func:`core.text.locating.locate`), by the
    score
    and threshold of ``protocol`` (default: the corrected ones).
    """

    def __init__(
        self,
        sources: Mapping[str, GoldSource],
        records: Mapping[str, Record],
        warnings: list[str],
        protocol: Protocol | None = None,
    ) -> None:
        self._sources, self._records, self._warnings = sources, records, warnings
        self._protocol = protocol or Protocol()
        self._made: dict[str, Gold] = {}
        self._lock = threading.RLock()

    def __getitem__(self, id: str) -> Gold:
        source = self._sources[id]
        with self._lock:
            if id not in self._made:
                self._made[id] = self._make(source)
            return self._made[id]

    def __contains__(self, id: object) -> bool:
        return id in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def under(self, protocol: Protocol) -> LazyGold:
        """The same gold, located by a protocol's score and threshold."""
        if _rule(protocol) == _rule(self._protocol):
            return self
        return LazyGold(self._sources, self._records, self._warnings, protocol)

    def source(self, id: str) -> GoldSource:
        """What the cohort's files say of an instruction's answer."""
        return self._sources[id]

    def _warn(self, source: GoldSource, what: str) -> None:
        warning = f"{source.file}:{source.line}: {what}"
        if warning not in self._warnings:
            self._warnings.append(warning)

    def _make(self, source: GoldSource) -> Gold:
        try:
            record = self._records[source.record_id]
        except DataError:
            return Gold(source.instruction_id, source.answer, source.snippets)
        if source.exact:
            spans = exact_spans(source.exact, record)
            if spans:
                ordered = tuple(sorted(spans, key=lambda s: (s.event, s.start, s.end)))
                order, time, token = place_of(record, spans[0])
                id, answer, snippets = source.instruction_id, source.answer, source.snippets
                return Gold(id, answer, snippets, ordered, order, time, True, token)
            self._warn(
                source,
                "evidence_spans do not lie within events "
                "— write order:start-end, joined by |||; the evidence was located by its text",
            )
        found = _remembered(record, source.snippets, self._protocol)
        if found.missing:
            self._warn(
                source,
                f"{found.missing} of {len(source.snippets)} pieces of "
                "evidence were not found in the record — check that they are quoted from it",
            )
        return found.gold(source)


def gold_under(cohort: Cohort, protocol: Protocol) -> Cohort:
    """A cohort whose evidence is located as a protocol says.

    Gold whose spans its source gives, or a run made, is the same under every protocol.
    """
    gold = cohort.gold
    under = gold.under(protocol) if isinstance(gold, LazyGold) else gold
    return cohort if under is gold else dataclasses.replace(cohort, gold=under)


def _rule(protocol: Protocol) -> tuple[str, float]:
    return protocol.locate, protocol.locate_threshold


def exact_spans(text: str, record: Record) -> tuple[Span, ...] | None:
    """Spans written as ``order:start-end|||…``, as listed; None unless all lie in events."""
    spans: dict[tuple[int, int, int], Span] = {}
    for part in text.split("|||"):
        match = _SPAN.fullmatch(part)
        if match is None:
            return None
        event, start, end = map(int, match.groups())
        if event >= len(record.events) or start >= end:
            return None
        if end > len(event_text(record.events[event])):
            return None
        spans[event, start, end] = Span(event, start, end)
    return tuple(spans.values())


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of a question's evidence, as the cache keeps it."""

    spans: tuple[Span, ...]
    missing: int
    place: Place | None
    score: float | None
    candidates: int | None

    def gold(self, source: GoldSource) -> Gold:
        order, time, token = self.place or (None, None, None)
        return Gold(
            source.instruction_id, source.answer, source.snippets, self.spans, order, time, False,
            token, self.score, self.candidates, self.missing,
        )  # fmt: skip

    def json(self) -> str:
        return json.dumps(
            {
                "spans": [[span.event, span.start, span.end] for span in self.spans],
                "missing": self.missing,
                "place": self.place,
                "score": self.score,
                "candidates": self.candidates,
            }
        )

    @staticmethod
    def read(text: str) -> _Found:
        """Raises ValueError, TypeError or KeyError for what :meth:`json` did not write."""
        held = json.loads(text)
        spans = tuple(Span(*map(int, span)) for span in held["spans"])
        place = None if held["place"] is None else Place(*held["place"])
        return _Found(spans, int(held["missing"]), place, held["score"], held["candidates"])


def _cache_file(record: Record, snippets: tuple[str, ...], protocol: Protocol) -> Path:
    key = hashlib.blake2b(digest_size=16)
    for part in (ALGORITHM, *map(str, _rule(protocol)), record.digest, *snippets):
        encoded = part.encode("utf-8", "surrogatepass")
        key.update(len(encoded).to_bytes(8, "big"))
        key.update(encoded)
    name = key.hexdigest()
    return settings.cache_folder() / "positions" / name[:2] / f"{name}.json"


def _remembered(record: Record, snippets: tuple[str, ...], protocol: Protocol) -> _Found:
    """What :func:`core.text.locating.locate` finds, from the disk where it was asked before."""
    if not snippets:
        return _Found((), 0, None, None, None)
    path = _cache_file(record, snippets, protocol)
    if path.is_file():
        with suppress(OSError, ValueError, TypeError, KeyError):  # damaged: made again below
            return _Found.read(path.read_text(encoding="utf-8"))
    located = locate(record, snippets, protocol)
    best = located.best
    made = _Found(
        located.spans,
        located.unlocated,
        located.place,
        None if best is None else best.score,
        None if best is None else best.candidates,
    )
    write_atomic(path, made.json())
    return made
