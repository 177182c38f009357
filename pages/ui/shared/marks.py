"""Text on a page: of records and runs, escaped and marked by what an arm kept or dropped; verdicts;
and numbers.

Record text is hostile input. In HTML and figures it goes through ``for_screen(text, html=True)``,
in markdown (captions, messages, labels) through ``for_screen(text)``; selectboxes, tables and
``st.text`` show ``for_terminal(text)``. A mark says what it is by its border and by a word: solid
"kept" (in the reader's prompt, or selected where there is no reader), dotted "cut" (selected, but
cut from the prompt), dashed "dropped"; evidence has a thick border in another colour.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from midchart.core import api

KEPT, CUT = "kept", "cut"
KEPT_EVIDENCE, CUT_EVIDENCE, DROPPED_EVIDENCE = "kept evidence", "cut evidence", "dropped evidence"
STYLE = {
    CUT: "mc-lost",
    KEPT: "mc-kept",
    KEPT_EVIDENCE: "mc-held",
    CUT_EVIDENCE: "mc-lostgold",
    DROPPED_EVIDENCE: "mc-dropped",
}
"""Label → style of its mark."""
STRENGTH = {label: strength for strength, label in enumerate(STYLE)}
"""Precedence of overlapping marks: the later one wins."""
_HEADING = re.compile(
    r"\s*(?:\*\*\s*(?P<stars>[^\s*][^*\n]{0,118}?)\s*\*\*:?|#{1,4}\s+(?P<hashes>\S[^\n]{0,118}?))\s*"
)
"""A line that is a heading in the plain-text markup of notes."""

LONG_PROMPT = 20_000
"""Characters of a prompt shown."""


@dataclass(frozen=True)
class Mark:
    """Characters ``start`` to ``end`` of an event's text and what they are.

    ``extra`` follows the label in the tag (which other arms kept it).
    """

    start: int
    end: int
    label: str
    extra: str = ""


_CHANGED = re.compile(f"\r\n|{api.HIDDEN.pattern}|[\U00010000-\U0010ffff]")
"""What has another length in a browser: replaced characters, and those of two UTF-16 units."""
for_screen, for_terminal = api.for_screen, api.for_terminal


def for_browser(text: str) -> tuple[str, NDArray[np.int64] | None]:
    """The visible text for a script in a browser, and the place there of each character [n + 1],
    in UTF-16 units; None where all places stay."""
    matches = list(_CHANGED.finditer(text))
    if not matches:
        return text, None
    widths = np.ones(len(text), np.int64)
    for match in matches:
        shown = for_terminal(match.group().replace("\r\n", "\n"))
        widths[match.start() : match.end()] = 0
        widths[match.start()] = len(shown.encode("utf-16-le", "surrogatepass")) // 2
    places = np.concatenate([[0], np.cumsum(widths)])
    return for_terminal(text.replace("\r\n", "\n")), places


def shortened(text: str, most: int = 220) -> str:
    """The first characters of a text on one line, cut at a word."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"


def looks_marked(text: str) -> bool:
    """Whether a text could become an image, a link, a formula or an icon where markdown is read.

    For choices whose labels are in the URL and so cannot be escaped there.
    """
    return any(c in "[<$`:*\r\n" for c in text)


def underlined(text: str, low: int, high: int, exact: Sequence[tuple[int, int]]) -> str:
    """Text [low, high) with the exact evidence characters underlined."""
    out: list[str] = []
    at = low
    for start, end in sorted(exact):
        start, end = max(start, at), min(end, high)
        if start >= end:
            continue
        out.append(for_screen(text[at:start], html=True))
        out.append(f"<u>{for_screen(text[start:end], html=True)}</u>")
        at = end
    out.append(for_screen(text[at:high], html=True))
    return "".join(out)


def tag(label: str, extra: str = "") -> str:
    """The word that a mark carries."""
    more = f" <small>{for_screen(extra, html=True)}</small>" if extra else ""
    return f'<span class="mc-tag">{for_screen(label, html=True)}{more}</span>'


def lines_of(text: str) -> list[tuple[int, int]]:
    """(start, end) of each line of a text, without its line end."""
    spans: list[tuple[int, int]] = []
    at = 0
    for line in text.split("\n"):
        spans.append((at, at + len(line)))
        at += len(line) + 1
    return spans


def heading_in(text: str, line: tuple[int, int]) -> tuple[int, int] | None:
    """The words of a line that is a heading (``** Plan **`` or ``# Plan``), without its markup."""
    heading = _HEADING.fullmatch(text, *line)
    if heading is None:
        return None
    return heading.span("stars") if heading["stars"] else heading.span("hashes")


