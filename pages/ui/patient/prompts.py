"""What an arm gave the reader, line by line: kept, cut and dropped evidence and the answer's source
marked as in the record; two arms side by side. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from midchart.core import api
from midchart.pages.ui.patient.model import ArmView, label_of
from midchart.pages.ui.shared import marks

MOST_LINES = 300
SOURCE = "answer’s source"


class Line(NamedTuple):
    """A line of a prompt, or one that is missing from it: the sentence it is of, its text, and its
    label (:mod:`pages.ui.shared.marks`)."""

    id: str
    text: str
    label: str


def lines(view: ArmView, gold: frozenset[str], units: Sequence[api.Sentence]) -> list[Line]:
    """The lines of an arm in the order of the record: those of the prompt as the reader got them,
    what was cut from it, and dropped evidence; without a prompt, what the arm kept."""
    selection = view.selection
    if selection is None:
        return []
    shown = {line.sentence_id: line.text for line in view.prompt.context} if view.prompt else {}
    if selection.lines is not None:
        there = shown if view.prompt else {line.sentence_id: "" for line in selection.lines}
        return [
            Line(
                line.sentence_id,
                shown.get(line.sentence_id, line.text),
                marks.label(
                    line.sentence_id in there,
                    line.sentence_id not in there,
                    line.sentence_id in gold and line.shown != (),
                ),
            )
            for line in selection.lines
        ]
    sentences = {k.sentence.id: k.sentence for k in view.kept}
    sentences |= {unit.id: unit for unit in units if unit.id in gold}
    result: list[Line] = []
    for one in sorted(sentences.values(), key=lambda s: (s.span.event, s.span.start)):
        label = label_of(view, one.id, one.id in gold)
        result.append(Line(one.id, shown.get(one.id, one.text), label))
    return result


def budget_words(view: ArmView) -> str:
    """What the prompt contains and what was cut, in words (markdown)."""
    prompt, selection = view.prompt, view.selection
    if prompt is None or selection is None:
        return ""
    line_count = len(selection.kept if selection.lines is None else selection.lines)
    cut = f"{len(prompt.cut):,} were cut." if prompt.cut else "nothing was cut."
    question = (
        ""
        if prompt.question_survived
        else " **The question was cut off**: the reader did not see it."
    )
    return (
        f"The prompt is {prompt.tokens:,} tokens long and holds {len(prompt.context):,} of "
        f"{line_count:,} kept lines; {cut}{question}"
    )


def lines_html(view: ArmView, gold: frozenset[str], units: Sequence[api.Sentence]) -> str:
    """An arm's lines as HTML."""
    sources = frozenset(view.answer.sources) if view.answer else frozenset()
    wanted = lines(view, gold, units)
    rows = [_line(line, line.id in sources) for line in wanted[:MOST_LINES]]
    if (more := len(wanted) - MOST_LINES) > 0:
        rows.append(f"<li>… {more:,} more lines; all are in the prompt's download.</li>")
    body = "".join(rows) or "<li>No other lines.</li>"
    return marks.block(f'<ul class="mc-lines">{body}</ul>')


def _line(line: Line, source: bool) -> str:
    tag = marks.tag(SOURCE) if source else ""
    if line.label == marks.KEPT:
        return f"<li>{tag}{marks.for_screen(line.text, html=True)}</li>"
    return (
        f'<li>{tag}<mark class="{marks.STYLE[line.label]}">{marks.tag(line.label)}'
        f"{marks.for_screen(line.text, html=True)}</mark></li>"
    )
