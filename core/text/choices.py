"""The option of a multiple-choice question that a free answer chooses.

Mentions of options (a letter, or an option's complete text) are located first. A mention is
*stated* where the words before it ("the answer is", "I choose"), the words after it ("is correct")
or a format (a box, a tag, a JSON field) say that it is the answer; the last stated mention counts.
Without one, the answer has to be a mention, or to begin or end with one. An answer that states
several options, or a letter that is no option, chooses none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

from midchart.core.parsing import read_toml
from midchart.core.text.prompt import LETTERS


@cache
def _forms() -> SimpleNamespace:
    """Patterns of ``choices.toml``: of ``patterns`` by name, ``reasoning``, closed or cut off, of
    which none is the answer; ``says``: words before a mention that say that it is the answer, and
    ``says_at_an_end`` where the mention ends a clause; ``markup``: boxes, tags and fields become a
    line "Answer: …", other markup is removed."""
    file = Path(__file__).with_name("choices.toml")
    table = read_toml(file.read_bytes(), file.name)
    texts: dict[str, str] = {}

    def filled(parts: Sequence[str]) -> re.Pattern[str]:
        return re.compile(re.sub(r"@(\w+)@", lambda match: texts[match[1]], "".join(parts)))

    for group in ("words", "patterns"):
        for name, parts in table[group].items():
            texts[name.upper()] = filled(parts).pattern
    lists = table["lists"]
    markup = [(re.compile(pattern), place) for pattern, place in lists.pop("markup")]
    one = {name: re.compile(texts[name.upper()]) for name in table["patterns"]}
    many = {name: list(map(filled, each)) for name, each in lists.items()}
    return SimpleNamespace(one=one, markup=markup, **many)


def _form(name: str) -> re.Pattern[str]:
    return _forms().one[name]


_MARKS = " \t\n.,:;!\"'“”‘’„«»()[]{}|/–—=<>-"
_CONTRADICTION = -1
"""in place of an option: several options, a letter with another's text, or no option."""


@dataclass(frozen=True, slots=True)
class _Mention:
    """Characters ``start`` to ``end`` of an answer that name ``option``: by a letter, or (not
    ``lettered``) by its text alone; ``listed``: the answer goes through the options."""

    start: int
    end: int
    option: int
    lettered: bool
    listed: bool = False

    @property
    def with_text(self) -> bool:
        """Whether this is a letter with its option's text."""
        return self.lettered and self.end - self.start > 1


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")


def correct_option(answer: str, options: Sequence[str]) -> int | None:
    """Index of the correct option: the one whose text the reference is, else the last one that
    contains it (LongHealth's own rule); None where there is none."""
    folded = _folded(answer)
    if not folded:
        return None
    equal = [i for i, option in enumerate(options) if _folded(option) == folded]
    containing = [i for i, option in enumerate(options) if folded in _folded(option)]
    return (equal[:1] or containing[-1:] or [None])[0]


def chosen_option(text: str, options: Sequence[str]) -> int | None:
    """Index of the option that an answer chooses, None where it chooses none or cannot be read.

    Reasoning is left out, and a further question that the model asks itself is read only
    where nothing before it chooses.
    """
    text = unicodedata.normalize("NFKC", text)
    for pattern in _forms().reasoning:
        text = pattern.sub("\n", text)
    text = _form("end_of_turn").split(text.strip())[0].strip()
    parts = [_plain(part) for part in (_form("new_turn").split(text)[0], text)]
    texts = tuple(_plain(unicodedata.normalize("NFKC", option)) for option in options)
    choices = (_choice(part, texts) for part in dict.fromkeys(parts) if part)
    return next((choice for choice in choices if choice is not None), None)


@lru_cache(maxsize=256)
def _option_patterns(options: tuple[str, ...]) -> tuple[tuple[int, re.Pattern[str]], ...]:
    """Index and pattern of each option that its text names, the longest first. A text that two
    options share names none, nor does a single letter."""
    folded = [_folded(option) for option in options]
    naming = [i for i, text in enumerate(folded) if len(text) > 1 and folded.count(text) == 1]
    words = {i: r"\s+".join(map(re.escape, options[i].rstrip(".").split())) for i in naming}
    return tuple(
        (i, re.compile(rf"(?<![\w.]){words[i]}(?!\w|[.,]\d)", re.IGNORECASE))
        for i in sorted(naming, key=lambda i: -len(folded[i]))
    )


def _plain(text: str) -> str:
    for pattern, replacement in _forms().markup:
        text = pattern.sub(replacement, text)
    return text.strip()


def _choice(text: str, options: tuple[str, ...]) -> int | None:
    mentions = _mentions(text, options)
    stated = [one for one in mentions if _is_stated(text, one)]
    option = stated[-1].option if stated else _unstated(text, options, mentions)
    return None if option == _CONTRADICTION else option


def _mentions(text: str, options: tuple[str, ...]) -> list[_Mention]:
    """All mentions in order, those joined to another ("A or B") as contradictions."""
    named = _by_text(text, options)
    mentions = [*named]
    for match in _form("letter").finditer(text):
        start, end = match.span()
        if any(one.start <= start < one.end for one in named):
            continue
        if mention := _lettered(text, start, end, named, len(options)):
            mentions = [one for one in mentions if not _overlap(one, mention)] + [mention]
    return _joined(text, _listed(text, sorted(mentions, key=lambda one: one.start)))


def _overlap(one: _Mention, other: _Mention) -> bool:
    return one.start < other.end and other.start < one.end


