"""Export of exactly what is seen: selections, evidence and answers as JSON, CSV, text and HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from core import api
from pages.ui.patient import evidence, kept
from pages.ui.patient.kept import ArmView, Piece
from pages.ui.shared import marks


def frame(
    record: api.Record, views: Sequence[ArmView], found: Sequence[Piece], protocol: api.Protocol
) -> pd.DataFrame:
    """One row for each sentence that an arm kept, and for each gold sentence that it dropped;
    ``status`` as the evidence panel marks it."""
    gold = frozenset(i for p in found for i in p.ids)
    units = [s for s in api.sentences(record, protocol) if s.id in gold] if gold else []
    rows: list[dict[str, Any]] = []
    for view in views:
        if view.selection is None:
            continue
        for item in view.selection.kept:
            s = item.sentence
            rows.append(
                _row(view, s.id, s.span.event, record)
                | {
                    "status": evidence.label_of(view, s.id, s.id in gold) or marks.KEPT,
                    "kept_by": item.kept_by,
                    "score": item.score,
                    "text": s.text,
                }
            )
        selected = {item.sentence.id for item in view.selection.kept}
        for s in units:
            if s.id not in selected:
                rows.append(
                    _row(view, s.id, s.span.event, record)
                    | {
                        "status": marks.DROPPED_EVIDENCE,
                        "kept_by": "",
                        "score": None,
                        "text": s.text,
                    }
                )
    columns = ["arm", "sentence", "event", "time", "kind", "position"]
    return pd.DataFrame(rows, columns=[*columns, "status", "kept_by", "score", "text"])


def _row(view: ArmView, sentence_id: str, event: int, record: api.Record) -> dict[str, Any]:
    entry = record.events[event]
    return {
        "arm": view.name,
        "sentence": sentence_id,
        "event": event,
        "time": entry.time.isoformat() if entry.time else None,
        "kind": entry.kind,
        "position": round(kept.position(record, event), 6),
    }


def _arm(view: ArmView) -> dict[str, Any]:
    if view.selection is None:
        return {"arm": view.name, "problem": view.problem}
    prompt, answer = view.prompt, view.answer
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
                "time": k.sentence.time.isoformat() if k.sentence.time else None,
                "kind": k.sentence.kind,
                "text": k.sentence.text,
                "score": k.score,
                "kept_by": k.kept_by,
            }
            for k in view.selection.kept
        ],
        "prompt": None
        if prompt is None
        else {
            "text": prompt.text,
            "tokens": prompt.tokens,
            "cut": list(prompt.cut),
            "question_survived": prompt.question_survived,
        },
        "answer": None
        if answer is None
        else {
            "text": answer.text,
            "status": answer.status,
            "reason": answer.reason,
            "sources": list(answer.sources),
        },
        "reading_problem": view.reading_problem,
        "verdicts": {
            name: {"outcome": v.outcome, "refusal": v.refusal, "raw": v.raw, "reason": v.reason}
            for name, v in view.verdicts.items()
        },
    }


def as_json(
    record: api.Record,
    instruction: api.Instruction,
    gold: api.Gold | None,
    protocol: api.Protocol,
    reader: str,
    views: Sequence[ArmView],
    found: Sequence[Piece],
) -> str:
    """Everything the page shows as one JSON document."""
    document = {
        "record": record.id,
        "digest": record.digest,
        "instruction": instruction.id,
        "question": instruction.question,
        "protocol": protocol.as_dict(),
        "reader": reader,
        "reference": None if gold is None else gold.answer,
        "evidence_note": kept.evidence_note(gold),
        "evidence": [
            {
                "number": p.number,
                "event": p.event,
                "start": p.span.start,
                "end": p.span.end,
                "sentences": sorted(p.ids),
                "position": round(p.at, 6),
                "time": p.time.isoformat() if p.time else None,
                "status": {v.name: v.status_words(p) for v in views if v.selection is not None},
            }
            for p in found
        ],
        "arms": [_arm(view) for view in views],
    }
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)


def prompts(views: Sequence[ArmView]) -> str:
    """Every arm's prompt as built, one after another."""
    parts = [
        f"===== {view.name} ({view.prompt.tokens} tokens) =====\n{view.prompt.text}"
        for view in views
        if view.prompt is not None
    ]
    return "\n\n".join(parts)


def panel_page(question: str, arm: str, legend: str, panel: str, status: str) -> str:
    """The evidence panel as a page of its own, without any request to anywhere."""
    lead = (
        f"<p>{marks.safe(arm)}. {marks.safe(status)}</p>" if status else f"<p>{marks.safe(arm)}</p>"
    )
    return marks.document(question, lead + legend + panel)
