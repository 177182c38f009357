"""Which questions an arm drops evidence of, known before a question is opened.

A thread looks at one question after another, those of one cohort, arm and protocol once while the
app runs; the page reads what is known so far.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui.patient.model import DROPPED, PARTLY, evidence_pieces
from midchart.pages.ui.shared.cache import cached
from midchart.pages.ui.sign_in import later

Key = tuple[str, tuple[api.Span, ...]]
_TURN = threading.Lock()
"""One thread looks at a time: several would only share the processor."""


class DroppedEvidence:
    """How many pieces of a question's evidence an arm's selection drops, some or all of their
    sentences, by question.

    ``problem``: why the arm cannot select, or the files cannot be read any more; "" without one.
    """

    def __init__(self, arm: str, protocol: api.Protocol) -> None:
        self.arm, self.protocol, self.problem = arm, protocol, ""
        self._known: dict[Key, int | None] = {}
        self._thread: threading.Thread | None = None

    def look(self, cohort: api.Cohort, wait_s: float = 0.0) -> None:
        """Look at every question in a thread, and wait for it up to ``wait_s`` seconds."""
        missing = [i for i in with_evidence(cohort) if _key(cohort, i) not in self._known]
        if missing and not self.problem and (self._thread is None or not self._thread.is_alive()):
            work = later(self._work, cohort, missing)
            self._thread = threading.Thread(target=work, daemon=True)
            self._thread.start()
        if self._thread is not None and wait_s:
            self._thread.join(wait_s)

    def look_at(self, cohort: api.Cohort, record_id: str, within_s: float) -> None:
        """Look at a patient's questions at once, as many as ``within_s`` seconds allow."""
        end = time.monotonic() + within_s
        for instruction in with_evidence(cohort, record_id):
            if time.monotonic() < end:
                self._count(cohort, instruction)

    def number(self, cohort: api.Cohort, instruction: api.Instruction) -> int | None:
        """Number of pieces dropped; None where it is not known."""
        return self._known.get(_key(cohort, instruction))

    def seen(self, cohort: api.Cohort) -> int:
        """Number of questions looked at."""
        return sum(
            _key(cohort, instruction) in self._known for instruction in with_evidence(cohort)
        )

    def complete(self, cohort: api.Cohort) -> bool:
        """Whether every question was looked at, or none can be."""
        return bool(self.problem) or self.seen(cohort) == len(with_evidence(cohort))

    def unknown(self, cohort: api.Cohort) -> int:
        """Number of questions that were looked at in vain: unreadable, or summarised by the arm."""
        known = [self._known.get(_key(cohort, one), 0) for one in with_evidence(cohort)]
        return known.count(None)

    def questions(self, cohort: api.Cohort) -> list[api.Instruction]:
        """The questions of which evidence is dropped, as far as known."""
        return [one for one in with_evidence(cohort) if self.number(cohort, one)]

    def _work(self, cohort: api.Cohort, instructions: Iterable[api.Instruction]) -> None:
        with _TURN:
            for instruction in instructions:
                try:
                    self._count(cohort, instruction)
                except OSError as error:
                    self.problem = f"the records cannot be read any more ({type(error).__name__})"
                    return

    def _count(self, cohort: api.Cohort, instruction: api.Instruction) -> None:
        key = _key(cohort, instruction)
        if key in self._known:
            return
        try:
            record = cohort.records[instruction.record_id]
            selection = api.select(cohort, record, instruction, self.arm, self.protocol)
        except MidchartError:
            self._known[key] = None  # the page names the reason where the question is opened
            return
        pieces = evidence_pieces(record, cohort.gold[instruction.id], self.protocol)
        summarised = selection.lines is not None and not selection.kept
        statuses = [piece.selected(selection) for piece in pieces]
        self._known[key] = (
            None if summarised else sum(status in (DROPPED, PARTLY) for status in statuses)
        )


def _key(cohort: api.Cohort, instruction: api.Instruction) -> Key:
    return instruction.id, cohort.gold[instruction.id].spans


def with_evidence(cohort: api.Cohort, record_id: str = "") -> list[api.Instruction]:
    """The questions with located evidence, patient by patient, or those of one patient; reads
    their records."""
    place = {id: at for at, id in enumerate(cohort.records) if record_id in ("", id)}
    located = [
        one
        for one in cohort.instructions
        if one.record_id in place and one.id in cohort.gold and cohort.gold[one.id].spans
    ]
    return sorted(located, key=lambda one: place[one.record_id])


@cached(lambda key, arm, protocol: (key, arm, repr(protocol)), entries=64, shared=True)
def table(cohort_key: str, arm: str, protocol: api.Protocol) -> DroppedEvidence:
    """The table of a cohort, arm and protocol; filled by its own methods."""
    return DroppedEvidence(arm, protocol)
