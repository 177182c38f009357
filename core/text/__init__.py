"""Records as text: text of events, sentences of notes, counts of tokens.

Everything here is pure and the same in every process. Tokens are words and punctuation marks by
one regular expression, so that units and budgets do not depend on a model being here; a reader
counts its own prompt with its own tokenizer.

:func:`for_prompt` keeps a prompt to one system, one user and one assistant part, whatever a record
says. Tokenizers fold text before they look for control tokens, so full-width forms, accents and
invisible characters are looked through.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice

from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.text.splitting import cells, pieces
from midchart.core.types import INTERVAL_TEXTS, Event, Record, Sentence, Span

_NAMES = (
    r"s|bos|eos|pad|unk|mask|eot|eom|eod|think(?:ing)?|tools?|tool_(?:call|response)s?"
    r"|function_calls?|system|user|assistant|human|image(?:_soft_token)?|audio|video"
    r"|extra_id_\d{1,5}|unused_?\d{1,5}|reserved_?\d{1,5}|0x[0-9a-f]{2}"
    r"|(?:start|begin|end)_of_\w{1,20}|(?:start|end)_header_id|\w{1,30}_token|fim_\w{1,20}|用户"
)
_BRACKETED = r"inst|sys|think|system_prompt|available_tools|tool_(?:calls|results|content)|[gs]mask"
_CONTROL_TOKEN = re.compile(
    r"<(?=\s*\|[^|<>]{1,60}\|?\s*>"  # <|im_start|>, <|eot_id|>, <｜begin▁of▁sentence｜>, <|turn>
    r"|\s*[^\s|<>]{1,60}\|\s*>"  # <turn|>
    rf"|\s*/?\s*(?:\w{{1,20}}:)?(?:{_NAMES})\s*/?\s*>"  # <s>, </think>, <start_of_turn>, <seed:bos>
    r"|<\s*/?\s*sys\s*>\s*>)"  # <<SYS>>
    rf"|\[(?=\s*/?\s*(?:{_BRACKETED})\s*\]"  # [INST]
    r"|\s*\|[^|\[\]]{1,60}\|\s*\]"  # [|assistant|]
    r"|\w{1,8}~[\[\]])"  # [e~[
    r"|\](?=~!?\w{1,8}[\[\]])",  # ]~b]
    re.IGNORECASE,
)
OPENERS = "<\u226e\ufe64\uff1c[\ufe47\uff3b]\ufe48\uff3d"
"""Every character that Unicode normalisation can turn into the bracket that a token begins with."""
_OPENER = re.compile(f"[{re.escape(OPENERS)}]")
_HIDDEN = re.compile(r"[\u200b\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e01ef]")
"""Tags, bidirectional overrides and zero-width characters, without the joiners and direction marks
that Persian, Arabic, Hebrew and Indic text is written with."""
_NOT_PLAIN = re.compile(r"[^\t\n -~]")
_UNSEEN = frozenset({"Mn", "Me", "Cf", "Cc"})
HARMLESS = {"<": "\u2039", "[": "\u27e6", "]": "\u27e7"}
"""Replacements of those brackets: ‹, ⟦ and ⟧, which normalisation does not change."""
_REPLACED = "\N{REPLACEMENT CHARACTER}"


def for_prompt(text: str, tokens: tuple[str, ...] = ()) -> str:
    """Neutralise chat-control tokens in record text (``<|im_end|>``, ``</s>``).

    The opening angle bracket becomes ``‹`` (the square one of ``[INST]`` ``⟦``), so that no
    tokenizer can take it for a control token, and a tag, direction override or zero-width character
    U+FFFD. Nothing else changes, not even the length.

    ``tokens``: control tokens of the model that reads, of whatever form. One that begins with no
    bracket gets U+FFFD for its first character.
    """
    more = _pattern(tokens)
    while more or _OPENER.search(text):
        changed = _once(text, _CONTROL_TOKEN)
        if more:
            changed = _once(changed, more)
        if changed == text:
            break
        text = changed
    return _HIDDEN.sub(_REPLACED, text)


@lru_cache(maxsize=64)
def _pattern(tokens: tuple[str, ...]) -> re.Pattern[str] | None:
    """A pattern of the first character of each token."""
    folded = filter(str.strip, {_folded(token)[0] for token in tokens})
    each = sorted(f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in folded)
    return re.compile("|".join(each), re.IGNORECASE) if each else None


def _once(text: str, pattern: re.Pattern[str]) -> str:
    if not _NOT_PLAIN.search(text):
        return pattern.sub(lambda match: HARMLESS.get(match.group(), _REPLACED), text)
    folded, origin = _folded(text)
    characters = list(text)
    for match in pattern.finditer(folded):
        characters[origin[match.start()]] = HARMLESS.get(match.group(), _REPLACED)
    return "".join(characters)


def _folded(text: str) -> tuple[str, list[int]]:
    """``text`` under the strongest normalisation, and the origin of each character."""
    folded: list[str] = []
    origin: list[int] = []
    for i, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character):
            if part.isspace() or unicodedata.category(part) not in _UNSEEN:
                folded.append(part)
                origin.append(i)
    return "".join(folded), origin


SENTENCE_TOKENS = 64
"""About the longest piece of a note, in tokens (:func:`cut_note`)."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\w+")
_CLAUSES = frozenset(
    ("and", "but", "or", "which", "who", "with", "while", "where", "although", "because", "then")
)


