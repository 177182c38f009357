"""Export of what the Patient page shows, as JSON, CSV, text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd

from midchart.core import api
from midchart.pages.ui.patient import model, panel
from midchart.pages.ui.patient.model import ArmView, Choice, Piece

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
