"""Two arms side by side: sentences that both prompts show, that only one shows, and gold evidence
that neither shows, in the order of the record. Without prompts, what the arms kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from midchart.core import api
from midchart.core.types import Kept
from midchart.pages.ui.patient.context import folded
from midchart.pages.ui.patient.model import ArmView
from midchart.pages.ui.shared import marks
from midchart.pages.ui.shared.marks import CUT_EVIDENCE, DROPPED_EVIDENCE

BOTH, ONLY_A, ONLY_B, NEITHER = "both", "only A", "only B", "neither"
MOST_ROWS = 150
LONGEST = 600
"""Characters of a sentence (or a whole note, where that is the unit) shown in a cell."""

CSS = """
.mc-two{display:grid;grid-template-columns:1fr 1fr;gap:.4rem .8rem;font-size:.88rem}
.mc-two>b{border-bottom:2px solid var(--mc-arm);padding-bottom:.15rem}
.mc-two details{grid-column:1/-1;font-size:.85rem}.mc-two summary{cursor:pointer;opacity:.8}
.mc-inner{display:grid;gap:.4rem;margin-top:.4rem}
.mc-cell{border:1px solid var(--mc-line);border-radius:6px;padding:.3rem .55rem;line-height:1.5}
.mc-cell.mc-both,.mc-cell.mc-neither{grid-column:1/-1}
.mc-cell.mc-a{grid-column:1}.mc-cell.mc-b{grid-column:2}
.mc-cell.mc-gold{border:2.5px solid var(--mc-gold)}
.mc-cell.mc-neither{border:2.5px dashed var(--mc-gold)}
.mc-cell.mc-neither.mc-lostgold{border-style:dotted}
.mc-cell small{opacity:.78;display:block;font-size:.76rem}
.mc-cell .mc-who{font-weight:650;opacity:1}
@media(max-width:640px){.mc-two{grid-template-columns:1fr}.mc-cell.mc-a,.mc-cell.mc-b{grid-column:1}
 .mc-cell.mc-b{margin-inline-start:1.2rem}.mc-cell.mc-a{margin-inline-end:1.2rem}}
"""


@dataclass(frozen=True)
class Row:
    """A sentence, which prompts show it, its two scores (None: not shown, or kept as recent), and
    which arms kept it and at how many tokens it was cut, in words."""

    sentence: api.Sentence
    who: str
    score_a: float | None
    score_b: float | None
    gold: bool
    cut: str = ""


def _shown(view: ArmView) -> dict[str, Kept]:
    """The kept sentences that the prompt contains; all of them without a prompt."""
    entries = {k.sentence.id: k for k in view.kept}
    if view.prompt is None:
        return entries
    context = {line.sentence_id for line in view.prompt.context}
    return {id: k for id, k in entries.items() if id in context}


def _lost(view: ArmView) -> set[str]:
    """Ids of the sentences that an arm kept and its prompt does not contain."""
    return {k.sentence.id for k in view.kept} - _shown(view).keys()


def rows(a: ArmView, b: ArmView, gold: frozenset[str], units: Sequence[api.Sentence]) -> list[Row]:
    """Sentences that A's or B's prompt shows and gold evidence that neither does, in order."""
    from_a, from_b = _shown(a), _shown(b)
    lost = [(view, _lost(view)) for view in (a, b)]
    sentences = {id: k.sentence for id, k in (from_a | from_b).items()}
    sentences |= {u.id: u for u in units if u.id in gold and u.id not in sentences}
    table: list[Row] = []
    for id, sentence in sentences.items():
        one, two = from_a.get(id), from_b.get(id)
        who = BOTH if one and two else ONLY_A if one else ONLY_B if two else NEITHER
        cut = "; ".join(f"{view.title}: {view.cut}" for view, ids in lost if id in ids)
        scores = (k.score if k else None for k in (one, two))
        table.append(Row(sentence, who, *scores, id in gold, cut))
    return sorted(table, key=lambda row: (row.sentence.span.event, row.sentence.span.start))


def count_words(table: Sequence[Row], a: ArmView, b: ArmView) -> str:
    """How much the two prompts share, and what each arm kept that its prompt lost."""
    n = Counter(row.who for row in table)
    read = a.prompt is not None or b.prompt is not None
    where, by = ("in both prompts", "in the prompt of") if read else ("kept by both", "by")
    words = f"{n[BOTH]:,} {where}, {n[ONLY_A]:,} only {by} {a.title}, "
    words += f"{n[ONLY_B]:,} only {by} {b.title}"
    if n[NEITHER]:
        words += f"; {n[NEITHER]:,} of the evidence {'in neither' if read else 'kept by neither'}"
    for view in (a, b):
        if lost := len(_lost(view)):
            words += f"; {lost:,} kept by {view.title}, but {view.cut}"
    return words + "."


def html_of(table: Sequence[Row], a: ArmView, b: ArmView, colours: tuple[str, str]) -> str:
    """The comparison as HTML; long runs that both kept only as recent are folded."""
    heads = [
        f'<b style="--mc-arm:{colour}">{letter} · {marks.safe(view.title)}</b>'
        for letter, view, colour in (("A", a, colours[0]), ("B", b, colours[1]))
    ]
    cells = folded(
        (
            _cell(row, a, b),
            row.who == BOTH and not row.gold and row.score_a is None and row.score_b is None,
        )
        for row in table
    )
    body = "".join(
        text
        if n is None
        else f'<details class="mc-both"><summary>{n:,} sentences in both, kept only as most recent'
        f'</summary><div class="mc-inner">{text}</div></details>'
        for text, n in cells
    )
    return f"<style>{CSS}</style>" + marks.block(
        f'<div class="mc-two">{"".join(heads)}{body}</div>'
    )


def _cell(row: Row, a: ArmView, b: ArmView) -> str:
    read = a.prompt is not None or b.prompt is not None
    who, style = {
        BOTH: ("both", "mc-both"),
        ONLY_A: (f"only {a.title}", "mc-a"),
        ONLY_B: (f"only {b.title}", "mc-b"),
        NEITHER: ("", "mc-neither"),
    }[row.who]
    tag = ""
    if row.who == NEITHER:
        kind, label, extra = "mc-dropped", DROPPED_EVIDENCE, "by both"
        if row.cut:
            kind, label, extra = "mc-lostgold", CUT_EVIDENCE, row.cut
            style += " mc-lostgold"
        tag = f'<span class="{kind}">{marks.tag(label, extra)}</span>'
    elif row.gold:
        style += " mc-gold"
        tag = f'<span class="mc-held">{marks.tag(marks.THERE[read, True], row.cut)}</span>'
    scores = " · ".join(
        f"{view.title} {'recent' if score is None else f'{score:.3g}'}"
        for score, view, side in ((row.score_a, a, ONLY_A), (row.score_b, b, ONLY_B))
        if row.who in (BOTH, side)
    )
    date = row.sentence.time.strftime("%Y-%m-%d") if row.sentence.time else "undated"
    name = f'<span class="mc-who">{marks.safe(who)}</span>' if who else ""
    foot = " · ".join(part for part in (name, date, marks.safe(scores)) if part)
    text = marks.safe(marks.shortened(row.sentence.text, LONGEST))
    return f'<div class="mc-cell {style}">{tag}{text}<small>{foot}</small></div>'