def words(text: str) -> list[str]:
    """Lower-cased ``\\w+`` words, as BM25 reads them (docs/methods.md, Arms)."""
    return _WORD.findall(text.lower())


def as_words(text: str) -> str:
    """The words of a text between single blanks, so that a phrase's are a part of those of a text
    that holds it."""
    return f" {' '.join(words(text))} "


def word_spans(text: str) -> list[tuple[str, int, int]]:
    """The words of :func:`words`, each with its first character in ``text`` and the one after.

    Lower-casing can lengthen a text ("İ" becomes two characters), so places are mapped back.
    """
    low = text.lower()
    spans = [(m.group(), *m.span()) for m in _WORD.finditer(low)]
    if len(low) == len(text):
        return spans
    origin = [i for i, character in enumerate(text) for _ in character.lower()]
    return [(word, origin[start], origin[end - 1] + 1) for word, start, end in spans]


def count_tokens(text: str) -> int:
    """Number of words and punctuation marks."""
    return len(_TOKEN.findall(text))


def content_words(text: str) -> frozenset[str]:
    """Lower-cased words of four letters or more (docs/methods.md, Stage 1)."""
    return frozenset(w for w in words(text) if len(w) >= 4 and w.isalpha())


def event_text(event: Event) -> str:
    """The text of an event in one string, to which spans refer.

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


def cut_note(text: str, longest: int = SENTENCE_TOKENS) -> list[tuple[int, int]]:
    """Cut a note into its sentences (:func:`midchart.core.text.splitting.pieces`).

    ``longest`` is about the length of the longest piece, in tokens: a sentence up to half as long
    again stays whole, a longer one is cut at the last good place within that length. Returns
    (start, end) pairs, in order, none blank.
    """
    most = longest + longest // 2
    return [cut for piece in pieces(text) for cut in _cut_long(text, piece.start, piece.end, most)]


def _cut_long(text: str, start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    """A sentence in pieces of at most ``longest`` tokens.

    A piece ends, in this order, at the last semicolon, colon or dash, comma before a clause,
    comma, or blank in its last two thirds, outside of brackets where that is possible, and
    never between a number and its unit where it need not.
    """
    tokens = _TOKEN.finditer(text, start, end)
    ahead: list[tuple[int, int]] = []
    while True:
        ahead += [m.span() for m in islice(tokens, longest + 1 - len(ahead))]
        if len(ahead) <= longest:
            break
        cut = _good_place(text, ahead)
        yield ahead[0][0], ahead[cut - 1][1]
        ahead = ahead[cut:]
    if ahead:
        yield ahead[0][0], ahead[-1][1]


def _good_place(text: str, tokens: Sequence[tuple[int, int]]) -> int:
    """Number of ``tokens``, at least one fewer than given, of the piece with the best end."""
    best, place = -1, len(tokens) - 1
    depth = 0
    for at in range(1, len(tokens)):
        (first, last), following = tokens[at - 1], tokens[at][0]
        mark = text[first:last]
        depth = max(0, depth + (mark in "([") - (mark in ")]"))
        if at * 3 < len(tokens):
            continue
        apart = following > last
        rank = 0
        if mark == ";":
            rank = 5
        elif apart and mark in ":–—-":
            rank = 4
        elif apart and mark == ",":
            rank = 3 if text[following : tokens[at][1]].lower() in _CLAUSES else 2
        elif apart and not (mark[-1].isdigit() and text[following].isalpha()):
            rank = 1
        rank += 0 if depth else 6
        if rank >= best:
            best, place = rank, at
    return place


def cut_event(
    event: Event, unit: str, longest: int = SENTENCE_TOKENS, titled: bool = False
) -> list[Sentence]:
    """The sentences of one event, with their titles where ``titled``. ``unit`` is "sentence" or
    "event"; a blank event gives none.

    A title is the event's name, where the sentence does not open with it, and the heading and table
    header above the sentence. A sentence without a letter or digit has none.
    """
    text = event_text(event)
    if not text.strip():
        return []
    event_id = f"e{event.order}"
    name = one_line(event.name) if titled else ""
    opens = text.lstrip().startswith(name)

    def sentence(id: str, start: int, end: int, title: str) -> Sentence:
        piece = text[start:end]
        span = Span(event.order, start, end)
        if title and not any(map(str.isalnum, piece)):
            title = ""
        return Sentence(id, span, event.time, event.kind, piece, count_tokens(piece), title)

    if unit == "event" or ("\n" not in text.strip() and count_tokens(text) <= longest):
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        return [sentence(event_id, start, end, "" if opens else name)]
    cut: list[tuple[int, int, str]] = []
    lines, title = (None, None), name
    for piece in pieces(text):
        if titled and piece.above != lines:
            lines = piece.above
            title = _title(name, text, *lines)
        for start, end in _cut_long(text, piece.start, piece.end, longest + longest // 2):
            cut.append((start, end, "" if opens and not cut else title))
    return [sentence(f"{event_id}.{i}", *one) for i, one in enumerate(cut)]


def _title(name: str, text: str, *lines: tuple[int, int] | None) -> str:
    """A note's name and the lines of it above a sentence, each once, without their layout."""
    above = ["; ".join(cells(text[slice(*line)])).strip("#*_: ") for line in lines if line]
    parts: dict[str, str] = {}
    for part in filter(None, (name, *above)):
        parts.setdefault(part.lower(), part)
    return " · ".join(parts.values())


