"""Read a whole cohort and say what is there, what was skipped and where (``check --json``)."""

from __future__ import annotations

import dataclasses
from typing import Any

from core.errors import DataError
from core.text import count_tokens, event_text
from core.types import Cohort


def check_cohort(cohort: Cohort) -> dict[str, Any]:
    """Counts, skipped parts, warnings and gold positions of a cohort; reads all of it.

    ``records`` counts those that could be read; ``events`` and ``tokens`` (words and punctuation
    marks of event texts) are theirs. ``unlocated`` counts gold whose evidence was not found.
    """
    records = events = tokens = 0
    for id in cohort.records:
        try:
            record = cohort.records[id]
        except DataError:
            continue  # it is among cohort.skipped now
        records += 1
        events += len(record.events)
        tokens += sum(count_tokens(event_text(event)) for event in record.events)
    gold = [(i, cohort.gold[i.id]) for i in cohort.instructions if i.id in cohort.gold]
    located = [(i, g) for i, g in gold if g.order is not None]
    return {
        "name": cohort.manifest.name,
        "path": cohort.path,
        "format": cohort.format,
        "manifest": dataclasses.asdict(cohort.manifest),
        "records": records,
        "events": events,
        "tokens": tokens,
        "instructions": len(cohort.instructions),
        "gold": len(cohort.gold),
        "unlocated": len(gold) - len(located),
        "responses": len(cohort.responses),
        "skipped": [dataclasses.asdict(skip) for skip in cohort.skipped],
        "warnings": list(cohort.warnings),
        "positions": [
            {"record": i.record_id, "instruction": i.id, "order": g.order, "time": g.time}
            for i, g in located
        ],
    }