def _by_text(text: str, options: tuple[str, ...]) -> list[_Mention]:
    """Mentions by an option's text; of overlapping ones the longest."""
    mentions: list[_Mention] = []
    for index, pattern in _option_patterns(options):
        for match in pattern.finditer(text):
            one = _Mention(*match.span(), index, False)
            ends = _form("text_ends").match(text, one.end)
            if ends and not any(_overlap(one, longer) for longer in mentions):
                mentions.append(one)
    return mentions


def _lettered(
    text: str, start: int, end: int, named: Sequence[_Mention], count: int
) -> _Mention | None:
    """The mention that a single letter is, with the option's text next to it; None for a word."""
    option = LETTERS.index(text[start].upper())
    option = option if option < count else _CONTRADICTION
    delimited = _form("delimited").match(text, end) is not None
    after = _form("to_text").match(text, end)
    adjoining = [one for one in named if after and one.start == after.end()]
    for one in adjoining:
        if delimited or (one.option == option and text[start].isupper()):
            option = option if option == one.option else _CONTRADICTION
            return _Mention(start, one.end, option, True)
    if not delimited and not _form("connected").match(text, end):
        return None
    # "C. difficile", "E. coli": an initial, not an option.
    if re.match(r"\.\s+[a-zäöüß]", text[end:]) and not _form("connected").match(text, end + 1):
        return None
    return _Mention(start, end, option, True)


def _listed(text: str, mentions: list[_Mention]) -> list[_Mention]:
    """The mentions, marked where the answer goes through the options: lines that follow each other
    and begin with different letters, with text after them."""
    heads: list[_Mention | None] = []
    for line in re.finditer(r"[^\n]*\S[^\n]*", text):
        letters = (
            one for one in mentions if one.lettered and line.start() <= one.start < line.end()
        )
        first = next(letters, None)
        begins = first and not text[line.start() : first.start].strip(_MARKS)
        more = first and (first.with_text or text[first.end : line.end()].strip(_MARKS))
        heads.append(first if begins and more else None)
    pairs = [(a, b) for a, b in pairwise(heads) if a and b and text[a.start] != text[b.start]]
    return [replace(one, listed=any(one in pair for pair in pairs)) for one in mentions]


def _joined(text: str, mentions: list[_Mention]) -> list[_Mention]:
    """The mentions without the denied ones, those joined to another as contradictions."""
    denied = [_is_denied(text, one) for one in mentions]
    options = [one.option for one in mentions]
    for i in range(len(mentions) - 2, -1, -1):
        one, other = mentions[i], mentions[i + 1]
        gap = _form("joins").match(text, one.end)
        if not gap or gap.end() != other.start or one.option == other.option:
            continue
        if not denied[i + 1] and not _form("verb_after").match(text, other.end):
            options[i] = options[i + 1] = _CONTRADICTION
    return [
        replace(one, option=option)
        for one, option, no in zip(mentions, options, denied, strict=True)
        if not no
    ]


def _is_denied(text: str, one: _Mention) -> bool:
    before = text[max(0, one.start - 160) : one.start]
    return bool(_form("denies").search(before) or _form("is_wrong").match(text, one.end))


def _is_stated(text: str, one: _Mention) -> bool:
    """Whether the words around a mention say that it is the answer."""
    if _form("condition").match(text, one.end):
        return False
    before = text[max(0, one.start - 160) : one.start]
    if _form("is_fitting").match(text, one.end) and (
        not one.lettered or _form("clause_start").search(before)
    ):
        return True
    if one.listed:
        return False
    ends = _forms().says + (
        _forms().says_at_an_end if _form("clause_end").match(text, one.end) else []
    )
    phrases = filter(None, (pattern.search(before) for pattern in ends))
    return any(not _form("negated").search(before[: match.start()]) for match in phrases)


def _unstated(text: str, options: Sequence[str], mentions: Sequence[_Mention]) -> int | None:
    """The option that an answer is, or begins or ends with; None where there is none or several."""
    written = {_folded(text), _folded(text.strip(_MARKS))}
    names = [{_folded(option), LETTERS[i].lower()} for i, option in enumerate(options)]
    equal = [i for i, forms in enumerate(names) if written & forms]
    if equal:
        return equal[0] if len(equal) == 1 else None
    unlisted = [one for one in mentions if not one.listed]
    named = {one.option for one in unlisted if _opens(text, one) or _closes(text, one)}
    if named:
        return named.pop() if len(named) == 1 else None
    by_text = {one.option for one in mentions if not one.lettered}
    last = mentions[-1] if mentions else None
    if last and not last.lettered and len(by_text) == 1 and not text[last.end :].strip(_MARKS):
        one_sentence = not re.search(r"[.!?]\s", text[: last.start])
        if one_sentence and _form("copula").search(text[: last.start]):
            return last.option
    return None


def _opens(text: str, one: _Mention) -> bool:
    before = text[: one.start].strip(_MARKS)
    lead = _form("lead").fullmatch(before + " ") if before else None
    if before and not lead:
        return False
    follows = _form("letter_ends" if one.lettered else "option_ends")
    return one.with_text or follows.match(text, one.end) is not None


def _closes(text: str, one: _Mention) -> bool:
    if text[one.end :].strip(_MARKS):
        return False
    before = text[: one.start]
    if one.with_text or (one.lettered and _form("enclosed").search(before)):
        return True
    return _form("sentence_start").search(before.rstrip(" \t\"'“‘([{")) is not None
