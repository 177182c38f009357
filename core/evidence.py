"""Where a record says the answer: positions, located evidence, gold sentences, lexical hits.

Two positions exist and are never mixed. *Order* is an event's index over all events divided by
n − 1; *time* is the share of the span between the first and the last dated event that had
elapsed (PROTOCOL, Units and positions). Evidence arrives as text snippets; :func:`locate` finds
the event each one best matches and the characters in it. The plain version of the search is
``tests/reference/evidence.py``; the one here prunes by upper bounds and gives the same result.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from core.text import content_words, count_tokens, cut_note, event_text, words
from core.types import BANDS, MIDDLE, ContextLine, Record, Sentence, Span

SHARE_WEIGHT, RATIO_WEIGHT = 0.6, 0.4
LEAST_SCORE = 0.2
SNIPPET_HEAD, TEXT_HEAD = 200, 500
"""Characters of snippet and text that difflib compares (PROTOCOL, Units and positions)."""
WINDOW = 1.5
"""Longest window around evidence that does not stand verbatim, in lengths of the evidence."""
ALGORITHM = "locate-3"
"""Changes whenever the outcome of :func:`locate` would; caches on disk are keyed by it."""
LEAST_SHOWN = 0.5
"""Share of a sentence's evidence from which on a line that shows it in part holds it."""

_EDGES = [i / 10 for i in range(1, 10)]
_BINS = 128


@dataclass(frozen=True, slots=True)
class Match:
    """A snippet's best event: its order, its score in [0.2, 1], and the characters in it."""

    event: int
    score: float
    span: Span


@dataclass(frozen=True, slots=True)
class Located:
    """What :func:`locate` found.

    ``matches`` has one entry a snippet (None: unlocated); ``spans`` are theirs, in record order,
    without repeats; ``order`` and ``time`` are the positions of the best-scored match.
    """

    matches: tuple[Match | None, ...]
    spans: tuple[Span, ...]
    order: float | None
    time: float | None

    @property
    def unlocated(self) -> int:
        """Snippets that no event matches well enough."""
        return sum(match is None for match in self.matches)


def positions(record: Record) -> tuple[NDArray[np.float64], list[float | None]]:
    """Order position float[n] and time position (None for an undated event) of every event.

    Order is index/(n−1), 0 for a lone event. Time is the share elapsed between the first and
    the last dated event, 0 where they are the same moment (PROTOCOL, Units and positions).
    """
    n = len(record.events)
    order = np.arange(n, dtype=np.float64) / max(n - 1, 1)
    dated = [event.time for event in record.events if event.time is not None]
    if not dated:
        return order, [None] * n
    first = min(dated)
    length = (max(dated) - first).total_seconds()
    share = [
        None if e.time is None else (e.time - first).total_seconds() / length if length else 0.0
        for e in record.events
    ]
    return order, share


def position(record: Record, event_order: int) -> tuple[float, float | None]:
    """Order and time position of one event; raises IndexError where there is no such event."""
    if not 0 <= event_order < len(record.events):
        raise IndexError(f"record {record.id} has no event {event_order}")
    return _index(record).position(event_order)


