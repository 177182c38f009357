"""Lines of a note: what each is by its layout, and which go on in the following one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import islice, takewhile
from typing import NamedTuple

# Where sentences end within joined lines: not in a number, an abbreviation or brackets.


_LONGEST_BRACKET = 400
"""Characters between a pair of brackets within which no sentence ends."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Abbreviations that end no sentence, whatever follows.
_NEVER_LAST = _set(
    "dr mr mrs ms mx prof st vs e.g i.e eg ie cf ca approx viz resp incl excl esp pt pts rev gen "
    "capt lt sgt col mme messrs hon dept dx hx tx rx sx fx temp wt ht neg pos abd ext bilat adm "
    "hosp cont diff prev subq subcut inj tab tabs cap caps spp sp var subsp ssp staph strep "
    "n.b al nos eqs figs refs vols chaps"
)
# Abbreviations that end a sentence only where a word follows that begins one.
_SELDOM_LAST = _set(
    "etc jr sr inc ltd co corp a.m p.m u.s u.k m.d ph.d r.n d.o no nr fig eq ref vol chap sec p pp "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri bid tid qid prn po iv im "
    "sc qd qhs hs ac pc stat ad os od ou gtt supp susp oz lb lbs hr hrs min yr yrs mo mos wk "
    "wks"
)
_NUMBERED = _set("no nr fig eq ref vol chap sec p pp figs nos eqs refs")
"""Abbreviations that name a number; without one after them they are words ("no.")."""
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]\Z")
_STARTERS = _set(
    "a an the he she it they we i his her its their our this that these those there here in on at "
    "by for from with after before during since when while as if no not patient patients pt mr mrs "
    "ms dr continue continued denies reports please will given upon under all both each one two "
    "however therefore additionally furthermore moreover then currently today plan follow "
    "allergies"
)

_MARK = re.compile(r"[.!?…]+[\"'”’)\]*_]*|[。！？]+[”’」』）]*|\s[•●▪◦‣]\s")
_CITATION = re.compile(r"\[[\d,\s–-]{1,30}\]|\d{1,3}(?:[,–-]\d{1,3}){0,8}(?=\s)")
_BRACKET = re.compile(r"[()\[\]]")
_VISIBLE = re.compile(r"\S")
_WORD = re.compile(r"[^\W\d_]{1,30}")
_ENUMERATOR = re.compile(r"\(?(\d{1,2})[.)]\s")


def _abbreviated(tail: str) -> bool:
    """Whether a text ends in an abbreviation's full stop."""
    words = tail[:-1].split() if tail.endswith(".") else []
    low = words[-1].lstrip("([\"'").lower() if words else ""
    return low in _NEVER_LAST | _SELDOM_LAST or _DOTTED.match(low) is not None


def _brackets(text: str, start: int, end: int) -> tuple[list[int], list[int]]:
    """Outermost pairs of brackets that are short enough, as their first and last characters."""
    opened: dict[str, list[int]] = {")": [], "]": []}
    pairs: list[tuple[int, int]] = []
    for match in _BRACKET.finditer(text, start, end):
        mark = match.group()
        if mark in "([":
            opened[")" if mark == "(" else "]"].append(match.start())
        elif opened[mark]:
            first = opened[mark].pop()
            if match.start() - first <= _LONGEST_BRACKET:
                pairs.append((first, match.start()))
    pairs.sort()
    firsts: list[int] = []
    lasts: list[int] = []
    for first, last in pairs:
        if lasts and first <= lasts[-1]:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    return firsts, lasts


def sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sentences of joined lines; a piece without a letter ("2.") goes with the following one."""
    brackets: tuple[list[int], list[int]] | None = None
    begin, looked, number = start, start, _enumerator(text, start)
    for match in _MARK.finditer(text, start, end):
        at, stop = match.span()
        if text[at].isspace():  # a bullet within a line
            stop = at
        elif stop < end and text[at] not in "。！？":
            if text[stop - 1] == "." and not text[stop].isspace():
                stop = _glued(text, at, stop, end)
            if not stop or not _ends(text, begin, at, stop, end):
                continue
        if stop >= end or stop <= begin:
            continue
        firsts, lasts = brackets = brackets or _brackets(text, start, end)
        pair = bisect_right(firsts, stop - 1) - 1
        if pair >= 0 and lasts[pair] >= stop:
            continue
        if number is not None:
            own_number_end = _own_number(text, begin, at, number)
            if own_number_end:  # "Aspirin 2. Statin" after "1.": the number opens the next item
                number, stop = number + 1, own_number_end
        left = stop
        while text[left - 1].isspace():
            left -= 1
        if not text[begin].isalpha() and not _WORD.search(text, max(begin, looked), left):
            looked = left
            continue
        yield begin, left
        following = _VISIBLE.search(text, stop, end)
        if following is None:
            return
        begin = following.start()
        opened = _enumerator(text, begin)
        number = opened if opened is not None else number
    if begin < end:
        yield begin, end


def _enumerator(text: str, at: int) -> int | None:
    match = _ENUMERATOR.match(text, at)
    return int(match.group(1)) if match else None


def _own_number(text: str, begin: int, dot: int, number: int) -> int:
    """Where the number that follows ``number`` begins, if it comes right before ``dot``, else 0."""
    digits = str(number + 1)
    at = dot - len(digits)
    return at if at > begin and text[at:dot] == digits and text[at - 1].isspace() else 0


def _glued(text: str, dot: int, stop: int, end: int) -> int:
    """Where a sentence ends whose full stop no blank follows: "fell.Then" or "fell.[3] Then".
    0 where it does not end."""
    before, after = text[max(0, dot - 3) : dot], text[stop : min(stop + 2, end)]
    if before.isalpha() and before.islower() and after[:1].isupper() and after[1:].islower():
        address = text[max(0, dot - 30) : dot].rsplit(None, 1)[-1]
        return 0 if any(mark in address for mark in "/@.") else stop
    if text[dot - 1].isalpha() or text[dot - 1] in ")%":
        citation = _CITATION.match(text, stop, end)
        if citation and (text[dot - 1].islower() or text[stop] == "["):
            return citation.end()
    return 0


def _ends(text: str, begin: int, dot: int, stop: int, end: int) -> bool:
    """Whether the mark from ``dot`` to ``stop`` ends a sentence."""
    following = _VISIBLE.search(text, stop, end)
    if following is None:
        return False
    after = following.group()
    if after in ",;:)]}%/=":
        return False
    mark = text[dot:stop]
    if mark[0] in "!?":
        return not after.islower() and dot > begin and not text[dot - 1].isspace()
    if mark[0] == "…" or mark[:2] == "..":
        return after.isupper()
    word = text[max(begin, dot - 30) : dot].rsplit(None, 1)[-1:]
    last_word = word[0].lstrip("([\"'“‘*_-") if word else ""
    low = last_word.lower()
    if low in _NUMBERED and after.isdigit():
        return False
    if low in _NEVER_LAST:
        return False
    single = len(last_word) == 1 and last_word.isupper()
    if single or low in _SELDOM_LAST or _DOTTED.match(low):
        first = _WORD.match(text, following.start()) if after.isupper() else None
        starts = first is not None and first.group().lower() in _STARTERS
        answer = low == "no" and (last_word == "no" or text[begin:dot] == last_word)
        return starts or after in "•●▪◦‣-–" or (answer and not after.islower())
    if after.islower():
        return last_word.isalpha() and last_word.islower() and len(last_word) > 3
    return not (last_word.isdigit() and after.isdigit())


_LINE_HEAD = 400
"""Characters of a line that its kind is read from; longer lines were not broken at a width."""
_LEAST_WIDTH = 40
"""Narrowest column, in characters, that text is taken to have been wrapped to."""
_LEAST_BROKEN, _LEAST_SHARE = 3, 0.5
"""Lines that must end at one width, and their share of the open lines, for a note to be wrapped."""


class _Kind(Enum):
    """What a line is by its layout."""

    PROSE = "prose"
    ITEM = "item"
    HEADING = "heading"
    ROW = "table row"
    RESULT = "result"
    RULE = "rule"


_ALONE = _Kind.ROW, _Kind.RULE
_BEGINS = *_ALONE, _Kind.ITEM


class _Line(NamedTuple):
    """One visible line: where it begins and ends without outer white space, how far it is indented,
    whether a blank line comes before it, what it is, and its characters."""

    start: int
    end: int
    indent: int
    apart: bool
    kind: _Kind
    body: str

    @property
    def length(self) -> int:
        """Its characters, the indentation included."""
        return self.indent + len(self.body)

    @property
    def goes_on(self) -> bool:
        """Whether it is longer than any line that was broken at a width."""
        return len(self.body) > _LINE_HEAD

    @property
    def is_lower(self) -> bool:
        """Whether it begins with a small letter."""
        return self.body[0].islower()


_BULLET = re.compile(r"[•●▪◦‣■□➢✓]|[*·–—+>-]\s|[–-](?=[A-Z][a-z])|o\s(?=[A-Z])")
_MARKER = re.compile(rf"{_BULLET.pattern}|\(?\d{{1,3}}(?:\)|\.\)?(?=\s))")
_LETTER = re.compile(r"\(?(?:[A-Za-z]|[ivxIVX]{1,4})[.)]\s")
_BOLD = re.compile(r"(?:\*\*|__)[^*_]{1,200}(?:\*\*|__)\s?:?\Z")
_GAP = re.compile(r"\t|(?<=\S) {3,}(?=\S)|\S \| \S|\|[^|]*\|")
_NAMED_CELL = re.compile(r"(?![a-z])(?:[^:;.]|\.(?! )){1,60}: \S")
_NAMED_WITHIN = re.compile(r"\. [A-Z][^:;.]{0,40}: ")
_NARROW_GAP = re.compile(r"(?<=[^\s.!?:;,])  (?=\S)")
_RESULT = re.compile(
    r"[A-Z][\w+/()%-]{0,20}(?: [\w+/()%-]{1,20}){0,3}(?:\s?[:=])? ?[<>≤≥~]? ?\d[\d.,/]{0,12}"
    r"(?: ?[A-Za-zµμ%°][\w/%^*°µμ.²³]{0,14})?(?: ?[(\[][^)\]]{1,30}[)\]])?(?: (?:[HLN*]{1,2}))?\Z"
)
_LONGEST_RESULT = 160
"""Characters that the pattern of a result can take, at most."""
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


def _read_lines(text: str) -> list[_Line]:
    """The visible lines of a note, each with its kind."""
    lines: list[_Line] = []
    at, apart = 0, False
    for raw in text.splitlines(keepends=True):
        if body := raw.strip():
            indent = raw.index(body[0])
            start = at + indent
            kind = _kind(body[:_LINE_HEAD], len(body) > _LINE_HEAD)
            lines.append(_Line(start, start + len(body), indent, apart, kind, body))
        apart = not body
        at += len(raw)
    capitals = sum(line.body[:_LINE_HEAD].isupper() for line in lines) if lines[4:] else 0
    if capitals * 2 > len(lines):  # a note in capitals: they make no heading
        lines = [
            line._replace(kind=_Kind.PROSE)
            if line.kind is _Kind.HEADING
            and line.body.isupper()
            and not line.body.endswith((":", "*"))
            else line
            for line in lines
        ]
    return lines


def _kind(body: str, goes_on: bool) -> _Kind:
    """What a line is, by its first characters (without outer white space)."""
    if not any(map(str.isalnum, body)):
        return _Kind.PROSE if goes_on else _Kind.RULE
    marker = _MARKER.match(body)
    inner = body[marker.end() :].lstrip() if marker else body
    if "; " in inner and _is_named_row(inner):
        return _Kind.ROW
    if ("  " in inner or "\t" in inner or "|" in inner) and (
        _GAP.search(inner) or len(_NARROW_GAP.findall(inner)) > 1
    ):
        return _Kind.ROW
    if marker:
        return _Kind.ITEM
    if goes_on:
        return _Kind.PROSE
    if body[0] == "#" or _BOLD.match(body):
        return _Kind.HEADING
    if body.rstrip("*_ ").endswith(":") and not (
        body[0].islower() or _WITHIN.search(body) or body.count("(") > body.count(")")
    ):
        return _Kind.HEADING
    if body.isupper() and sum(map(str.isalpha, body)) > 2 and not body.endswith((".", ",")):
        return _Kind.HEADING
    is_short = len(body) <= _LONGEST_RESULT
    return _Kind.RESULT if is_short and _RESULT.match(body) else _Kind.PROSE


def _is_named_row(body: str) -> bool:
    """Whether a line is ``Header: cell; Header: cell``, a row as :mod:`core.text.markup` writes it.

    A cell may hold semicolons, but most parts begin with a header, and no sentence within one does.
    """
    parts = body.split("; ")
    named = sum(_NAMED_CELL.match(part) is not None for part in parts)
    first = _NAMED_CELL.match(parts[0]) is not None
    return first and 1 < named > len(parts) / 2 and not _NAMED_WITHIN.search(body)


class _Widths:
    """Which neighbouring lines of a section are one text, by the width at which it was wrapped."""

    def __init__(self, lines: Sequence[_Line]) -> None:
        self.lines = lines
        self.cased = any(_LOWER_LETTER.search(line.body, 0, _LINE_HEAD) for line in lines)
        self._open = [at for at in range(len(lines) - 1) if self._may_go_on(at)]
        self.width = self._common() if self._open else 0
        self.wrapped = self._paragraphs() if self._open[1:] else set[int]()

    def _room(self, at: int) -> tuple[int, int]:
        """Narrowest and widest column at which line ``at`` ends because the next word of the
        following line did not fit."""
        line, after = self.lines[at], self.lines[at + 1]
        return line.length, line.length + len(after.body[:_LINE_HEAD].split(None, 1)[0])

    def _may_go_on(self, at: int) -> bool:
        """Whether nothing in the layout forbids that line ``at`` continues in the next one."""
        line, after = self.lines[at], self.lines[at + 1]
        is_open = not line.goes_on and line.kind not in _ALONE
        return is_open and not after.apart and after.kind not in _BEGINS

    def _common(self) -> int:
        """The width at which the section's lines were wrapped, 0 where they were not."""
        opened = [
            at
            for at in self._open
            if self.lines[at].kind is not _Kind.HEADING and not _ended(self.lines[at])
        ]
        votes = Counter[int]()
        for at in opened:
            narrow, wide = self._room(at)
            votes.update(range(max(narrow, _LEAST_WIDTH), wide + 1))
        lower = sum(self.lines[at + 1].is_lower for at in opened)
        if not votes or (self.cased and lower * 4 < len(opened)):
            return 0
        best = max(votes, key=lambda width: (votes[width], -width))
        near = sum(self.lines[at].length * 2 > best for at in opened)
        return best if votes[best] >= max(_LEAST_BROKEN, _LEAST_SHARE * near) else 0

    def _paragraphs(self) -> set[int]:
        """Lines that end at their paragraph's width, where three or more lines agree."""
        wrapped: set[int] = set()
        first = 0
        for at in range(1, len(self.lines) + 1):
            if at < len(self.lines) and self._may_go_on(at - 1):
                continue
            inner = range(first, at - 1)
            if len(inner) > 1:
                narrow, wide = zip(*map(self._room, inner), strict=True)
                lower = sum(self.lines[i + 1].is_lower for i in inner)
                if min(wide) >= max(_LEAST_WIDTH, *narrow) and (
                    not self.cased or lower * 3 >= len(inner)
                ):
                    wrapped.update(inner)
            first = at
        return wrapped

    def joined(self, at: int) -> bool:
        """Whether lines ``at`` and ``at + 1`` of the section are one text."""
        line, after = self.lines[at], self.lines[at + 1]
        if after.apart or line.goes_on or line.kind in _ALONE or after.kind in _ALONE:
            return False
        narrow, wide = self._room(at)
        full = at in self.wrapped or narrow <= self.width <= wide  # the next word did not fit
        if line.kind is _Kind.HEADING and not (line.body.endswith(":") and full and after.is_lower):
            return False
        head = after.body[:60]
        if _BULLET.match(head) or head.startswith(("**", "#")):
            return False
        if _ended(line):
            may_follow = full or (after.is_lower and _abbreviated(line.body[-40:]))
            return may_follow and after.kind is not _Kind.ITEM
        opened = _is_open(line.body, head)
        if after.kind is _Kind.ITEM:
            return opened and not line.body.endswith(",")
        if opened:
            return after.kind is not _Kind.HEADING or not head.rstrip("* ").endswith(":")
        if after.kind is _Kind.HEADING:
            short = " " not in head and len(head) < 7
            return full and short and not head.endswith(":")
        if full:
            return after.kind is not _Kind.RESULT or line.kind is not _Kind.RESULT
        if _LETTER.match(head):
            return False
        return after.is_lower and line.kind is not _Kind.RESULT and line.body.count(" ") >= 4


