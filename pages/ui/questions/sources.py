"""Which answers of a question set rest on a weak source, found in a thread while the table is read.

A source is weak where it is a heading, or hardly nearer to the question than the other lines of its
prompt (:func:`midchart.core.api.weak_source`), which takes about 0.15 s an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.core.types import Kept
from midchart.pages.ui import state
from midchart.pages.ui.patient import cached as patient
from midchart.pages.ui.shared.cache import cached
from midchart.pages.ui.sign_in import later

Cell = dict[str, Any]
_TURN = threading.Lock()
"""One thread looks at a time: several would only share the processor."""


class WeakSources:
    """The answers of a run, arm and reader that rest on a weak source, as far as looked at.

    ``problem``: why sources cannot be looked at; "" without one.
    """

    def __init__(self, run: dict[str, Any], label: str, reader: str) -> None:
        self.run, self.label, self.reader, self.problem = run, label, reader, ""
        self._known: dict[tuple[str, int], bool] = {}
        self._thread: threading.Thread | None = None

    def look(self, cells: Sequence[Cell], questions: Sequence[str], wait_s: float = 0.0) -> bool:
        """Look at these answers in a thread, for up to ``wait_s`` seconds at once; whether all of
        them are known (or cannot be)."""
        missing = [cell for cell in cells if _key(cell) not in self._known]
        if not missing or self.problem:
            return True
        if self._thread is None or not self._thread.is_alive():
            work = later(self._work, missing, questions)
            self._thread = threading.Thread(target=work, daemon=True)
            self._thread.start()
        self._thread.join(wait_s)
        return bool(self.problem) or all(_key(cell) in self._known for cell in cells)

    def weak(self, cell: Cell) -> bool:
        """Whether the answer of a cell is known to rest on a weak source."""
        return self._known.get(_key(cell), False)

    def _work(self, cells: Sequence[Cell], questions: Sequence[str]) -> None:
        with _TURN:
            try:
                cohort = api.asked_of(self.run["run"])
                protocol = api.parse(api.report(self.run["run"])["protocol"])
                ids = {(one.record_id, one.question): one.id for one in cohort.instructions}
                for cell in cells:
                    question = questions[cell["question"]]
                    row = self._row(ids[cell["record"], question])
                    record = cohort.records[cell["record"]]
                    self._known[_key(cell)] = bool(row) and _weak(row, record, question, protocol)
            except (MidchartError, OSError, KeyError) as error:
                known = isinstance(error, MidchartError)
                self.problem = str(error) if known else "the records have changed since the run"

    def _row(self, instruction: str) -> dict[str, Any]:
        rows = api.item(self.run["run"], instruction)["arms"]
        wanted = (self.label, self.reader)
        return next((row for row in rows if (row["label"], row["reader"]) == wanted), {})


def _key(cell: Cell) -> tuple[str, int]:
    return cell["record"], cell["question"]


def _weak(row: dict[str, Any], record: api.Record, question: str, protocol: api.Protocol) -> bool:
    units = {unit.id: unit for unit in api.sentences(record, protocol)}
    sentences = tuple(Kept(units[one["id"]], one["score"], "arm") for one in row["selection"] or ())
    lines = api.context_lines(api.Selection(record.id, "", row["arm"], sentences, 0), protocol)
    cut = set(row["cut"] or ())
    shown = tuple(line for line in lines if line.sentence_id not in cut)
    answer = api.Answer(row["answer"] or "", sources=tuple(row["sources"] or ()))
    return bool(patient.weak_source(api.Prompt("", question, shown, 0), answer, protocol))


@cached(
    lambda run, label, reader: state.run_key(run, label, reader), entries=8, shared=True
)  # fmt: skip
def of(run: dict[str, Any], label: str, reader: str) -> WeakSources:
    """The table of a run, arm and reader; filled by its own methods."""
    return WeakSources(run, label, reader)