class _Index:
    """What every search in one record shares: texts, postings of words, character counts."""

    def __init__(self, record: Record) -> None:
        self.texts = [event_text(event) for event in record.events]
        self.order, self.time = positions(record)
        postings: dict[str, list[int]] = {}
        self.counts = np.zeros((len(self.texts), _BINS), dtype=np.int32)
        self.lengths = np.array([min(len(t), TEXT_HEAD) for t in self.texts], dtype=np.float64)
        for i, text in enumerate(self.texts):
            for word in _distinct_words(text):
                postings.setdefault(word, []).append(i)
            self.counts[i] = _character_counts(text[:TEXT_HEAD])
        self.postings = {word: np.array(where) for word, where in postings.items()}

    def position(self, event: int) -> tuple[float, float | None]:
        return float(self.order[event]), self.time[event]

    def shares(self, snippet: str) -> NDArray[np.float64]:
        """Share of the snippet's distinct words that each event's text holds, float[n]."""
        wanted = set(words(snippet))
        found = np.zeros(len(self.texts))
        for word in wanted & self.postings.keys():
            found[self.postings[word]] += 1
        return found / max(len(wanted), 1)

    def best(self, snippet: str) -> tuple[int, float] | None:
        """The best-scored event, the earliest among equals; None below the least score.

        Events are tried in the order of an upper bound of their score (character counts bound
        difflib's ratio), and the search ends where no bound reaches the best score any more.
        """
        if not snippet.strip() or not self.texts:
            return None
        head = snippet[:SNIPPET_HEAD]
        share = self.shares(snippet)
        common = np.minimum(self.counts, _character_counts(head)).sum(axis=1)
        bound = SHARE_WEIGHT * share + RATIO_WEIGHT * (2.0 * common / (self.lengths + len(head)))
        best: tuple[int, float] | None = None
        for i in np.argsort(-bound, kind="stable").tolist():
            least = LEAST_SCORE if best is None else best[1]
            if bound[i] < least:
                break
            score = _score(float(share[i]), head, self.texts[i])
            if score < least or (best is not None and score == best[1] and i > best[0]):
                continue
            best = (i, score)
        return best


def _distinct_words(text: str) -> set[str]:
    """``set(words(text))``; line by line where a text is long, to hold few words at a time."""
    if len(text) < 1_000_000:
        return set(words(text))
    found: set[str] = set()
    for line in text.splitlines():  # no line end is part of a word
        found.update(words(line))
    return found


