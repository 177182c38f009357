"""Export of what the Patient page shows, as JSON, CSV, text and HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd

from midchart.core import api
from midchart.pages.ui.patient import cached, model, panel
from midchart.pages.ui.patient.model import ArmView, Choice, Piece
from midchart.pages.ui.shared import marks

COLUMNS = (
    *("arm", "sentence", "event", "time", "kind", "position"),
    *("status", "kept_by", "score", "text"),
)


def _time(time: datetime | None) -> str | None:
    return time.isoformat() if time else None


def frame(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> pd.DataFrame:
    """The sentences that each arm kept and the gold sentences that it dropped, with status."""
    gold, events = model.gold_ids(pieces), choice.record.events
    units = api.sentences(choice.record, choice.protocol) if gold else ()
    rows: list[tuple[Any, ...]] = []
    for view in model.with_selection(views):
        entries = [(k.sentence, k.kept_by, k.score) for k in view.kept]
        ids = {sentence.id for sentence, _, _ in entries}
        dropped = [(unit, "", None) for unit in units if unit.id in gold and unit.id not in ids]
        for sentence, kept_by, score in entries + dropped:
            event = sentence.span.event
            rows.append(
                (
                    *(view.name, sentence.id, event, _time(events[event].time), events[event].kind),
                    round(model.position(choice.record, event), 6),
                    panel.label_of(view, sentence.id, sentence.id in gold),
                    *(kept_by, score, sentence.text),
                )
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _fields(value: Any, *names: str) -> dict[str, Any] | None:
    return None if value is None else {name: getattr(value, name) for name in names}


def _arm(view: ArmView) -> dict[str, Any]:
    if view.selection is None:
        return {"arm": view.name, "problem": view.problem}
    return {
        "arm": view.name,
        "tokens": view.selection.tokens,
        "trace": dict(view.selection.trace),
        "kept": [
            {
                "id": k.sentence.id,
                "event": k.sentence.span.event,
                "start": k.sentence.span.start,
                "end": k.sentence.span.end,
                "time": _time(k.sentence.time),
                "kind": k.sentence.kind,
                "text": k.sentence.text,
                "score": k.score,
                "kept_by": k.kept_by,
            }
            for k in view.kept
        ],
        "prompt": _fields(view.prompt, "text", "tokens", "cut", "question_survived"),
        "answer": _fields(view.answer, "text", "status", "reason", "sources"),
        "reading_problem": view.reading_problem,
        "verdicts": {
            name: _fields(verdict, "outcome", "refusal", "raw", "reason")
            for name, verdict in view.verdicts.items()
        },
    }


def as_json(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> str:
    """Everything the page shows as one JSON document."""
    document = {
        "record": choice.record.id,
        "digest": choice.record.digest,
        "instruction": choice.instruction.id,
        "question": choice.instruction.question,
        "protocol": choice.protocol.as_dict(),
        "reader": choice.reader,
        "reference": None if choice.gold is None else choice.gold.answer,
        "evidence_note": model.evidence_note(choice.gold),
        "evidence": [
            {
                "number": p.number,
                "event": p.event,
                "start": p.span.start,
                "end": p.span.end,
                "sentences": sorted(p.ids),
                "position": round(p.at, 6),
                "time": _time(p.time),
                "status": {v.name: v.status_words(p) for v in model.with_selection(views)},
            }
            for p in pieces
        ],
        "arms": [_arm(view) for view in views],
    }
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)


def prompts(views: Sequence[ArmView]) -> str:
    """Every arm's prompt, one after another."""
    return "\n\n".join(
        f"===== {view.name} ({view.prompt.tokens} tokens) =====\n{view.prompt.text}"
        for view in views
        if view.prompt is not None
    )


def evidence_page(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> str:
    """Each entry with evidence, marked for each arm, as a self-contained HTML page; "" without
    evidence."""
    if not pieces:
        return ""
    body: list[str] = []
    for view in model.with_selection(views):
        legend = marks.legend(choice.protocol.unit)
        body.append(f"<h2>{marks.for_screen(view.title, html=True)}</h2>{legend}")
        for event in sorted({piece.event for piece in pieces}):
            status = "; ".join(
                f"Evidence {p.number} of {len(pieces)}, at {model.percent(p.at)}, under "
                f"{view.title}: {view.status_words(p)}"
                for p in pieces
                if p.event == event
            )
            units = cached.near(choice, event)
            entry = panel.entry_html(choice.record, event, view, views, pieces, units)
            body.append(f"<p>{marks.for_screen(status, html=True)}.</p>{entry}")
    return marks.document(choice.instruction.question, "".join(body))
