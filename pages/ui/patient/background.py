"""What takes longer than a moment on page Patient, in threads: the arms of the question at hand,
then the neighbours' records.

A gate is trained once and a record's sentences are embedded once, which takes seconds; both are
kept in the cache's folder. The page shows what is there and asks again for the rest.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui.patient import cached
from midchart.pages.ui.patient.model import Choice
from midchart.pages.ui.sign_in import later

MOMENT_S = 0.3
"""How long a page waits for its arms before it is drawn without them."""
AHEAD = (1, 2, -1)
"""Places in the list of patients from the present one, in this order."""
LOW_PRIORITY = 15
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


# Records of patients that are likely to be opened next.


NAME = "records read ahead"
QUIET_S = 2.0
"""Records are embedded once the page was not drawn for this long, so that no click waits."""
_TURN = threading.Lock()
_embedded: set[tuple[str, str]] = set()
_last_drawn = [0.0]


def drawn() -> None:
    """Note that a part of the page was drawn just now."""
    _last_drawn[0] = time.monotonic()


def read_ahead(choice: Choice) -> None:
    """Embed the neighbours' records in a thread, unless one is at work."""
    arms = [arm for arm in choice.arms if arm in cached.READING]
    records = list(choice.cohort.records)
    place = records.index(choice.record.id)
    ids = [records[(place + step) % len(records)] for step in AHEAD]
    _start(choice.cohort, choice.cohort_key, choice.protocol, arms, ids)


def read_first(name: str) -> None:
    """Embed the record that page Patient opens with, while another page is read."""
    cohort = api.open_data(name)
    arms = [arm for arm in cached.DEFAULT_ARMS if arm in cached.READING]
    ids = list(cohort.records)[:1] if AHEAD else []
    _start(cohort, api.cohort_key(cohort), api.PRESETS["corrected"], arms, ids)


def _start(
    cohort: api.Cohort, key: str, protocol: api.Protocol, arms: list[str], ids: list[str]
) -> None:
    pairs = [(id, arm) for id in dict.fromkeys(ids) for arm in arms]
    missing = [(id, arm) for id, arm in pairs if (key + id, arm) not in _embedded]
    drawn()
    if missing and not _TURN.locked():
        work = later(_read, cohort, key, protocol, missing)
        threading.Thread(target=work, name=NAME, daemon=True).start()


def _read(
    cohort: api.Cohort, key: str, protocol: api.Protocol, missing: list[tuple[str, str]]
) -> None:
    if not _TURN.acquire(blocking=False):
        return
    try:
        if sys.platform == "linux":  # elsewhere threads share one priority
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
        for record_id, arm in missing:
            while (left := _last_drawn[0] + QUIET_S - time.monotonic()) > 0:
                time.sleep(left)
            _embedded.add((key + record_id, arm))
            _select(cohort, protocol, record_id, arm)
    finally:
        _TURN.release()


def _select(cohort: api.Cohort, protocol: api.Protocol, record_id: str, arm: str) -> None:
    asked = next((one for one in cohort.instructions if one.record_id == record_id), None)
    try:
        record = cohort.records[record_id]
        if asked and len(api.sentences(record, protocol)) <= cached.UNITS_AT_ONCE:
            api.select(cohort, record, asked, arm, protocol)
    except (MidchartError, OSError):
        return  # the page names the reason where this patient is opened