def _ended(line: _Line) -> bool:
    """Whether a line ends like a sentence."""
    return _END.search(line.body[-40:]) is not None


def _is_open(body: str, head: str) -> bool:
    """Whether a line ends where no sentence can: at a comma, an open bracket, "of"; ``head`` is how
    the next one begins."""
    if body[-1] in ",(&→" or body.endswith(("->", "-\\>")):
        return True
    if body[-1] in "-/" and body[-2:-1].isalpha():
        return True
    word = _LAST_WORD.search(body[-40:])
    low = word.group().lower() if word is not None and not word.group().isupper() else ""
    if low in _OPEN_WORDS or (low in _BEFORE_NUMBERS and head[0].isdigit()):
        return True
    closes = head.find(")")
    return body.rfind("(") > body.rfind(")") and closes >= 0 and "(" not in head[:closes]


_SECTION = 400
"""Lines over which one width holds: letters of different widths may be put into one note."""


class SentencePiece(NamedTuple):
    """A sentence of a note: its first character and the one after its last, and the same of the
    lines ``above`` that say what it is about: the nearest heading, a table row's header row."""

    start: int
    end: int
    above: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None)


def pieces(text: str) -> list[SentencePiece]:
    """The sentences of a note, in order, none blank.

    They cover every visible character of ``text``, do not overlap, and begin and end with
    visible characters. A heading, list item, table row or line of one result without a full
    stop counts as a sentence. A heading has no heading itself.
    """
    cut: list[SentencePiece] = []
    lines = _read_lines(text)
    headers = _headers(lines) if lines[1:] else {}
    heading: tuple[int, int] | None = None
    begin = 0
    for at, joined in enumerate(_joins(lines) if lines[1:] else [False] * len(lines)):
        if joined:
            continue
        line, end = lines[begin], lines[at].end
        if line.kind is _Kind.HEADING:
            heading = (line.start, line.end)
            cut.append(SentencePiece(line.start, end))
        elif line.kind in (_Kind.PROSE, _Kind.ITEM):
            above, spans = (heading, None), sentences(text, line.start, end)
            cut += [SentencePiece(first, last, above) for first, last in spans]
        else:
            cut.append(SentencePiece(line.start, end, (heading, headers.get(begin))))
        begin = at + 1
    return cut


