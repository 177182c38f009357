"""How many units of a cohort's notes end in the middle of a sentence.

    python -m tests.bench.units COHORT [COHORT …] [--column NAME] [--show 200]

A cohort is anything that ``check`` opens, or with ``--column`` a CSV file one column of which
holds notes. Counted are the units that another unit of the same event follows. One ends
mid-sentence where

- ``lower``: the next begins with a lower-case letter,
- ``open``: it ends in a comma, semicolon, hyphen, slash or open bracket, or in a word after which
  nothing ends ("of", "the", "Dr."),
- ``bracket``: it opens a bracket that the next closes,
- ``number``: no blank is between it and the next, and a letter or digit is on both sides,
- ``line``: it has eight words or more, ends without a mark, and the next begins on the next line.

Table rows end only at their line's end and are not counted; a list item, or a label with a colon,
does not continue what precedes it under ``line``. The rules read layout and words only. ``over a
break`` counts the units that span a blank line, or run into a line with a bullet, number or bold
heading; ``--splitter MODULE:FUNCTION`` counts for another splitter, whose function returns (start,
end) pairs of a text. Cuts of sentences longer than the protocol's ``sentence_tokens`` are counted
apart.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from midchart.core.errors import InputError
from midchart.core.loaders.open import read_cohort
from midchart.core.text import SENTENCE_TOKENS, cut_note, event_text, one_line
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
_BREAK = re.compile(r"\n[ \t]*(?:\n|[•*-] |\d{1,2}[.)] |\*\*)")
REASONS = ("lower", "open", "bracket", "number", "line")


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


Cut = Callable[[str], Iterable[tuple[int, int]]]


def unit_boundaries(
    texts: Iterable[str], longest: int = SENTENCE_TOKENS, other: Cut | None = None
) -> Iterator[tuple[str, str, str]]:
    """For every unit with a following one: why it ends mid-sentence ("long" where it was cut for
    its length, "" where it does not), its text and that of the following unit."""
    for text in texts:
        if other is None:
            ends, pieces = {end for _, end in split(text)}, cut_note(text, longest)
        else:
            pieces = [
                _visible(text, *piece) for piece in other(text) if text[slice(*piece)].strip()
            ]
            ends = {end for _, end in pieces}
        for unit, after in pairwise(pieces):
            why = reason(text, unit, after) if unit[1] in ends else "long"
            yield why, text[slice(*unit)], text[slice(*after)]


def _visible(text: str, start: int, end: int) -> tuple[int, int]:
    body = text[start:end]
    return start + len(body) - len(body.lstrip()), end - len(body) + len(body.rstrip())


def _splitter(name: str) -> Cut:
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"--splitter {name}: {error}; give MODULE:FUNCTION") from None


def _texts(place: str, column: str | None) -> Iterator[str]:
    if column is None:
        for record in read_cohort(place).records.values():
            yield from (event_text(event) for event in record.events if event.kind == "note")
        return
    with Path(place).open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if column not in (rows.fieldnames or ()):
            raise InputError(f"{place} has no column {column!r}")
        yield from dict.fromkeys(row[column] for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line a cohort and, where asked, units drawn by chance."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.units", description=__doc__)
    parser.add_argument("cohorts", nargs="+")
    parser.add_argument("--column", help="column of a CSV file that holds notes")
    parser.add_argument("--show", type=int, default=0, help="units to print, drawn with --seed")
    parser.add_argument("--only", choices=(*REASONS, "long", "mid"), help="show these alone")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--splitter", help="MODULE:FUNCTION of another splitter")
    call = parser.parse_args(arguments)
    other = _splitter(call.splitter) if call.splitter else None
    rows: list[dict[str, object]] = []
    for place in call.cohorts:
        boundaries = list(unit_boundaries(_texts(place, call.column), other=other))
        counts = Counter(why for why, _, _ in boundaries)
        middle = sum(counts[why] for why in REASONS)
        asked = len(boundaries) - counts["long"]
        rows.append(
            {
                "cohort": place,
                "units": asked,
                "mid-sentence": middle,
                "share": f"{middle / max(asked, 1):.1%}",
                **{why: counts[why] for why in REASONS},
                "cut for length": counts["long"],
                "over a break": sum(
                    _BREAK.search(unit_text) is not None for _, unit_text, _ in boundaries
                ),
            }
        )
        matches = [
            f
            for f in boundaries
            if call.only in (None, f[0]) or (call.only == "mid" and f[0] in REASONS)
        ]
        drawn = random.Random(call.seed).sample(range(len(matches)), min(call.show, len(matches)))
        for at in sorted(drawn):
            why, unit_text, following = matches[at]
            print(f"{why or '-':8}{one_line(unit_text)} ⏎ {one_line(following)[:40]}")
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
