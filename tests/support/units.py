"""How many units of a cohort's notes end in the middle of a sentence.

Counted are the units that another unit of the same event follows. One ends
mid-sentence where

- ``lower``: the next begins with a lower-case letter,
- ``open``: it ends in a comma, semicolon, hyphen, slash or open bracket, or in a word after which
  nothing ends ("of", "the", "Dr."),
- ``bracket``: it opens a bracket that the next closes,
- ``number``: no blank is between it and the next, and a letter or digit is on both sides,
- ``line``: it has eight words or more, ends without a mark, and the next begins on the next line.

Table rows end only at their line's end and are not counted; a list item, or a label with a colon,
does not continue what precedes it under ``line``. The rules read layout and words only. Cuts of
sentences longer than the protocol's ``sentence_tokens`` are counted
apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from midchart.core.text import SENTENCE_TOKENS, cut_note
from midchart.core.text.splitting import split

_LAST = re.compile(
    r"(?:\b(?:a|an|the|of|to|by|for|from|with|without|and|or|nor|but|as|is|are|was|were|be|been|"
    r"has|have|had|his|her|their|its|this|these|those|which|who|whose|than|into|between|during|"
    r"via|until|while|because|if|whether|may|can|could|should|would|will|both|due|including|"
    r"versus|within|upon|under)|\b(?:Dr|Mr|Mrs|Ms|Prof|vs|[Ee]\.g|[Ii]\.e|[Aa]pprox|Fig|al)\.|"
    r"[,;(\[]|(?<=\w)[-/])\Z"
)
_ITEM = re.compile(
    r"\s*(?:[•●▪◦‣■□➢✓*#|]|[·–—+>o-]\s|\(?\d{1,3}[.)]|\(?[A-Za-z][.)]\s|\(?[ivx]+\)?[.)])"
)
_ROW = re.compile(r"\t|\S {3,}\S|\||(?:\S  \S.*){2}")
_LABEL = re.compile(r"[A-Z][^:.\n]{0,40}:")


def reason(text: str, unit: tuple[int, int], after: tuple[int, int]) -> str:
    """Why a unit (start, end) of ``text`` ends mid-sentence before the unit ``after``, or ""."""
    unit_text, following = text[slice(*unit)], text[slice(*after)]
    between = text[unit[1] : after[0]]
    last_line, next_line = unit_text.rsplit("\n", 1)[-1], following.split("\n", 1)[0]
    if "\n" in between and (_ROW.search(last_line.strip()) or _ROW.search(next_line.strip())):
        return ""
    if not between and unit_text[-1].isalnum() and following[0].isalnum():
        return "number"
    item = _ITEM.match(following)
    if following[0].islower() and not item:
        return "lower"
    if _LAST.search(unit_text[-30:]):
        return "" if item and unit_text[-1] in ",;-" else "open"
    closes = following.find(")")
    if (
        unit_text.rfind("(") > unit_text.rfind(")")
        and 0 <= closes <= 200
        and "(" not in following[:closes]
    ):
        return "bracket"
    near = between.count("\n") == 1 and following[0].isalnum()
    if near and len(unit_text.split()) >= 8 and unit_text.rstrip("*_\"'”’)]")[-1:] not in ".!?:…%":
        return "" if item or _LABEL.match(following) or following.isupper() else "line"
    return ""


def unit_boundaries(
    texts: Iterable[str], longest: int = SENTENCE_TOKENS
) -> Iterator[tuple[str, str, str]]:
    """For every unit with a following one: why it ends mid-sentence ("long" where it was cut for
    its length, "" where it does not), its text and that of the following unit."""
    for text in texts:
        ends = {end for _, end in split(text)}
        for unit, after in pairwise(cut_note(text, longest)):
            why = reason(text, unit, after) if unit[1] in ends else "long"
            yield why, text[slice(*unit)], text[slice(*after)]
