"""One question under several arms as HTML: verdicts, answer, and the context with its evidence.

What is in an arm's prompt, what was cut from it and what evidence was dropped is shown by border
and by word. Every text is escaped for HTML.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from midchart.core import api
from midchart.pages.ui.shared import chart, marks, results, verdicts
from midchart.pages.ui.shared.marks import for_screen

MOST_LINES = 14
"""Lines shown of a text that an arm wrote."""
LONGEST_REPLY = 90
"""Characters of a judge's reply."""


def question_html(instruction: api.Instruction, gold: api.Gold | None, band: str) -> str:
    """The question with its reference answer and the position of its evidence."""
    facts = {"Question": instruction.question}
    if gold is not None:
        facts["Reference"] = gold.answer or "none"
    located = f"at {band} % of the record"
    facts["Evidence"] = (
        "not found in the record, or without a date" if band == "unlocated" else located
    )
    inside = "".join(
        f"<dt>{for_screen(k, html=True)}</dt><dd>{for_screen(v, html=True)}</dd>"
        for k, v in facts.items()
    )
    return marks.block(f'<dl class="mc-facts">{inside}</dl>')


def arms_html(
    rows: Sequence[Mapping[str, Any]],
    record: api.Record,
    gold: api.Gold | None,
    protocol: api.Protocol,
    judge: str = "",
) -> str:
    """The arms' cards: verdicts, answer, and context; ``judge`` is the one that decides."""
    units = {unit.id: unit for unit in api.sentences(record, protocol)}
    evidence = api.gold_ids(record, gold, protocol) if gold is not None else frozenset()
    inside = "".join(_card(row, units, evidence, judge) for row in rows)
    return marks.block(f'<div class="mc-cards">{inside}</div>')


def _card(
    row: Mapping[str, Any],
    units: Mapping[str, api.Sentence],
    evidence: frozenset[str],
    judge: str,
) -> str:
    name = api.title("arm", row["label"])
    look = chart.look_of(row["label"])
    selected = [piece["id"] for piece in row["selection"] or ()]
    cut = frozenset(row["cut"] or ())
    if row.get("lines"):
        wording = for_screen(row["wording"] or "", html=True)
        context = f'<p class="mc-muted">Text written by the arm ({wording}):</p>'
        context += "".join(
            f'<div class="mc-line">{for_screen(line["text"], html=True)}</div>'
            for line in row["lines"][:MOST_LINES]
        )
    else:
        context = _context(selected, units, evidence, cut)
    tokens = "" if row["prompt_tokens"] is None else f", {row['prompt_tokens']:,} tokens"
    return (
        f'<article class="mc-card" style="--mc-arm:{look.colour}"><h3><span>'
        f"<i>{chart.GLYPHS[look.symbol]}</i> {for_screen(name, html=True)}</span>"
        f'<span class="mc-score">{_evidence_text(row, selected, evidence, cut)}</span></h3>'
        f"{_answer(row)}{_verdicts(row, judge)}"
        f'<p class="mc-muted">{len(selected):,} sentences{tokens}</p>'
        f"<div>{context}</div></article>"
    )


def _answer(row: Mapping[str, Any]) -> str:
    if row["status"] != "ok":
        return f'<p class="mc-muted">Failed: {for_screen(row["reason"] or "", html=True)}</p>'
    if "answer" not in row:
        return ""
    answer = f"<p><q>{for_screen(row['answer'] or '', html=True) or '(empty answer)'}</q></p>"
    if row["answer"] is None:
        answer = '<p class="mc-muted">Answer not included: the run was exported without text</p>'
    if ended := verdicts.ended_html(row.get("ended")):
        answer += f"<p>{ended}</p>"
    if row["question_survived"] is False:
        answer += '<p><span class="mc-verdict mc-no">question was cut off</span></p>'
    wrong = any(verdict["outcome"] == "incorrect" for verdict in row["verdicts"])
    if wrong and row["failure_kind"]:
        kind = for_screen(row["failure_kind"], html=True)
        answer += f'<p class="mc-muted">Failure type (rule-based): {kind}</p>'
    return answer


def _verdicts(row: Mapping[str, Any], judge: str) -> str:
    html = ""
    for verdict in row["verdicts"]:
        reply = verdict["reason"] or marks.shortened(verdict["raw"] or "", LONGEST_REPLY)
        if verdict.get("again"):
            reply += f" · asked again: {', '.join(verdict['again'])}"
        reply = f' <span class="mc-muted">{for_screen(reply, html=True)}</span>' if reply else ""
        parsed = api.Verdict(
            verdict["outcome"] or "failed",
            refusal=bool(verdict["refusal"]),
            reason=verdict["reason"] or "",
        )
        html += f"<div>{verdicts.verdict_html(verdict['judge'], parsed)}{reply}</div>"
    outcomes = {verdict["judge"]: verdict["outcome"] or "failed" for verdict in row["verdicts"]}
    return html + verdicts.deciding_html(outcomes, judge)


def _evidence_text(
    row: Mapping[str, Any],
    selected: Collection[str],
    evidence: frozenset[str],
    cut: frozenset[str],
) -> str:
    """How many sentences of the evidence are in the prompt, or were kept where there is none."""
    if not evidence:
        return ""
    included = evidence.intersection(selected)
    if row["prompt_tokens"] is None:
        return f"{len(included)} of {_sentences(evidence)} kept"
    text = f"{len(included - cut)} of {_sentences(evidence)} in the prompt"
    if row["prompt_cut"]:
        text += f", {results.cut_at(row['prompt_tokens'], row['prompt_tokens'])}"
    lost = len(included & cut)
    return text + (f"; {lost} kept but cut" if lost else "")


def _sentences(evidence: Collection[str]) -> str:
    """How many sentences hold evidence."""
    return f"{len(evidence)} sentence{'s' if len(evidence) > 1 else ''} of the evidence"


def _context(
    selected: Collection[str],
    units: Mapping[str, api.Sentence],
    evidence: frozenset[str],
    cut: frozenset[str],
) -> str:
    """The evidence in the order of the record: kept, cut or dropped."""
    return "".join(
        _line(unit, unit.id not in selected, unit.id in cut)
        for unit in units.values()
        if unit.id in evidence
    )


def _line(unit: api.Sentence, dropped: bool, cut: bool) -> str:
    date = f"<time>{unit.time:%Y-%m-%d}</time>" if unit.time else ""
    label = marks.label(not cut and not dropped, cut, True)
    text = for_screen(unit.text, html=True)
    return f'<div class="mc-line {marks.STYLE[label]}">{marks.tag(label)}{date}{text}</div>'