def _character_counts(text: str) -> NDArray[np.int64]:
    """Counts of characters in 128 bins; bins that mix characters only loosen the bound."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return np.bincount(codes % _BINS, minlength=_BINS)


def _score(share: float, head: str, text: str) -> float:
    ratio = SequenceMatcher(None, head, text[:TEXT_HEAD]).ratio()
    return SHARE_WEIGHT * share + RATIO_WEIGHT * ratio


def span_in(text: str, snippet: str) -> tuple[int, int]:
    """Characters of ``text`` that say ``snippet``.

    The first verbatim occurrence, white space folded and case kept, if there is one. Otherwise
    the run of neighbouring sentences (:func:`core.text.cut_note`) that holds most of the
    snippet's distinct lower-cased words, the shortest and then the earliest among equals; a run
    of two or more may not have more tokens than 1.5 times the snippet's.
    """
    parts = snippet.split()
    verbatim = re.search(r"\s+".join(map(re.escape, parts)), text) if parts else None
    if verbatim is not None:
        return verbatim.span()
    pieces = cut_note(text) or [(0, len(text))]
    wanted = set(words(snippet))
    held = [wanted.intersection(words(text[a:b])) for a, b in pieces]
    sizes = [count_tokens(text[a:b]) for a, b in pieces]
    limit = WINDOW * count_tokens(snippet)
    best, chosen = (-1, 0), (0, 0)
    for first in range(len(pieces)):
        if not held[first] and best[0] > 0:
            continue  # a run that opens with nothing is beaten by the run without that piece
        seen: set[str] = set()
        size = 0
        for last in range(first, len(pieces)):
            size += sizes[last]
            if last > first and size > limit:
                break
            seen |= held[last]
            if (len(seen), -size) > best:
                best, chosen = (len(seen), -size), (first, last)
    return pieces[chosen[0]][0], pieces[chosen[1]][1]


_indexes: OrderedDict[str, _Index] = OrderedDict()
_lock = threading.Lock()


def _index(record: Record) -> _Index:
    with _lock:
        found = _indexes.get(record.digest)
    if found is None:
        found = _Index(record)
    with _lock:
        _indexes[record.digest] = found
        _indexes.move_to_end(record.digest)
        while len(_indexes) > 2:
            _indexes.popitem(last=False)
    return found


def locate(record: Record, snippets: Iterable[str]) -> Located:
    """The event and characters that each snippet of evidence comes from.

    The text of an event is :func:`core.text.event_text`. Its score for a snippet is
    0.6 · share + 0.4 · ratio. Share: how many of the snippet's distinct ``\\w+`` words, both
    lower-cased, are words of the text. Ratio: ``difflib.SequenceMatcher(None, snippet[:200],
    text[:500]).ratio()``, case kept, difflib's own defaults. An event needs at least 0.2; the
    earliest wins ties, among events and among snippets (PROTOCOL, Units and positions).
    """
    index = _index(record)
    matches: list[Match | None] = []
    for snippet in snippets:
        found = index.best(snippet)
        if found is None:
            matches.append(None)
            continue
        event, score = found
        matches.append(Match(event, score, Span(event, *span_in(index.texts[event], snippet))))
    located = [match for match in matches if match is not None]
    if not located:
        return Located(tuple(matches), (), None, None)
    best = max(located, key=lambda match: (match.score, -match.event))
    spans = {(m.span.event, m.span.start, m.span.end): m.span for m in located}
    return Located(
        tuple(matches), tuple(spans[k] for k in sorted(spans)), *index.position(best.event)
    )


def gold_sentence_ids(sentences: Iterable[Sentence], spans: Sequence[Span]) -> frozenset[str]:
    """Ids of the sentences that share at least one character with a span of the evidence."""
    by_event: dict[int, list[Span]] = {}
    for span in spans:
        by_event.setdefault(span.event, []).append(span)
    return frozenset(
        sentence.id
        for sentence in sentences
        if any(sentence.span.overlaps(span) for span in by_event.get(sentence.span.event, ()))
    )


def evidence_parts(
    sentences: Iterable[Sentence], spans: Sequence[Span]
) -> dict[str, tuple[Span, ...]]:
    """The pieces of the evidence that lie in each sentence, by sentence id; none is empty."""
    parts: dict[str, tuple[Span, ...]] = {}
    for sentence in sentences:
        own = sentence.span
        inside = tuple(
            Span(own.event, max(own.start, s.start), min(own.end, s.end))
            for s in spans
            if own.overlaps(s) and s.start < s.end
        )
        if inside:
            parts[sentence.id] = inside
    return parts


def evidence_in_lines(
    lines: Iterable[ContextLine], parts: Mapping[str, Sequence[Span]]
) -> dict[str, float] | None:
    """Share of each sentence's evidence that lines of a context give word for word.

    ``parts`` is what :func:`evidence_parts` gives; shares are of its characters, sentences that
    no line shows are left out. None where a line is a summary: it may tell the evidence in other
    words, so whether the context holds it is not known.
    """
    shares: dict[str, float] = {}
    unknown = False
    for line in lines:
        if line.shown == ():
            unknown = True
        elif line.sentence_id in parts:
            wanted = parts[line.sentence_id]
            shares[line.sentence_id] = 1.0 if line.shown is None else _covered(wanted, line.shown)
    return None if unknown else shares


def _covered(wanted: Sequence[Span], shown: Sequence[Span]) -> float:
    """Share of the characters of ``wanted`` in ``shown``, which does not overlap itself."""
    common = sum(
        max(0, min(w.end, s.end) - max(w.start, s.start))
        for w in wanted
        for s in shown
        if w.overlaps(s)
    )
    return common / sum(span.end - span.start for span in wanted)


def lexical_hits(texts: Iterable[str], answer: str) -> list[bool]:
    """Which of ``texts`` hold a content word (four letters or more) of the reference answer.

    An answer without a content word is never hit (PROTOCOL, Stage 1).
    """
    wanted = content_words(answer)
    return [not wanted.isdisjoint(words(text)) for text in texts]


def _checked(position: float) -> float:
    """Rounded to 12 decimals, so that .1 · 3 or .3 − .1 is the edge it means."""
    if not 0.0 <= position <= 1.0 or math.isnan(position):
        raise ValueError(f"a position lies in [0, 1], not {position}")
    return round(position, 12)


def decile_of(position: float) -> int:
    """Decile 0 … 9 of a position in [0, 1]; edges are i/10, left-closed, the last closed."""
    return bisect_right(_EDGES, _checked(position))


def band_of(position: float) -> str:
    """Band of a position ("0-10", …, "90-100"), left-closed, the last closed."""
    position = _checked(position)
    return next(name for name, low, _ in reversed(BANDS) if position >= low)


def is_middle(position: float) -> bool:
    """Whether a position lies in the middle, [.3, .7], both ends included."""
    return MIDDLE[0] <= _checked(position) <= MIDDLE[1]
