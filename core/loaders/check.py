"""Read a whole cohort and say what is there, what was skipped and where (``check --json``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from core.errors import DataError
from core.loaders.gold import gold_under
from core.loaders.labelled import StoredRecords, readable_tasks
from core.loaders.locator import locator_errors
from core.protocol import Protocol
from core.text import count_tokens, event_text
from core.types import Cohort

POSITION = ("order", "time", "token", "score", "candidates")
"""What is said of each located gold: its positions, its score and at how many places it has it."""


def check_cohort(
    cohort: Cohort,
    progress: Callable[[int, int], None] | None = None,
    protocol: Protocol | None = None,
    locator: bool = False,
) -> dict[str, Any]:
    """Counts, skipped parts, warnings and gold positions of a cohort; reads all of it.

    ``records`` counts those that could be read; ``events`` and ``tokens`` (words and punctuation
    marks of event texts) are theirs, None for coded events. ``unlocated`` counts gold whose
    evidence was not found. A cohort with labels adds ``labels``: by task n, positive, and by split
    the labels (``splits``) and the positive ones (``positives``). Evidence is located as
    ``protocol`` says (default: corrected); ``locator`` adds how often that goes wrong here
    (:func:`core.loaders.locator.locator_errors`). ``progress`` is told how much
    is done and planned while coded events are read in.
    """
    rule = protocol or Protocol()
    cohort = gold_under(cohort, rule)
    records, events, tokens = _counts(cohort, progress)
    labels = _labels(cohort)
    gold = [(i, cohort.gold[i.id]) for i in cohort.instructions if i.id in cohort.gold]
    located = [(i, g) for i, g in gold if g.order is not None]
    found: dict[str, Any] = {
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
            {"record": i.record_id, "instruction": i.id}
            | {name: getattr(g, name) for name in POSITION}
            for i, g in located
        ],
    }
    if locator:
        found["locator"] = locator_errors(cohort, rule, "token", progress)
    return found | ({"labels": labels} if labels is not None else {})


def _counts(
    cohort: Cohort, progress: Callable[[int, int], None] | None
) -> tuple[int, int, int | None]:
    if isinstance(cohort.records, StoredRecords):
        store = cohort.records.data.store(progress)
        return len(store.patients), store.events, None
    records = events = tokens = 0
    for id in cohort.records:
        try:
            record = cohort.records[id]
        except DataError:
            continue  # it is among cohort.skipped now
        records += 1
        events += len(record.events)
        tokens += sum(count_tokens(event_text(event)) for event in record.events)
    return records, events, tokens


def _labels(cohort: Cohort) -> dict[str, Any] | None:
    """Counts by task; None for a cohort of another sort."""
    if not isinstance(cohort.records, StoredRecords):
        return None
    found: dict[str, Any] = {}
    for task in readable_tasks(cohort.records.data):
        count = cohort.labels[task]
        found[task] = {
            "n": count.n,
            "positive": count.positive,
            "splits": {name: n for name, n, _ in count.splits},
            "positives": {name: positive for name, _, positive in count.splits},
        }
    return found
