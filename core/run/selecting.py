"""A selection as a row: what an arm kept for a question, what it hit, what it cost."""

from __future__ import annotations

import time

from core.run.entries import ArmEntry
from core.run.evidence import Question, buffer_claims
from core.run.job import Job, Row, Stopped, reason_of
from core.run.rows import SELECTIONS, blank, kept_rows, line_rows, wording
from core.types import Selection


def select(job: Job, entry: ArmEntry, question: Question) -> tuple[Selection | None, Row]:
    """A selection and the columns that tell of it; None and a reason where it failed.

    ``key``, ``item`` and ``time`` are left to the caller. Raises Stopped: an arm whose reader waits
    may be asked to stop, which is no failure.
    """
    row: Row = {
        **blank(SELECTIONS),
        "label": entry.label,
        "arm": entry.name,
        "k": entry.shown_k,
        **question.columns(),
    }
    begun = time.perf_counter()
    try:
        selection = job.arm(entry).select(question.record(), question.instruction, entry.budget)
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001 - becomes the row's reason
        row |= {"status": "failed", "reason": reason_of(error)}
        return None, row
    row |= {
        "status": "ok",
        "selection": kept_rows(selection),
        "wording": wording(selection),
        "lines": line_rows(selection),
        "selection_tokens": selection.tokens,
        "selection_cut": selection.cut,
        "selection_seconds": time.perf_counter() - begun,
        "trace": [{"name": name, "value": value} for name, value in selection.trace],
        **question.hits(selection, buffer_claims(job.protocol, entry.shown_k)),
    }
    return selection, row