_recent: LRU[Sequence[Sentence]] = LRU(32, len)
"""Cached, so that all arms share one record's sentences."""


def sentence_rule(protocol: Protocol) -> tuple[str, ...]:
    """What of a protocol decides the sentences of a record."""
    titled = protocol.scored_text == "titled"
    return protocol.unit, str(protocol.sentence_tokens), protocol.interval_events, str(titled)


def sentences(record: Record, protocol: Protocol) -> Sequence[Sentence]:
    """All units of selection of a record under a protocol, in record order.

    Unit "event" is the published one (a whole note is one); "sentence" the corrected one:
    short events as they are, notes cut into sentences of at most ``protocol.sentence_tokens``
    tokens, wrapped lines joined (docs/methods.md, Units and positions).
    """
    rule = sentence_rule(protocol)
    titled, named = protocol.scored_text == "titled", protocol.interval_events == "named"

    def stored_or_cut() -> Sequence[Sentence]:
        stored = record.analysed.sentences(record, rule) if record.analysed else None
        return stored or tuple(
            sentence
            for event in record.events
            if named or event.text.strip() not in INTERVAL_TEXTS
            for sentence in cut_event(event, protocol.unit, protocol.sentence_tokens, titled)
        )

    return _recent.get((record.digest, *rule), stored_or_cut)


def allowed(all_sentences: Sequence[Sentence], cutoff: datetime | None) -> list[Sentence]:
    """The sentences that are not after ``cutoff``, in record order.

    A dated sentence at the very moment of the cutoff is allowed. An undated one is allowed only
    before the first that is dated after the cutoff: static facts are at the head of a record,
    and what follows the cutoff cannot be shown to precede it.
    """
    if cutoff is None:
        return list(all_sentences)
    within_cutoff: list[Sentence] = []
    passed = False
    for sentence in all_sentences:
        late = passed if sentence.time is None else sentence.time > cutoff
        passed = passed or late
        if not late:
            within_cutoff.append(sentence)
    return within_cutoff


def one_line(text: str) -> str:
    """White space normalised to single blanks."""
    return " ".join(text.split())