def label(shown: bool, cut: bool, evidence: bool) -> str:
    """The label of a sentence that is ``shown`` to the reader (or selected, without one) or ``cut``
    from the prompt; "" for one that is neither of them, nor evidence."""
    if shown or cut:
        return {
            (True, False): KEPT, (True, True): KEPT_EVIDENCE,
            (False, False): CUT, (False, True): CUT_EVIDENCE,
        }[shown, evidence]  # fmt: skip
    return DROPPED_EVIDENCE if evidence else ""


def mark(label: str, words: str) -> str:
    """Words in the border of a label, as in the marked text."""
    return f'<mark class="{STYLE[label]}">{for_screen(words, html=True)}</mark>'


def legend(unit: str, evidence: bool) -> str:
    """What the borders mean; those of ``evidence`` where there is some."""
    items = [(KEPT, f"{unit} that the reader got")]
    if evidence:
        items += [
            (KEPT_EVIDENCE, "evidence that the reader got"),
            (CUT_EVIDENCE, "evidence that was selected, then cut from the prompt"),
            (DROPPED_EVIDENCE, "evidence that the arm did not select"),
        ]
    cells = "".join(
        f"<span>{mark(label, label)} {for_screen(words, html=True)}</span>"
        for label, words in items
    )
    exact = "<span><u>underlined</u> annotated evidence</span>" * evidence
    return f'<div class="mc-legend">{cells}{exact}</div>'


def prompt_html(text: str) -> str:
    """A prompt as its reader got it; of a very long one its head and tail, and how much is between.

    A prompt ends with the question, so its end is always shown.
    """
    if len(text) <= LONG_PROMPT:
        return block(f'<div class="mc-prompt">{for_screen(text, html=True)}</div>')
    half = LONG_PROMPT // 2
    return block(
        f'<div class="mc-prompt">{for_screen(text[:half], html=True)}</div>'
        f'<p class="mc-prompt-cut">… {len(text) - 2 * half:,} characters not shown …</p>'
        f'<div class="mc-prompt">{for_screen(text[-half:], html=True)}</div>'
    )


def block(body: str) -> str:
    """A piece of HTML in the style of marked text (text.css)."""
    return f'<div class="mc">{body}</div>'


# Verdicts: an outcome by word and border, never red or green


ENDS = {
    "length": "cut off at its largest number of tokens",
    "filter": "cut off by a filter of the service",
    "tool": "ended with the call of a tool",
    "empty": "no text",
    "refusal": "marked as a refusal by the service",
}
"""How an answer ended, in words, where it did not end by itself."""
_CLASS = {"correct": "", "incorrect": "mc-no"}


def outcome_html(outcome: str, refusal: bool = False) -> str:
    """An outcome as a word in a border: solid correct, dashed incorrect, dotted not judged."""
    words = outcome + (", refusal" if refusal else "")
    text = for_screen(words, html=True)
    return f'<span class="mc-verdict {_CLASS.get(outcome, "mc-open-word")}">{text}</span>'


def ended_html(ended: str | None) -> str:
    """How an answer ended; nothing where it ended by itself or that is not known."""
    words = ENDS.get(ended or "")
    return f'<span class="mc-verdict mc-open-word">{words}</span>' if words else ""


# Numbers: percentages have one decimal, p values three, intervals are [low, high]. A share is a
# number in [0, 1] and is shown in per cent; a difference of shares in percentage points.


NONE = "–"


def missing(value: Any) -> bool:
    """Whether there is no value: None or NaN."""
    return value is None or bool(pd.isna(value))


def percent(share: Any) -> str:
    """A share in per cent: "25.3 %"."""
    return NONE if missing(share) else api.percent(share)


def signed(value: Any, digits: int = 1) -> str:
    """A number with its sign (a true minus), and 0 without one: "+1.5", "−2.0", "0.0"."""
    return NONE if missing(value) else api.with_sign(value, digits)


def p_number(p: Any) -> str:
    """A p value without its letter: "0.012", "< 0.001"."""
    return NONE if missing(p) else api.p_number(p)


def p_value(p: Any) -> str:
    """A p value: "p = 0.012", "p < 0.001", "no p"."""
    return "no p" if missing(p) else api.p_value(p)


def sentence(text: str) -> str:
    """A text with a capital and a full stop; a column's name keeps its small letters."""
    first = text if "_" in text.partition(" ")[0] else f"{text[:1].upper()}{text[1:]}"
    return f"{first.rstrip('.')}."


def unbroken(text: str) -> str:
    """A number and its per cent sign, or a p and its value, kept on one line."""
    return (
        text.replace(" %", "\u00a0%")
        .replace("p = ", "p\u00a0=\u00a0")
        .replace("p < ", "p\u00a0<\u00a0")
    )
