"""A score's parts drawn on the text they come from.

How much a place counts is shown by the strength of its shade, and whether it adds or takes away
by the line under it (solid, or dotted with hatching), never by red or green. Record text is
hostile: all of it goes through :func:`pages.ui.shared.marks.safe`.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core import api
from pages.ui.shared import marks

LEVELS = 5
FAINTEST = 0.04
"""Parts below this share of the largest are left unmarked on the text; the table has them."""

CSS = (
    ".mc mark.mc-w{padding:.05em 0;border-radius:0;background:none}"
    + "".join(
        f".mc mark.mc-p{i}{{background:color-mix(in srgb,var(--mc-ink) {8 + 10 * i}%,transparent);"
        "border-bottom:2px solid var(--mc-ink)}"
        f".mc mark.mc-n{i}{{background:repeating-linear-gradient(135deg,"
        f"color-mix(in srgb,var(--mc-less) {12 + 12 * i}%,transparent) 0 2px,transparent 2px 5px);"
        "border-bottom:2px dotted var(--mc-less)}"
        for i in range(1, LEVELS + 1)
    )
    + ".mc{--mc-less:light-dark(#b34a10,#f7925c)}"
    ".mc-sentence{white-space:pre-wrap;unicode-bidi:plaintext;font-size:1.05rem;line-height:1.9;"
    "margin:.2rem 0 .5rem;max-width:80ch;border-inline-start:3px solid var(--mc-line);"
    "padding-inline-start:.8rem}"
)


def weights(length: int, why: api.Explanation) -> NDArray[np.float64]:
    """What each character of a text stands for [length]: the parts of the terms over it.

    A term's part is shared equally by its places, so overlapping n-grams add up.
    """
    found = np.zeros(length)
    for term in why.terms:
        for start, end in term.spans:
            found[max(start, 0) : max(end, 0)] += term.part / len(term.spans)
    return found


def levels(found: NDArray[np.float64]) -> NDArray[np.int64]:
    """Each character's level [n], -LEVELS to LEVELS, 0 where it counts for nearly nothing."""
    most = float(np.abs(found).max()) if len(found) else 0.0
    if most == 0:
        return np.zeros(len(found), np.int64)
    share = np.abs(found) / most
    level = np.where(share < FAINTEST, 0, np.ceil(share * LEVELS)).astype(np.int64)
    return np.sign(found).astype(np.int64) * level


def html_of(text: str, why: api.Explanation | None) -> str:
    """The text with its marks, all of it escaped."""
    if why is None:
        return f'<div class="mc-sentence">{marks.safe(text)}</div>'
    level = levels(weights(len(text), why)).tolist()
    out: list[str] = []
    at = 0
    for value, group in groupby(level):
        end = at + len(list(group))
        piece = marks.safe(text[at:end])
        kind = f"mc-{'p' if value > 0 else 'n'}{abs(value)}"
        out.append(f'<mark class="mc-w {kind}">{piece}</mark>' if value else piece)
        at = end
    return f'<div class="mc-sentence">{"".join(out)}</div>'


def legend(why: api.Explanation) -> str:
    """What the marks mean; only those signs that occur."""
    parts = [term.part for term in why.terms]
    items: list[str] = []
    if any(part > 0 for part in parts):
        items.append(f'<span><mark class="mc-w mc-p{LEVELS}">adds</mark> to the score</span>')
    if any(part < 0 for part in parts):
        items.append(f'<span><mark class="mc-w mc-n{LEVELS}">lowers</mark> the score</span>')
    if not items:
        return ""
    items.append("<span>the stronger the shade, the more</span>")
    return f'<div class="mc-legend">{"".join(items)}</div>'


def sum_words(why: api.Explanation, score: float) -> str:
    """The sum in words: base, what adds, what takes away, and the score they make."""
    more = sum(t.part for t in why.terms if t.part > 0)
    less = sum(t.part for t in why.terms if t.part < 0)
    words = f"{len(why.terms):,} term{'' if len(why.terms) == 1 else 's'}"
    parts = [f"{why.base:.4g} before any term"] if why.base else []
    parts += [f"+{more:.4g} from positive terms"] if more else []
    parts += [f"−{-less:.4g} from negative terms"] if less else []
    if not parts:
        return f"No term of the question occurs in it: score {score:.4g}."
    line = f"{', '.join(parts)} ({words}) = {why.total:.4g}"
    if abs(why.total - score) > 1e-4 * max(1.0, abs(score)):
        return f"{line}. The arm's own score is {score:.4g}; the parts do not make up all of it."
    return f"{line}, the score."


def shown(term: str) -> str:
    """A term as a table shows it: blanks at its ends and control characters made visible."""
    bare = term.strip(" ")
    left = len(term) - len(term.lstrip(" "))
    right = len(term) - len(bare) - left if bare else 0
    return marks.visible("␣" * left + bare + "␣" * right)


def frame(why: api.Explanation) -> pd.DataFrame:
    """The terms, the largest part (of either sign) first."""
    order = sorted(why.terms, key=lambda term: (-abs(term.part), term.text))
    return pd.DataFrame(
        {
            "term": [shown(t.text) for t in order],
            "part": [t.part for t in order],
            "places": [len(t.spans) for t in order],
        }
    )
