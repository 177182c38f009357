"""Gold that is located when it is asked for, once, and remembered on disk.

Locating the evidence of a whole cohort means reading all its records, so it waits until a judge,
a score or a check asks. What was found is kept under ``positions`` in the cache folder, keyed by
the record's content, the evidence and the algorithm's version; deleting it costs time only.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core import settings
from core.errors import DataError
from core.evidence import ALGORITHM, locate, position
from core.loaders.files import write_atomic
from core.loaders.questions import GoldSource
from core.text import event_text
from core.types import Gold, Record, Span

_SPAN = re.compile(r"\s*(\d+):(\d+)-(\d+)\s*")


class LazyGold(Mapping[str, Gold]):
    """Instruction id → Gold, located on access.

    A record that cannot be read leaves its gold unlocated (the cohort's ``skipped`` says why).
    Where the source gives exact spans, the first one it lists is the decisive one and gives the
    position; otherwise the best-matching snippet does (:func:`core.evidence.locate`).
    """

    def __init__(
        self,
        sources: Mapping[str, GoldSource],
        records: Mapping[str, Record],
        warnings: list[str],
    ) -> None:
        self._sources, self._records, self._warnings = sources, records, warnings
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

    def _make(self, source: GoldSource) -> Gold:
        try:
            record = self._records[source.record_id]
        except DataError:
            return Gold(source.instruction_id, source.answer, source.snippets)
        if source.exact:
            spans = exact_spans(source.exact, record)
            if spans:
                ordered = tuple(sorted(spans, key=lambda s: (s.event, s.start, s.end)))
                return _gold(source, ordered, position(record, spans[0].event), exact=True)
            self._warnings.append(
                f"{source.file}:{source.line}: evidence_spans do not lie within events "
                "— write order:start-end, joined by |||; the evidence was located by its text"
            )
        found = _remembered(record, source.snippets)
        spans = tuple(Span(*span) for span in found["spans"])
        missing = found["unlocated"]
        if missing:
            self._warnings.append(
                f"{source.file}:{source.line}: {missing} of {len(source.snippets)} pieces of "
                "evidence were not found in the record — check that they are quoted from it"
            )
        return _gold(source, spans, (found["order"], found["time"]), exact=False)


def _gold(
    source: GoldSource,
    spans: tuple[Span, ...],
    where: tuple[float | None, float | None],
    exact: bool,
) -> Gold:
    return Gold(source.instruction_id, source.answer, source.snippets, spans, *where, exact)


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


def _cache_file(record: Record, snippets: tuple[str, ...]) -> Path:
    key = hashlib.blake2b(digest_size=16)
    for part in (ALGORITHM, record.digest, *snippets):
        encoded = part.encode("utf-8", "surrogatepass")
        key.update(len(encoded).to_bytes(8, "big"))
        key.update(encoded)
    name = key.hexdigest()
    return settings.cache_folder() / "positions" / name[:2] / f"{name}.json"


def _valid(found: Any) -> bool:
    return isinstance(found, dict) and {"spans", "order", "time", "unlocated"} <= found.keys()


def _remembered(record: Record, snippets: tuple[str, ...]) -> dict[str, Any]:
    """What :func:`core.evidence.locate` says, from the disk where it was asked before."""
    if not snippets:
        return {"spans": [], "order": None, "time": None, "unlocated": 0}
    path = _cache_file(record, snippets)
    if path.is_file():
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None  # a damaged cache entry is made again below
        if _valid(found):
            return found
    located = locate(record, snippets)
    made = {
        "spans": [[span.event, span.start, span.end] for span in located.spans],
        "order": located.order,
        "time": located.time,
        "unlocated": located.unlocated,
    }
    write_atomic(path, json.dumps(made))
    return made
