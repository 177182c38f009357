"""The arms of the question at hand on page Patient, in a thread.

A gate is trained once and a record's sentences are embedded once, which takes seconds; both are
kept in the cache's folder. The page shows what is there and asks again for the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from midchart.core.errors import MidchartError
from midchart.pages.ui.patient import cached
from midchart.pages.ui.patient.model import Choice
from midchart.pages.ui.sign_in import later

MOMENT_S = 0.3
"""How long a page waits for its arms before it is drawn without them."""
WAITING, SELECTED, READ = range(3)
"""How far an arm is: not run, its sentences selected, and answered by the reader."""


class Reading:
    """The arms of a choice, run in a thread: the quick ones first, selections before answers.

    ``titles``: arm → title. ``reads``: whether the reader answers too.
    """

    def __init__(self, choice: Choice, titles: Mapping[str, str], reads: bool) -> None:
        self.stage = dict.fromkeys(titles, WAITING)
        work = later(self._work, choice, titles, reads)
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> dict[str, int]:
        """How far each arm is, after ``seconds`` or once all are done."""
        self._thread.join(seconds)
        return dict(self.stage)

    def _work(self, choice: Choice, titles: Mapping[str, str], reads: bool) -> None:
        steps = [(arm in cached.SLOW, stage, arm) for arm in titles for stage in (SELECTED, READ)]
        try:
            for _, stage, arm in sorted(steps, key=lambda step: step[:2]):
                try:
                    cached.work(choice, arm, titles[arm], reads and stage == READ)
                except (MidchartError, OSError):
                    stage = READ  # the page does the same at once, and names the reason
                self.stage[arm] = stage
        finally:
            self.stage = dict.fromkeys(titles, READ)


@cached.cached(
    lambda choice, titles, reads: (*cached.question_key(choice), choice.reader, *titles, reads),
    entries=24,
    shared=True,
)
def reading(choice: Choice, titles: Mapping[str, str], reads: bool) -> Reading:
    """The one :class:`Reading` of these arms on this question."""
    return Reading(choice, titles, reads)
