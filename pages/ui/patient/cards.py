"""One card an arm: what it kept, what it dropped, what was answered, in words.

The verdict is a word in a border, never red or green. Every text of the record or the reader is
escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from core import api
from pages.ui.patient import kept
from pages.ui.patient.kept import ArmView, Piece
from pages.ui.patient.timeline import Look
from pages.ui.shared import marks

GLYPH = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "cross": "✚",
    "x": "✖",
    "circle-open": "○",
    "square-open": "□",
    "diamond-open": "◇",
    "triangle-up-open": "△",
}

CSS = """
.mc-cards{display:grid;gap:.7rem;
 grid-template-columns:repeat(auto-fit,minmax(min(13.6rem,100%),1fr))}
.mc-card{border:1px solid var(--mc-line);border-radius:8px;padding:.6rem .8rem .65rem;
 border-block-start:3px solid var(--mc-arm,currentColor);display:flex;flex-direction:column;
 gap:.35rem}
.mc-card h3{font-size:1rem;font-weight:650;margin:0;padding:0;display:flex;flex-wrap:wrap;
 gap:0 .45rem;align-items:baseline;justify-content:space-between}
.mc-card h3 i{font-style:normal;color:var(--mc-arm)}
.mc-card p{margin:0;font-size:.88rem;line-height:1.45}
.mc-score{font-size:.8rem;font-weight:600;white-space:nowrap}
.mc-answer{border-block-start:1px solid var(--mc-line);padding-block-start:.35rem;
 margin-block-start:auto}
.mc-answer q{quotes:none;font-style:normal}
.mc-verdict{display:inline-block;border:1.5px solid currentColor;border-radius:4px;padding:0 .4em;
 font-size:.78rem;font-weight:600;line-height:1.5;margin-inline-end:.35em}
.mc-verdict.mc-no{border-style:dashed}
.mc-verdict.mc-open-word{border-style:dotted;font-weight:450}
.mc-said{display:flex;flex-wrap:wrap;gap:.25rem .8rem;margin-top:.25rem}
.mc-muted{opacity:.78;font-size:.8rem}
"""

DECIDES = "exact"
"""The judge that decides on the Patient page: it compares values and words, not words alone."""
_VERDICT_CLASS = {"correct": "", "incorrect": "mc-no"}
SHORT = 220


def shortened(text: str, most: int = SHORT) -> str:
    """The first characters of a text, cut at a word."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"


def verdict_html(judge: str, verdict: api.Verdict) -> str:
    """A verdict by word and border."""
    kind = _VERDICT_CLASS.get(verdict.outcome, "mc-open-word")
    words = verdict.outcome + (", refusal" if verdict.refusal else "")
    return (
        f'<span class="mc-verdict {kind}">{marks.safe(words)}</span>'
        f'<span class="mc-muted">{marks.safe(judge.replace("_", " "))}</span>'
    )


def answered_by(view: ArmView) -> str:
    """The reader of an answer, and that it only quotes where it does."""
    return view.reader + (" · extractive: quotes only" if view.only_quotes else "")


def deciding_html(outcomes: Mapping[str, str], judge: str) -> str:
    """Which judge decides where judges differ; nothing where they agree.

    ``outcomes``: judge → outcome; ``judge``: the one that decides, "" where none does.
    """
    if len(set(outcomes.values())) < 2:
        return ""
    words = "The judges differ. "
    if any(name.partition(" ")[0] == "token_overlap" for name in outcomes):
        words += "Token overlap counts shared words, so it can accept an incorrect value. "
    who = judge.replace("_", " ")
    words += f"Deciding judge: {who}" if judge in outcomes else "No deciding judge"
    return f'<div class="mc-muted">{marks.safe(words)}; compare with the reference answer.</div>'


