"""What the reader was really given, what it made of it, and the reference and verdicts beside."""

from __future__ import annotations

from core import api
from pages.ui import cards, marks
from pages.ui.kept import ArmView

CSS = """
.mc-lines{list-style:none;margin:0;padding:0;font-size:.88rem;line-height:1.55}
.mc-lines li{margin:0;padding:.12rem .5rem;border-inline-start:3px solid transparent}
.mc-lines li.mc-source{border-inline-start-color:var(--mc-ink)}
.mc-lines li.mc-gold{border-inline-start-color:var(--mc-gold)}
.mc-lines li.mc-cut{opacity:.7;text-decoration:line-through}
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
    shown, kept = len(prompt.context), len(selection.kept)
    words = (
        f"The prompt is {prompt.tokens:,} tokens long and holds {shown:,} of {kept:,} kept lines"
    )
    words += f"; {len(prompt.cut):,} were cut." if prompt.cut else "; nothing was cut."
    words += (
        " The question is in it, whole."
        if prompt.question_survived
        else " **The question was cut off**: the reader never saw it."
    )
    return words


def answer_html(view: ArmView, gold: api.Gold | None, reader: str) -> str:
    """The answer, the reference answer and the verdicts, side by side."""
    answer = view.answer
    if answer is None:
        said = f"<p>{marks.safe(view.reading_problem or 'Not read.')}</p>"
    elif answer.status != "ok":
        said = f"<p>No answer: {marks.safe(answer.reason)}</p>"
    else:
        said = f"<p>{marks.safe(answer.text) or '(empty answer)'}</p>"
    boxes = [f'<div class="mc-box"><h4>Answer · {marks.safe(reader)}</h4>{said}</div>']
    if gold is None:
        reference = "<p>This question has no reference answer; nothing judges the answer.</p>"
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
        boxes.append(f'<div class="mc-box"><h4>Verdicts</h4>{rows or "<p>None.</p>"}</div>')
    style = f"<style>{CSS}{cards.CSS}</style>"
    return style + marks.block(f'<div class="mc-pair">{"".join(boxes)}</div>')


def context_html(view: ArmView, gold: frozenset[str]) -> str:
    """The context's lines as the reader saw them; sources and evidence marked, cut ones struck."""
    if view.prompt is None or view.selection is None:
        return marks.block("<p>There is no prompt.</p>")
    sources = frozenset(view.answer.sources) if view.answer else frozenset()
    shown = {line.sentence_id: line.text for line in view.prompt.context}
    rows: list[str] = []
    for kept in view.selection.kept:
        sentence_id = kept.sentence.id
        tags = ""
        style = ""
        if sentence_id in sources:
            style, tags = (
                "mc-source",
                f'<span class="mc-kept">{marks.tag("answer’s source")}</span>',
            )
        if sentence_id in gold:
            style = style or "mc-gold"
            tags += f'<span class="mc-held">{marks.tag("evidence")}</span>'
        if sentence_id in shown:
            text = marks.safe(shown[sentence_id])
        else:
            style, text = "mc-cut", marks.safe(kept.sentence.text)
            tags += f'<span class="mc-kept">{marks.tag("cut from the prompt")}</span>'
        rows.append(f'<li class="{style}">{tags}{text}</li>')
        if len(rows) >= 300:
            more = len(view.selection.kept) - len(rows)
            if more:
                rows.append(f"<li>… {more:,} more lines; all are in the prompt's download.</li>")
            break
    return f"<style>{CSS}</style>" + marks.block(f'<ul class="mc-lines">{"".join(rows)}</ul>')
