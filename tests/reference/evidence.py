"""The plain searches for evidence: every snippet against every event, every window of sentences."""

from __future__ import annotations

import math
import re
from difflib import SequenceMatcher

from midchart.core.protocol import Protocol
from midchart.core.text import count_tokens, cut_note, event_text, words
from midchart.core.types import Record


def paper_score(snippet: str, text: str) -> float:
    """0.6 · share of the snippet's words + 0.4 · difflib's ratio (docs/methods.md, Units)."""
    wanted, held = set(words(snippet)), set(words(text))
    share = len(wanted & held) / max(len(wanted), 1)
    return 0.6 * share + 0.4 * SequenceMatcher(None, snippet[:200], text[:500]).ratio()


def terms(text: str) -> list[str]:
    """Lower-cased words, numbers whole."""
    return re.findall(r"\d+(?:[.,:/]\d+)+|\w+", text.lower())


def folded(snippet: str) -> str:
    return r"\s+".join(re.escape(part) for part in snippet.split())


def window_score(snippet: str, text: str) -> float:
    """The best share of the snippet's terms in any window; .95 of it where it is not quoted."""
    snippet_terms, text_terms = terms(snippet), terms(text)
    if not snippet_terms:
        return 0.0

    def weight(some: set[str]) -> int:
        return sum(3 if any(c.isdecimal() for c in term) else 1 for term in some)

    width = math.ceil(1.5 * len(snippet_terms))
    windows = [set(text_terms[i : i + width]) for i in range(max(1, len(text_terms)))]
    share = max(weight(set(snippet_terms) & window) for window in windows) / weight(
        set(snippet_terms)
    )
    return share if re.search(folded(snippet), text, re.I) else 0.95 * share


def quotes(text: str, snippet: str, exact_case: bool) -> list[tuple[int, int]]:
    """All verbatim occurrences of the best kind."""
    if not snippet.split():
        return []
    plain = folded(snippet)
    word = rf"(?<!\w){plain}(?!\w)"
    kinds = [re.compile(plain)] if exact_case else [
        re.compile(word), re.compile(word, re.I), re.compile(plain, re.I)
    ]  # fmt: skip
    matches = [[m.span() for m in kind.finditer(text)] for kind in kinds]
    return next((spans for spans in matches if spans), [])


def span_in(text: str, snippet: str, exact_case: bool = False) -> tuple[int, int]:
    """The verbatim occurrence, or the best of all allowed runs of sentences."""
    verbatim = quotes(text, snippet, exact_case)
    if verbatim:
        return verbatim[0]
    pieces = cut_note(text) or [(0, len(text))]
    runs = [(i, j) for i in range(len(pieces)) for j in range(i, len(pieces))]
    wanted = set(words(snippet))

    def tokens(run):
        return sum(count_tokens(text[a:b]) for a, b in pieces[run[0] : run[1] + 1])

    def quality(run):
        held = {w for a, b in pieces[run[0] : run[1] + 1] for w in words(text[a:b])}
        return len(held & wanted), -tokens(run), -run[0]

    longest = 1.5 * count_tokens(snippet)
    best = max((r for r in runs if r[0] == r[1] or tokens(r) <= longest), key=quality)
    return pieces[best[0]][0], pieces[best[1]][1]


def locate(record: Record, snippets, protocol: Protocol):
    """For each snippet (event, score, (start, end), candidates), or None."""
    exact_case = protocol.locate == "paper"
    score = paper_score if exact_case else window_score
    candidates = []
    for snippet in snippets:
        scores = [score(snippet, event_text(event)) for event in record.events]
        usable = snippet.strip() if exact_case else terms(snippet)
        if not usable or not scores or max(scores) < protocol.locate_threshold:
            candidates.append(None)
            continue
        event = scores.index(max(scores))
        text = event_text(record.events[event])
        equal = [event_text(record.events[i]) for i, s in enumerate(scores) if s == max(scores)]
        places = sum(max(1, len(quotes(t, snippet, exact_case))) for t in equal)
        candidates.append((event, scores[event], span_in(text, snippet, exact_case), places))
    return candidates