def _answer(view: ArmView) -> str:
    if view.reading_problem:
        return f'<p class="mc-answer mc-muted">Not read: {marks.safe(view.reading_problem)}</p>'
    if view.answer is None:
        return ""
    if view.answer.status != "ok":
        return f'<p class="mc-answer mc-muted">No answer: {marks.safe(view.answer.reason)}</p>'
    text = marks.safe(shortened(view.answer.text)) or "(empty answer)"
    lost = (
        ""
        if view.prompt is None or view.prompt.question_survived
        else '<br><span class="mc-verdict mc-no">question was cut off</span>'
    )
    verdicts = "".join(
        f"<span>{verdict_html(name, verdict)}</span>" for name, verdict in view.verdicts.items()
    )
    outcomes = {name: verdict.outcome for name, verdict in view.verdicts.items()}
    decides = deciding_html(outcomes, DECIDES)
    said = f'<div class="mc-said">{verdicts}</div>{decides}' if verdicts else ""
    by = f'<div class="mc-muted">{marks.safe(answered_by(view))}</div>' if view.reader else ""
    return f'<div class="mc-answer">{by}<p><q>{text}</q>{lost}</p>{said}</div>'


def card(
    view: ArmView, look: Look, found: Sequence[Piece], size: tuple[int, int], unit: str
) -> str:
    """One arm's card."""
    glyph = GLYPH.get(look.symbol, "●")
    score = ""
    if view.selection is None:
        words = marks.safe(view.problem) or "working …"
        body = f'<p class="mc-muted">{words}</p>'
        score = "not run" if view.pending else "away" if view.problem else ""
    else:
        told = kept.headline(view, found, *size, unit)
        body = f"<p>{marks.safe(told)}</p>"
        body += _answer(view)
        if found:
            held = sum(view.status(p) in kept.HELD for p in found)
            score = f"{held} of {len(found)} evidence"
            score += " in the prompt" if view.prompt is not None else ""
            score += f", {view.cut}" if view.cut else ""
    return (
        f'<article class="mc-card" style="--mc-arm:{look.colour}"><h3><span><i>{glyph}</i> '
        f'{marks.safe(view.title)}</span><span class="mc-score">{score}</span></h3>{body}</article>'
    )


def cards(
    views: Sequence[ArmView],
    looks: Sequence[Look],
    found: Sequence[Piece],
    size: tuple[int, int],
    unit: str,
) -> str:
    """All arms' cards as HTML."""
    inside = "".join(
        card(view, look, found, size, unit) for view, look in zip(views, looks, strict=True)
    )
    return f"<style>{CSS}</style>" + marks.block(f'<div class="mc-cards">{inside}</div>')


def frame(views: Sequence[ArmView], found: Sequence[Piece]) -> pd.DataFrame:
    """The cards' numbers as a table."""
    rows: list[dict[str, object]] = []
    for view in views:
        row: dict[str, object] = {"Arm": view.title}
        if view.selection is None:
            rows.append(row | {"Not installed": view.problem})
            continue
        status = [p.status(view.ids) for p in found]
        row |= {
            "Kept": len(view.selection.kept),
            "Tokens": view.selection.tokens,
            "Evidence in prompt": (
                sum(view.status(p) == kept.SHOWN for p in found)
                if found and view.prompt is not None
                else None
            ),
            "Evidence kept, before any prompt limit": status.count(kept.KEPT) if found else None,
            "Evidence kept but cut": (
                sum(view.status(p) == kept.CUT for p in found)
                if found and view.prompt is not None
                else None
            ),
            "Cut": view.cut,
            "Evidence dropped": status.count(kept.DROPPED) if found else None,
            "Dropped at": ", ".join(
                kept.percent(p.at)
                for p, word in zip(found, status, strict=True)
                if word == kept.DROPPED
            ),
            "Prompt tokens": view.prompt.tokens if view.prompt else None,
            "Question survived": view.prompt.question_survived if view.prompt else None,
            "Answer": view.answer.text if view.answer else view.reading_problem,
        }
        row |= {f"Verdict: {name}": v.outcome for name, v in view.verdicts.items()}
        rows.append(row)
    return pd.DataFrame(rows)
