"""What the reader was really given, what it made of it, and the reference and verdicts beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core import api
from core.types import Kept
from pages.ui.patient import cards
from pages.ui.patient.kept import ArmView
from pages.ui.shared import marks

MOST_LINES = 300
FOLDED = 8
"""Runs of at least so many lines that are only recent are folded."""

CSS = """
.mc ul.mc-lines{list-style:none;margin:0;padding:0;font-size:.88rem;line-height:1.55}
.mc ul.mc-lines>li{margin:0;padding:.12rem .5rem;border-inline-start:3px solid transparent}
.mc ul.mc-lines>li.mc-source{border-inline-start-color:var(--mc-ink)}
.mc ul.mc-lines>li.mc-gold{border-inline-start-color:var(--mc-gold)}
.mc ul.mc-lines>li.mc-cut{opacity:.7;text-decoration:line-through}
.mc-lines details ul{margin:.2rem 0;padding:0;list-style:none}
.mc-lines summary{opacity:.78;font-size:.84rem;cursor:pointer}
.mc-pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:.8rem}
.mc-box{border:1px solid var(--mc-line);border-radius:8px;padding:.5rem .8rem}
.mc-box h4{font-size:.85rem;margin:0 0 .2rem;padding:0;font-weight:650;opacity:.85}
.mc-box p{margin:0 0 .3rem;white-space:pre-wrap}
"""


def budget_words(view: ArmView) -> str:
    """What was in the prompt and what was cut, in words."""
    prompt, selection = view.prompt, view.selection
    if prompt is None or selection is None:
        return ""
    shown = len(prompt.context)
    kept = len(selection.kept if selection.lines is None else selection.lines)
    words = (
        f"The prompt is {prompt.tokens:,} tokens long and holds {shown:,} of {kept:,} kept lines"
    )
    words += f"; {len(prompt.cut):,} were cut." if prompt.cut else "; nothing was cut."
    words += (
        " The question is complete."
        if prompt.question_survived
        else " **The question was cut off**: the reader did not see it."
    )
    return words


def answer_html(view: ArmView, gold: api.Gold | None) -> str:
    """The answer, the reference answer and the verdicts, side by side."""
    answer = view.answer
    if answer is None:
        said = f"<p>{marks.safe(view.reading_problem or 'Not read.')}</p>"
    elif answer.status != "ok":
        said = f"<p>No answer: {marks.safe(answer.reason)}</p>"
    else:
        said = f"<p>{marks.safe(answer.text) or '(empty answer)'}</p>"
    by = cards.answered_by(view)
    boxes = [f'<div class="mc-box"><h4>Answer · {marks.safe(by)}</h4>{said}</div>']
    if gold is None:
        reference = "<p>This question has no reference answer, so the answer is not judged.</p>"
        boxes.append(f'<div class="mc-box"><h4>Reference</h4>{reference}</div>')
    else:
        boxes.append(
            f'<div class="mc-box"><h4>Reference answer</h4><p>{marks.safe(gold.answer)}</p></div>'
        )
        rows = "".join(
            f"<div>{cards.verdict_html(name, verdict)} "
            f'<span class="mc-muted">{marks.safe(verdict.raw or verdict.reason)}</span></div>'
            for name, verdict in view.verdicts.items()
        )
        outcomes = {name: verdict.outcome for name, verdict in view.verdicts.items()}
        rows += cards.deciding_html(outcomes, cards.DECIDES)
        boxes.append(f'<div class="mc-box"><h4>Verdicts</h4>{rows or "<p>None.</p>"}</div>')
    style = f"<style>{CSS}{cards.CSS}</style>"
    return style + marks.block(f'<div class="mc-pair">{"".join(boxes)}</div>')


def context_html(view: ArmView, gold: frozenset[str]) -> str:
    """The context's lines as the reader saw them; sources and evidence marked, cut ones struck."""
    if view.prompt is None or view.selection is None:
        return marks.block("<p>There is no prompt.</p>")
    sources = frozenset(view.answer.sources) if view.answer else frozenset()
    shown = {line.sentence_id: line.text for line in view.prompt.context}
    if view.selection.lines is not None:
        return _written_html(view.selection.lines, shown, gold)
    rows: list[str] = []
    recent: list[str] = []

    def fold() -> None:
        many = len(recent) >= FOLDED
        inside = "".join(recent)
        head = (
            f"<summary>{len(recent):,} lines kept only because they are the most recent</summary>"
        )
        rows.append(f"<li><details>{head}<ul>{inside}</ul></details></li>" if many else inside)
        recent.clear()

    for kept in view.selection.kept[:MOST_LINES]:
        line, plain = _line(kept, shown, sources, gold)
        if plain and kept.kept_by == "recency":
            recent.append(line)
            continue
        fold()
        rows.append(line)
    fold()
    more = len(view.selection.kept) - MOST_LINES
    if more > 0:
        rows.append(f"<li>… {more:,} more lines; all are in the prompt's download.</li>")
    return f"<style>{CSS}</style>" + marks.block(f'<ul class="mc-lines">{"".join(rows)}</ul>')


def _written_html(
    lines: Sequence[api.ContextLine], shown: Mapping[str, str], gold: frozenset[str]
) -> str:
    """What an arm wrote in place of the record's sentences, as the reader saw it."""
    rows: list[str] = []
    for line in lines[:MOST_LINES]:
        cut = line.sentence_id not in shown
        tags = f'<span class="mc-kept">{marks.tag("cut from the prompt")}</span>' if cut else ""
        held = line.sentence_id in gold and line.shown != ()
        if held:
            tags += f'<span class="mc-held">{marks.tag("of the evidence")}</span>'
        style = "mc-cut" if cut else "mc-gold" if held else ""
        text = marks.safe(shown.get(line.sentence_id, line.text))
        rows.append(f'<li class="{style}">{tags}{text}</li>')
    more = len(lines) - MOST_LINES
    if more > 0:
        rows.append(f"<li>… {more:,} more lines; all are in the prompt's download.</li>")
    return f"<style>{CSS}</style>" + marks.block(f'<ul class="mc-lines">{"".join(rows)}</ul>')


def _line(
    kept: Kept, shown: Mapping[str, str], sources: frozenset[str], gold: frozenset[str]
) -> tuple[str, bool]:
    """One context line as HTML, and whether nothing of it is marked."""
    sentence_id = kept.sentence.id
    tags, style = "", ""
    if sentence_id in sources:
        style, tags = "mc-source", f'<span class="mc-kept">{marks.tag("answer’s source")}</span>'
    if sentence_id in gold:
        style = style or "mc-gold"
        tags += f'<span class="mc-held">{marks.tag("evidence")}</span>'
    if sentence_id not in shown:
        style = "mc-cut"
        tags += f'<span class="mc-kept">{marks.tag("cut from the prompt")}</span>'
    text = marks.safe(shown.get(sentence_id, kept.sentence.text))
    return f'<li class="{style}">{tags}{text}</li>', not tags
