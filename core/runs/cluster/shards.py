"""The portions of a run, in lots that are given to workers, and the rows that are there of each.

A lot that is given out takes along what is there of its portions, asked of the run's own rows at
that moment. Their one writer asks, so the answer is whole: a portion given out a second time, after
its first worker died, is gone on with and not begun anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.runs.experiment import Experiment
from core.runs.job import Job
from core.runs.tables import literal

LOTS_EACH = 16
"""Lots for each worker there is room for: few enough to be cheap, many enough that the last workers
end together."""
PIECES = 4


@dataclass(frozen=True, slots=True)
class Lot:
    """Portions that a worker does one after another; ``deaths``: workers that died over them."""

    portions: tuple[str, ...]
    deaths: int = 0

    def after_death(self) -> list[Lot]:
        """What to do once a worker died over it: smaller lots, until one portion is alone."""
        each = -(-len(self.portions) // PIECES)
        parts = [self.portions[i : i + each] for i in range(0, len(self.portions), each)]
        return [Lot(part, self.deaths + 1) for part in parts]


def lots(portions: Sequence[str], room: int) -> deque[Lot]:
    """All portions in lots, for so many workers."""
    each = max(1, -(-len(portions) // (LOTS_EACH * max(1, room))))
    return deque(Lot(tuple(portions[i : i + each])) for i in range(0, len(portions), each))


class Begun:
    """Which portions have rows, so that a lot without any asks the files nothing."""

    def __init__(self, job: Job, kind: Experiment) -> None:
        self._job, self._column = job, kind.portion
        self._portions = {
            row["portion"]
            for table in job.store.schemas
            for row in job.store.select(table, f"DISTINCT {kind.portion} AS portion")
        }

    def add(self, row: Mapping[str, Any]) -> None:
        """Note a row that was written."""
        self._portions.add(row[self._column])

    def there(self, lot: Lot) -> dict[str, list[dict[str, Any]]]:
        """The rows of a lot's portions, by table."""
        begun = [portion for portion in lot.portions if portion in self._portions]
        if not begun:
            return {}
        where = f"{self._column} IN ({', '.join(map(literal, begun))})"
        return {
            table: self._job.store.select(table, "*", where) for table in self._job.store.schemas
        }
