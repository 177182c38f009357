"""Two arms side by side: what both prompts show, what only one does, in the order of the record.

A sentence that both show spans both columns; one that only A's or only B's prompt shows stands in
its own. Gold evidence is marked as in the evidence panel, and evidence that neither shows stands
where it belongs, dashed, and dotted where an arm had kept it. Where nobody read, it is what the
arms kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core import api
from core.types import Kept
from pages.ui.patient import evidence
from pages.ui.patient.cards import shortened
from pages.ui.patient.kept import ArmView
from pages.ui.shared import marks
from pages.ui.shared.marks import CUT_EVIDENCE, DROPPED_EVIDENCE

BOTH, ONLY_A, ONLY_B, NEITHER = "both", "only A", "only B", "neither"
MOST_ROWS = 150
LONGEST = 600
"""Characters of a sentence (or a whole note, where that is the unit) shown in a cell."""
FOLDED = 8
"""Runs of at least so many sentences that both kept only as recent are folded."""

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
    """A sentence, whose prompt shows it, its two scores (None: not shown, or kept as recent), and
    which arms had kept it and at how many tokens it was cut, in words."""

    sentence: api.Sentence
    who: str
    score_a: float | None
    score_b: float | None
    gold: bool
    cut: str = ""


def _shown(view: ArmView) -> dict[str, Kept]:
    """What an arm's prompt shows; all that it kept where nobody read."""
    if view.selection is None:
        return {}
    kept = {k.sentence.id: k for k in view.selection.kept}
    if view.prompt is None:
        return kept
    here = {line.sentence_id for line in view.prompt.context}
    return {id: one for id, one in kept.items() if id in here}


def _lost(view: ArmView) -> frozenset[str]:
    """Ids of the sentences that an arm kept and its prompt does not show."""
    kept = view.selection.kept if view.selection else ()
    return frozenset(k.sentence.id for k in kept) - _shown(view).keys()


def rows(a: ArmView, b: ArmView, gold: frozenset[str], units: Sequence[api.Sentence]) -> list[Row]:
    """Every sentence that A's or B's prompt shows, and gold evidence that neither does, in record
    order."""
    from_a, from_b = _shown(a), _shown(b)
    lost = [(view, _lost(view)) for view in (a, b)]

    def cut(id: str) -> str:
        return "; ".join(f"{view.title}: {view.cut}" for view, ids in lost if id in ids)

    table: dict[str, Row] = {}
    for sentence_id in from_a.keys() | from_b.keys():
        one, two = from_a.get(sentence_id), from_b.get(sentence_id)
        either = one or two
        assert either is not None
        who = BOTH if one and two else ONLY_A if one else ONLY_B
        table[sentence_id] = Row(
            either.sentence,
            who,
            one.score if one else None,
            two.score if two else None,
            sentence_id in gold,
            cut(sentence_id),
        )
    for unit in units if gold else ():
        if unit.id in gold and unit.id not in table:
            table[unit.id] = Row(unit, NEITHER, None, None, True, cut(unit.id))
    return sorted(table.values(), key=lambda r: (r.sentence.span.event, r.sentence.span.start))


def count_words(table: Sequence[Row], a: ArmView, b: ArmView) -> str:
    """How much the two share, in words, and what each kept that its prompt lost."""
    n = {who: sum(r.who == who for r in table) for who in (BOTH, ONLY_A, ONLY_B, NEITHER)}
    read = a.prompt is not None or b.prompt is not None
    where, by = ("in both prompts", "in the prompt of") if read else ("kept by both", "by")
    words = f"{n[BOTH]:,} {where}, {n[ONLY_A]:,} only {by} {a.title}, "
    words += f"{n[ONLY_B]:,} only {by} {b.title}"
    if n[NEITHER]:
        words += f"; {n[NEITHER]:,} of the evidence {'in neither' if read else 'kept by neither'}"
    for view in (a, b):
        lost = len(_lost(view))
        words += f"; {lost:,} kept by {view.title}, but {view.cut}" if lost else ""
    return words + "."


def _scores(row: Row, a: ArmView, b: ArmView) -> str:
    parts: list[str] = []
    for score, view, side in ((row.score_a, a, ONLY_A), (row.score_b, b, ONLY_B)):
        if row.who in (BOTH, side):
            said = "recent" if score is None else f"{score:.3g}"
            parts.append(f"{view.title} {said}")
    return " · ".join(parts)


def html_of(table: Sequence[Row], a: ArmView, b: ArmView, colours: tuple[str, str]) -> str:
    """The comparison as HTML."""
    words = {BOTH: "both", ONLY_A: f"only {a.title}", ONLY_B: f"only {b.title}", NEITHER: ""}
    style = {BOTH: "mc-both", ONLY_A: "mc-a", ONLY_B: "mc-b", NEITHER: "mc-neither"}
    cells = [
        f'<b style="--mc-arm:{colour}">{letter} · {marks.safe(view.title)}</b>'
        for letter, view, colour in (("A", a, colours[0]), ("B", b, colours[1]))
    ]
    shared: list[str] = []

    def fold() -> None:
        inside = "".join(shared)
        if len(shared) >= FOLDED:
            head = f"<summary>{len(shared):,} sentences in both, kept only as most recent</summary>"
            inside = (
                f'<details class="mc-both">{head}<div class="mc-inner">{inside}</div></details>'
            )
        cells.append(inside)
        shared.clear()

    for row in table:
        read = a.prompt is not None or b.prompt is not None
        cell = _cell(row, words[row.who], style[row.who], _scores(row, a, b), read)
        if row.who == BOTH and not row.gold and row.score_a is None and row.score_b is None:
            shared.append(cell)
            continue
        fold()
        cells.append(cell)
    fold()
    return f"<style>{CSS}</style>" + marks.block(f'<div class="mc-two">{"".join(cells)}</div>')


def _cell(row: Row, who: str, style: str, scores: str, read: bool) -> str:
    gold = " mc-gold" if row.gold and row.who != NEITHER else ""
    label = ""
    if row.who == NEITHER and row.cut:
        style += " mc-lostgold"
        label = f'<span class="mc-lostgold">{marks.tag(CUT_EVIDENCE, row.cut)}</span>'
    elif row.who == NEITHER:
        label = f'<span class="mc-dropped">{marks.tag(DROPPED_EVIDENCE, "by both")}</span>'
    elif row.gold:
        label = f'<span class="mc-held">{marks.tag(marks.THERE[read, True], row.cut)}</span>'
    date = row.sentence.time.strftime("%Y-%m-%d") if row.sentence.time else "undated"
    name = f'<span class="mc-who">{marks.safe(who)}</span>' if who else ""
    foot = " · ".join(part for part in (name, date, marks.safe(scores)) if part)
    text = marks.safe(shortened(row.sentence.text, LONGEST))
    return f'<div class="mc-cell {style}{gold}">{label}{text}<small>{foot}</small></div>'


def place(sentence: api.Sentence, record: api.Record) -> str:
    """Where a sentence stands, for a list to choose from: date, kind and its first words."""
    event = record.events[sentence.span.event]
    words = " ".join(sentence.text.split())
    return f"{evidence.when(event)} · {words[:90]}{'…' if len(words) > 90 else ''}"