_CELL_GAP = re.compile(r"\s*\|\s*|\t+|\s{2,}")
_LONGEST_CELL = 40
"""Characters of a cell of a header row."""


def cells(row: str) -> list[str]:
    """The cells of a table's row without outer white space and emphasis, empty ones left out."""
    stripped = (cell.strip("*_ ") for cell in _CELL_GAP.split(row))
    return [cell for cell in stripped if cell]


def _headers(lines: Sequence[_Line]) -> dict[int, tuple[int, int]]:
    """Number of a table row → the header row of its table, for the rows that have one.

    A header row is the first row of a table, with no digit, that a rule comes after or before, or
    whose column has a digit in every row of as many cells (in rows of two cells: at least two). A
    heading does not end a table whose rows after it have as many cells as the header.
    """
    headers: dict[int, tuple[int, int]] = {}
    header: _Line | None = None
    first = True
    for at, line in enumerate(lines):
        first = first or line.apart
        if line.kind is _Kind.ROW:
            if first and _is_header(lines, at):
                header = line
            elif header is not None:
                if first and len(cells(line.body)) != len(cells(header.body)):
                    header = None  # after a heading, or a blank line
                else:
                    headers[at] = header.start, header.end
            first = False
        elif line.kind is _Kind.HEADING:
            first = True
        elif line.kind is not _Kind.RULE:
            header, first = None, True
    return headers


def _is_header(lines: Sequence[_Line], at: int) -> bool:
    """Whether row ``at``, the first of its table, names the columns of the rows after it."""
    row = cells(lines[at].body[:_LINE_HEAD])
    if len(row) < 2 or any(map(_has_digit, row)) or max(map(len, row)) > _LONGEST_CELL:
        return False
    if _Kind.RULE in (line.kind for line in (*lines[max(at - 1, 0) : at], *lines[at + 1 : at + 2])):
        return True
    rows = takewhile(lambda line: line.kind is _Kind.ROW, islice(lines, at + 1, at + 4))
    below = [cells(line.body) for line in rows]
    even = len(below) > (len(row) == 2) and all(len(other) == len(row) for other in below)
    return even and any(all(map(_has_digit, column)) for column in zip(*below, strict=True))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _joins(lines: Sequence[_Line]) -> Iterator[bool]:
    """For every line whether the next one continues its text; the last has none."""
    for first in range(0, len(lines), _SECTION):
        widths = _Widths(lines[first : first + _SECTION + 1])
        yield from map(widths.joined, range(len(widths.lines) - 1))
    yield False
