"""Lines of a note: what each is by its layout, and which go on in the following one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from core.splitting.sentences import abbreviated

LINE_HEAD = 400
"""Characters of a line that its kind is read from; longer lines were not broken at a width."""
LEAST_WIDTH = 40
"""Narrowest column, in characters, that text is taken to have been wrapped to."""
LEAST_BROKEN, LEAST_SHARE = 3, 0.5
"""Lines that must end at one width, and their share of the open lines, for a note to be wrapped."""


class Kind(Enum):
    """What a line is by its layout."""

    PROSE = "prose"
    ITEM = "item"
    HEADING = "heading"
    ROW = "table row"
    RESULT = "result"
    RULE = "rule"


_ALONE = (Kind.ROW, Kind.RULE)


@dataclass(frozen=True, slots=True)
class Line:
    """One visible line: its characters without outer white space, how far it is indented, whether
    a blank line comes before it, and what it is."""

    start: int
    end: int
    indent: int
    apart: bool
    kind: Kind

    @property
    def length(self) -> int:
        """Its characters, the indentation included."""
        return self.indent + self.end - self.start


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BULLET = re.compile(r"[•●▪◦‣■□➢✓]|[*·–—+>-]\s|[–-](?=[A-Z][a-z])|o\s(?=[A-Z])")
_NUMBER = re.compile(r"\(?\d{1,3}(?:\)|\.\)?(?=\s))")
_LETTER = re.compile(r"\(?(?:[A-Za-z]|[ivxIVX]{1,4})[.)]\s")
_BOLD = re.compile(r"(?:\*\*|__)[^*_]{1,200}(?:\*\*|__)\s?:?\Z")
_GAP = re.compile(r"\t|(?<=\S) {3,}(?=\S)|\S \| \S|\|[^|]*\|")
_NARROW_GAP = re.compile(r"(?<=[^\s.!?:;,])  (?=\S)")
_RESULT = re.compile(
    r"[A-Z][\w+/()%-]{0,20}(?: [\w+/()%-]{1,20}){0,3}(?:\s?[:=])? ?[<>≤≥~]? ?\d[\d.,/]{0,12}"
    r"(?: ?[A-Za-zµμ%°][\w/%^*°µμ.²³]{0,14})?(?: ?[(\[][^)\]]{1,30}[)\]])?(?: (?:[HLN*]{1,2}))?\Z"
)
_LOWER_LETTER = re.compile(r"[a-zß-öø-ÿ]")
_LAST_WORD = re.compile(r"[A-Za-z]{1,20}\Z")
_END = re.compile(r"[.!?。！？…][\"'”’)\]*_]{0,6}\Z")
_WITHIN = re.compile(r"[.!?]\s")
_OPEN_WORDS = _set(
    "a an the of to in at by for from with without and or nor but as is are was were be been being "
    "has have had his her their its our my your this these those which who whom whose than into "
    "onto between during via until while because if whether may can could should would will shall "
    "did does either both due including such versus vs mr mrs ms dr prof within upon under"
)
"""Words after which no sentence and no list item ends."""
_BEFORE_NUMBERS = _set("on over about around approximately after before since age aged day")
"""Words after which none ends where a number follows."""


def read_lines(text: str) -> list[Line]:
    """The visible lines of a note, each with its kind."""
    found: list[Line] = []
    at, apart, capitals, seen = 0, False, 0, 0
    for raw in text.splitlines(keepends=True):
        body = raw.strip()
        if body:
            start = at + len(raw) - len(raw.lstrip())
            kind = _kind(body[:LINE_HEAD], len(body) > LINE_HEAD)
            found.append(Line(start, start + len(body), start - at, apart, kind))
            head = body[:LINE_HEAD]
            seen += 1
            capitals += head.isupper()
            apart = False
        else:
            apart = True
        at += len(raw)
    if capitals * 2 > seen and seen > 4:  # a note in capitals: they make no heading
        found = [_not_for_capitals(text, line) for line in found]
    return found


def _not_for_capitals(text: str, line: Line) -> Line:
    body = text[line.start : line.end]
    if line.kind is not Kind.HEADING or not body.isupper() or body.endswith((":", "*")):
        return line
    return Line(line.start, line.end, line.indent, line.apart, Kind.PROSE)


def _kind(body: str, goes_on: bool) -> Kind:
    """What a line is, by its first characters (without outer white space)."""
    if not any(map(str.isalnum, body)):
        return Kind.PROSE if goes_on else Kind.RULE
    marker = _BULLET.match(body) or _NUMBER.match(body)
    inner = body[marker.end() :].lstrip() if marker else body
    if _GAP.search(inner) or len(_NARROW_GAP.findall(inner)) > 1:
        return Kind.ROW
    if marker:
        return Kind.ITEM
    if goes_on:
        return Kind.PROSE
    if body[0] == "#" or _BOLD.match(body):
        return Kind.HEADING
    if body.rstrip("*_ ").endswith(":") and not (
        body[0].islower() or _WITHIN.search(body) or body.count("(") > body.count(")")
    ):
        return Kind.HEADING
    if body.isupper() and sum(map(str.isalpha, body)) > 2 and not body.endswith((".", ",")):
        return Kind.HEADING
    return Kind.RESULT if _RESULT.match(body) else Kind.PROSE


class Widths:
    """Which neighbouring lines of a section are one text, by the width at which it was wrapped."""

    def __init__(self, text: str, lines: Sequence[Line]) -> None:
        self.text, self.lines = text, lines
        self.cased = any(
            _LOWER_LETTER.search(text, line.start, min(line.end, line.start + LINE_HEAD))
            for line in lines
        )
        self.width = self._common()
        self.own = self._paragraphs()

    def _room(self, at: int) -> tuple[int, int]:
        """Narrowest and widest column at which line ``at`` ends because the next word of the
        following line did not fit."""
        line, after = self.lines[at], self.lines[at + 1]
        stop = min(after.end, after.start + LINE_HEAD)
        word = self.text[after.start : stop].split(None, 1)[0]
        return line.length, line.length + len(word)

    def _may_go_on(self, at: int) -> bool:
        """Whether nothing in the layout forbids that line ``at`` goes on in the following one."""
        line, after = self.lines[at], self.lines[at + 1]
        flat = (Kind.PROSE, Kind.ITEM, Kind.HEADING, Kind.RESULT)
        return (
            not after.apart
            and line.end - line.start <= LINE_HEAD
            and line.kind in flat
            and after.kind in (Kind.PROSE, Kind.RESULT, Kind.HEADING)
        )

    def _tail(self, at: int) -> str:
        line = self.lines[at]
        return self.text[max(line.start, line.end - 40) : line.end]

    def _lower(self, at: int) -> bool:
        return self.text[self.lines[at].start].islower()

    def _common(self) -> int:
        """The width at which the section's lines were wrapped, 0 where they were not."""
        votes: dict[int, int] = {}
        opened: list[int] = []
        lower = 0
        for at in range(len(self.lines) - 1):
            if not self._may_go_on(at) or self.lines[at].kind is Kind.HEADING:
                continue
            if _END.search(self._tail(at)):
                continue
            narrow, wide = self._room(at)
            opened.append(narrow)
            lower += self._lower(at + 1)
            for width in range(max(narrow, LEAST_WIDTH), wide + 1):
                votes[width] = votes.get(width, 0) + 1
        if not votes or (self.cased and lower * 4 < len(opened)):
            return 0
        best = max(votes, key=lambda width: (votes[width], -width))
        near = sum(length * 2 > best for length in opened)
        enough = votes[best] >= LEAST_BROKEN and votes[best] >= LEAST_SHARE * near
        return best if enough else 0

    def _paragraphs(self) -> set[int]:
        """Lines that end at the width of their own paragraph, where three or more lines agree."""
        found: set[int] = set()
        first = 0
        for at in range(1, len(self.lines) + 1):
            if at < len(self.lines) and self._may_go_on(at - 1):
                continue
            inner = range(first, at - 1)
            if len(inner) > 1:
                rooms = [self._room(i) for i in inner]
                low, high = max(r[0] for r in rooms), min(r[1] for r in rooms)
                agree = low <= high and high >= LEAST_WIDTH
                lower = sum(self._lower(i + 1) for i in inner)
                if agree and (not self.cased or lower * 3 >= len(inner)):
                    found.update(inner)
            first = at
        return found

    def _full(self, at: int) -> bool:
        """Whether line ``at`` ends where the next word did not fit."""
        narrow, wide = self._room(at)
        return at in self.own or narrow <= self.width <= wide

    def joined(self, at: int) -> bool:
        """Whether lines ``at`` and ``at + 1`` of the section are one text."""
        line, after = self.lines[at], self.lines[at + 1]
        if after.apart or line.end - line.start > LINE_HEAD:
            return False
        if line.kind in _ALONE or after.kind in _ALONE:
            return False
        tail = self._tail(at)
        if line.kind is Kind.HEADING and not (
            tail.endswith(":") and self._full(at) and self._lower(at + 1)
        ):
            return False
        head = self.text[after.start : min(after.end, after.start + 60)]
        if _BULLET.match(head) or head.startswith(("**", "#")):
            return False
        ended = _END.search(tail) is not None
        opened = not ended and self._open(line, tail, head)
        if after.kind is Kind.ITEM:
            return opened and not tail.endswith(",")
        if opened:
            return after.kind is not Kind.HEADING or not head.rstrip("* ").endswith(":")
        full = self._full(at)
        if ended:
            return full or (self._lower(at + 1) and abbreviated(tail))
        if after.kind is Kind.HEADING:
            short = " " not in head and len(head) < 7
            return full and short and not head.endswith(":")
        if _LETTER.match(head) and not full:
            return False
        if full:
            return after.kind is not Kind.RESULT or line.kind is not Kind.RESULT
        words = self.text[line.start : line.end].count(" ") + 1
        return self._lower(at + 1) and line.kind is not Kind.RESULT and words >= 5

    def _open(self, line: Line, tail: str, head: str) -> bool:
        """Whether a line ends where no sentence can: at a comma, an open bracket, "of"."""
        if (
            tail[-1] in ",(&→"
            or tail.endswith(("->", "-\\>"))
            or (tail[-1] in "-/" and tail[-2:-1].isalpha())
        ):
            return True
        word = _LAST_WORD.search(tail)
        low = word.group().lower() if word is not None and not word.group().isupper() else ""
        if low in _OPEN_WORDS or (low in _BEFORE_NUMBERS and head[0].isdigit()):
            return True
        own = self.text[max(line.start, line.end - LINE_HEAD) : line.end]
        closes = head.find(")")
        return own.rfind("(") > own.rfind(")") and closes >= 0 and "(" not in head[:closes]
