"""How a record becomes text: what an event says, how notes are cut, how text is counted.

Everything here is pure and the same in every process. Tokens are words and punctuation marks by
one regular expression, so that units and budgets do not depend on a model being here; a reader
counts its own prompt with its own tokenizer.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from core.control_tokens import neutralise as neutralise
from core.protocol import Protocol
from core.types import INTERVAL_TEXTS, Event, Record, Sentence, Span

SENTENCE_TOKENS = 64
"""Longest piece of a note, in tokens."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\w+")
_LINE = re.compile(r"[^\n]+")
_BOUNDARY = re.compile(r"(?<=[.!?;])[\"')\]]*\s+(?=[A-Z0-9\"'(\[•-])")
_ABBREVIATION = re.compile(
    r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|vs|No|Nos|approx|e\.g|i\.e|etc|a\.m|p\.m|pt|pts|Inc|[A-Z])\.$"
)


def words(text: str) -> list[str]:
    """Lower-cased ``\\w+`` words, as BM25 reads them (PROTOCOL, Arms)."""
    return _WORD.findall(text.lower())


def word_spans(text: str) -> list[tuple[str, int, int]]:
    """The words of :func:`words`, each with its first character in ``text`` and the one after.

    Lower-casing can lengthen a text ("İ" becomes two characters), so places are mapped back.
    """
    low = text.lower()
    found = [(m.group(), *m.span()) for m in _WORD.finditer(low)]
    if len(low) == len(text):
        return found
    origin = [i for i, character in enumerate(text) for _ in character.lower()]
    return [(word, origin[start], origin[end - 1] + 1) for word, start, end in found]


def count_tokens(text: str) -> int:
    """Number of words and punctuation marks."""
    return len(_TOKEN.findall(text))


def content_words(text: str) -> frozenset[str]:
    """Lower-cased words of four letters or more (PROTOCOL, Stage 1)."""
    return frozenset(w for w in words(text) if len(w) >= 4 and w.isalpha())


def event_text(event: Event) -> str:
    """What an event says in one string; spans count characters of it.

    A note is its body. A reading is ``name: value unit``; an interval event is ``name (start)``;
    an event that is only a code is its name, or its code where it has no name.
    """
    name, text = event.name or event.code, event.text.strip()
    if event.kind == "note" and text:
        return event.text
    if not text:
        return name
    if text in INTERVAL_TEXTS:
        return f"{name} ({text.replace('|', ' and ')})"
    if text == name:
        return name
    value = f"{text} {event.unit}".strip()
    return f"{name}: {value}" if name else value


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _sentence_bounds(text: str, start: int, end: int) -> Iterable[tuple[int, int]]:
    """Sentences of one line; an abbreviation's full stop or an initial ends none."""
    begin = start
    for match in _BOUNDARY.finditer(text, start, end):
        if _ABBREVIATION.search(text, max(begin, match.start() - 8), match.start()):
            continue
        yield begin, match.start()
        begin = match.end()
    yield begin, end


def cut_note(text: str, longest: int = SENTENCE_TOKENS) -> list[tuple[int, int]]:
    """Cut a note at line ends, then at sentence ends, then every ``longest`` tokens.

    Short neighbours on one line stay together up to ``longest`` tokens only where a sentence
    has no letter of its own ("2." or "98.6"). Returns (start, end) pairs, in order, none blank.
    """
    pieces: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        held: tuple[int, int] | None = None
        for start, end in _sentence_bounds(text, *line.span()):
            if held is not None:
                start, held = held[0], None
            start, end = _trim(text, start, end)
            if start == end:
                continue
            if not any(ch.isalpha() for ch in text[start:end]) and end < line.end():
                held = (start, end)
                continue
            pieces.extend(_cut_long(text, start, end, longest))
        if held is not None:
            pieces.extend(_cut_long(text, *held, longest))
    return pieces


def _cut_long(text: str, start: int, end: int, longest: int) -> list[tuple[int, int]]:
    tokens = [m.span() for m in _TOKEN.finditer(text, start, end)]
    if len(tokens) <= longest:
        return [(start, end)]
    chunks = [tokens[i : i + longest] for i in range(0, len(tokens), longest)]
    return [(chunk[0][0], chunk[-1][1]) for chunk in chunks]


def cut_event(event: Event, unit: str, longest: int = SENTENCE_TOKENS) -> list[Sentence]:
    """The sentences of one event. ``unit`` is "sentence" or "event"; a blank event gives none."""
    text = event_text(event)
    if not text.strip():
        return []
    whole = f"e{event.order}"

    def sentence(id: str, start: int, end: int) -> Sentence:
        piece = text[start:end]
        span = Span(event.order, start, end)
        return Sentence(id, span, event.time, event.kind, piece, count_tokens(piece))

    if unit == "event" or (count_tokens(text) <= longest and "\n" not in text.strip()):
        return [sentence(whole, *_trim(text, 0, len(text)))]
    return [
        sentence(f"{whole}.{i}", start, end)
        for i, (start, end) in enumerate(cut_note(text, longest))
    ]


_Key = tuple[str, str, int, str]


class _Recent:
    """A few most recently used results, so that every arm of a record shares one cutting."""

    def __init__(self, size: int) -> None:
        self.size, self.items = size, OrderedDict[_Key, tuple[Sentence, ...]]()
        self.lock = Lock()  # pages of one server run in threads

    def get(self, key: _Key) -> tuple[Sentence, ...] | None:
        with self.lock:
            if key in self.items:
                self.items.move_to_end(key)
            return self.items.get(key)

    def put(self, key: _Key, value: tuple[Sentence, ...]) -> None:
        with self.lock:
            self.items[key] = value
            while len(self.items) > self.size:
                self.items.popitem(last=False)


_recent = _Recent(32)


def sentences(record: Record, protocol: Protocol) -> tuple[Sentence, ...]:
    """All units of selection of a record under a protocol, in record order.

    Unit "event" is the published one (a whole note is one); "sentence" the corrected one:
    short events as they are, notes cut at line and sentence ends into pieces of at most
    ``protocol.sentence_tokens`` tokens (PROTOCOL, Units and positions).
    """
    key = (record.digest, protocol.unit, protocol.sentence_tokens, protocol.interval_events)
    found = _recent.get(key)
    if found is None:
        named = protocol.interval_events == "named"
        found = tuple(
            sentence
            for event in record.events
            if named or event.text.strip() not in INTERVAL_TEXTS
            for sentence in cut_event(event, protocol.unit, protocol.sentence_tokens)
        )
        _recent.put(key, found)
    return found


def one_line(text: str) -> str:
    """White space folded to single blanks."""
    return " ".join(text.split())
