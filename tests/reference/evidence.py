"""The plain search for evidence: every snippet against every event, every window of sentences."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from core.text import count_tokens, cut_note, event_text, words
from core.types import Record


def score(snippet: str, text: str) -> float:
    """0.6 · share of the snippet's words + 0.4 · difflib's ratio (PROTOCOL, Units)."""
    wanted, held = set(words(snippet)), set(words(text))
    share = len(wanted & held) / max(len(wanted), 1)
    return 0.6 * share + 0.4 * SequenceMatcher(None, snippet[:200], text[:500]).ratio()


def span_in(text: str, snippet: str) -> tuple[int, int]:
    """The verbatim occurrence, or the best of all allowed runs of sentences."""
    verbatim = re.search(r"\s+".join(re.escape(part) for part in snippet.split()), text)
    if verbatim:
        return verbatim.start(), verbatim.end()
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


def locate(record: Record, snippets):
    """For each snippet (event, score, (start, end)), or None."""
    found = []
    for snippet in snippets:
        scores = [score(snippet, event_text(event)) for event in record.events]
        if not snippet.strip() or not scores or max(scores) < 0.2:
            found.append(None)
            continue
        event = scores.index(max(scores))
        text = event_text(record.events[event])
        found.append((event, scores[event], span_in(text, snippet)))
    return found
