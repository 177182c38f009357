"""The reader's prompt line by line: sources, evidence and cut lines marked. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from midchart.core import api
from midchart.pages.ui.patient.model import ArmView
from midchart.pages.ui.shared import marks

CSS = """
.mc ul.mc-lines{list-style:none;margin:0;padding:0;font-size:.88rem;line-height:1.55}
.mc ul.mc-lines>li{margin:0;padding:.12rem .5rem;border-inline-start:3px solid transparent}
.mc ul.mc-lines>li.mc-source{border-inline-start-color:var(--mc-ink)}
.mc ul.mc-lines>li.mc-gold{border-inline-start-color:var(--mc-gold)}
.mc ul.mc-lines>li.mc-cut{opacity:.7;text-decoration:line-through}
.mc-lines details ul{margin:.2rem 0;padding:0;list-style:none}
.mc-lines summary{opacity:.78;font-size:.84rem;cursor:pointer}
"""

MOST_LINES = 300
FOLDED = 8
"""Shortest run of lines kept only as recent that is folded."""


def folded(items: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, int | None]]:
    """HTML pieces, each with whether it may be folded, as joined runs; long ones with a length."""
    for foldable, run in groupby(items, key=lambda item: item[1]):
        pieces = [html for html, _ in run]
        yield "".join(pieces), len(pieces) if foldable and len(pieces) >= FOLDED else None


def budget_words(view: ArmView) -> str:
    """What the prompt contains and what was cut, in words."""
    prompt, selection = view.prompt, view.selection
    if prompt is None or selection is None:
        return ""
    line_count = len(selection.kept if selection.lines is None else selection.lines)
    cut = f"{len(prompt.cut):,} were cut." if prompt.cut else "nothing was cut."
    question = (
        "The question is complete."
        if prompt.question_survived
        else "**The question was cut off**: the reader did not see it."
    )
    return (
        f"The prompt is {prompt.tokens:,} tokens long and holds {len(prompt.context):,} of "
        f"{line_count:,} kept lines; {cut} {question}"
    )


def context_html(view: ArmView, gold: frozenset[str]) -> str:
    """The context's lines as the reader saw them, with sources, evidence and cut lines marked."""
    prompt, selection = view.prompt, view.selection
    if prompt is None or selection is None:
        return marks.block("<p>There is no prompt.</p>")
    shown = {line.sentence_id: line.text for line in prompt.context}
    sources = frozenset(view.answer.sources) if view.answer else frozenset()
    if selection.lines is None:
        lines = [
            _line(k.sentence.id, k.sentence.text, k.kept_by == "recency", shown, sources, gold)
            for k in selection.kept
        ]
    else:
        lines = [
            _written(line, shown, line.sentence_id in gold and line.shown != ())
            for line in selection.lines
        ]
    rows = [
        text
        if n is None
        else f"<li><details><summary>{n:,} lines kept only because they are the most recent"
        f"</summary><ul>{text}</ul></details></li>"
        for text, n in folded(lines[:MOST_LINES])
    ]
    more = len(lines) - MOST_LINES
    if more > 0:
        rows.append(f"<li>… {more:,} more lines; all are in the prompt's download.</li>")
    style = f"<style>{CSS}</style>"
    return style + marks.block(f'<ul class="mc-lines">{"".join(rows)}</ul>')


def _tag(style: str, label: str) -> str:
    return f'<span class="{style}">{marks.tag(label)}</span>'


CUT_TAG = _tag("mc-kept", marks.CUT)


def _line(
    id: str,
    text: str,
    recent: bool,
    shown: Mapping[str, str],
    sources: frozenset[str],
    gold: frozenset[str],
) -> tuple[str, bool]:
    """A kept sentence as HTML, and whether it may be folded."""
    tags, style = "", ""
    if id in sources:
        style, tags = "mc-source", _tag("mc-kept", "answer’s source")
    if id in gold:
        style, tags = style or "mc-gold", tags + _tag("mc-held", "evidence")
    if id not in shown:
        style, tags = "mc-cut", tags + CUT_TAG
    html = f'<li class="{style}">{tags}{marks.safe(shown.get(id, text))}</li>'
    return html, recent and not tags


def _written(line: api.ContextLine, shown: Mapping[str, str], gold: bool) -> tuple[str, bool]:
    """A line that an arm wrote in place of the record's sentences, as HTML."""
    cut = line.sentence_id not in shown
    tags = (CUT_TAG if cut else "") + (_tag("mc-held", "of the evidence") if gold else "")
    style = "mc-cut" if cut else "mc-gold" if gold else ""
    text = marks.safe(shown.get(line.sentence_id, line.text))
    return f'<li class="{style}">{tags}{text}</li>', False
