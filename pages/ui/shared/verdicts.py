"""Verdicts in words: an outcome by word and border, and which judge decides where judges differ.

Never red or green. All text of records, readers and runs is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping

from midchart.core import api
from midchart.pages.ui.shared import marks

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
    text = marks.for_screen(words, html=True)
    return f'<span class="mc-verdict {_CLASS.get(outcome, "mc-open-word")}">{text}</span>'


def ended_html(ended: str | None) -> str:
    """How an answer ended; nothing where it ended by itself or that is not known."""
    words = ENDS.get(ended or "")
    return f'<span class="mc-verdict mc-open-word">{words}</span>' if words else ""


def verdict_html(judge: str, verdict: api.Verdict) -> str:
    """A verdict with its judge's name."""
    name = marks.for_screen(api.title("judge", judge), html=True)
    return f'{outcome_html(verdict.outcome, verdict.refusal)}<span class="mc-muted">{name}</span>'


def deciding_html(outcomes: Mapping[str, str], judge: str) -> str:
    """Which judge decides where judges disagree; nothing where they agree.

    ``outcomes``: judge → outcome; ``judge``: the one that decides, "" where none does.
    """
    if len(set(outcomes.values())) < 2:
        return ""
    words = "The judges differ. "
    if any(api.split_label(name)[0] == "token_overlap" for name in outcomes):
        words += "Token overlap counts shared words, so it can accept an incorrect value. "
    words += (
        f"Deciding judge: {api.title('judge', judge)}" if judge in outcomes else "No deciding judge"
    )
    text = marks.for_screen(words, html=True)
    return f'<div class="mc-muted">{text}; compare with the reference answer.</div>'
