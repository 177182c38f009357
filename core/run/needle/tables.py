"""Tables of a needle run: depth × length, depth alone, length alone, middle against edge.

Depth is what the spec asked for; two tables more go by where the needle came to stand in the made
record, in tenths, by each kind of position.

A cell's Wilson interval takes its items as independent; the intervals of ``depths`` and
``lengths`` resample patients, and ``contrast`` compares each needle with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.curve import bins_of
from core.run.curve.rows import POSITIONS
from core.run.needle.contrast import contrasts, verdicts
from core.run.needle.said import Row, needle_rows, of_cells
from core.run.plan import Plan
from core.run.tables.common import Table, generator, known
from core.run.tables.failures import failures
from core.stats import clustered_bootstrap, share_interval, wilson_interval
from core.store import RowStore


def needle_tables(
    store: RowStore, plan: Plan, reviews: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Table]:
    """All tables of a needle run, by name; ``plan`` names the people whose verdicts are
    ``reviews`` among its judges."""
    said = needle_rows(store, reviews)
    tests = contrasts(said, plan)
    return {
        "heatmap": _heatmap(said, plan),
        "depths": _marginal(said, plan, "depth", _whereabouts),
        "heatmap_positions": _by_position(said, lambda rows: _heatmap(rows, plan)),
        "depths_positions": _by_position(
            said, lambda rows: _marginal(rows, plan, "depth", _whereabouts)
        ),
        "lengths": _marginal(said, plan, "length", _sizes),
        "facts": _facts(said, plan),
        "contrast": tests,
        "verdict": verdicts(tests),
        "cuts": [dict(cut) for cut in plan.raw["found"]["cuts"]],
        "failures": failures(store, plan),
    }


def _share(values: Iterable[Any]) -> float | None:
    """Mean of what is known; None where nothing is."""
    found = [float(value) for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _counted(own: Sequence[Row]) -> Row:
    """n judged, number right, share with its interval by patients, Wilson's, and its bounds were
    all that was not judged wrong or all right; what was not judged; what the prompts held."""
    known = [row for row in own if row["correct"] is not None]
    judged = [row["correct"] for row in known]
    n, correct = len(judged), sum(judged)
    low, high = share_interval(judged, [row["record"] for row in known]) or (None, None)
    share = wilson_interval(correct, n) if n else None
    return {
        "n": n,
        "correct": correct,
        "accuracy": share.estimate if share else None,
        "patient_low": low,
        "patient_high": high,
        "wilson_low": share.low if share else None,
        "wilson_high": share.high if share else None,
        "bound_low": correct / len(own) if own else None,
        "bound_high": (correct + len(own) - n) / len(own) if own else None,
        "unparsed": sum(row["outcome"] == "unparsed" for row in own),
        "failed": sum(row["outcome"] == "failed" for row in own),
        "in_prompt": _share(row["evidence_in_prompt"] for row in own),
        "question_survived": _share(row["question_survived"] for row in own),
    }


def _split(own: Sequence[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of columns, ascending."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in own:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return dict(sorted(groups.items()))


def _heatmap(said: Sequence[Row], plan: Plan) -> Table:
    return [
        {
            **named,
            **dict(zip(("length", "depth", "distractors"), cell, strict=True)),
            **_counted(rows),
        }
        for named, own in of_cells(said, plan)
        for cell, rows in _split(own, "length", "depth", "distractors").items()
    ]


def _by_position(said: Sequence[Row], table: Callable[[Sequence[Row]], Table]) -> Table:
    """A table of depths once more for each kind of ``position``: ``depth`` is then where the tenth
    of the record begins in which the needle stands, in percent. A needle without a position (a
    record without dates has none in time) is left out."""
    return [
        {"position": kind, **row}
        for kind in POSITIONS
        for row in table(
            [
                {**row, "depth": 10 * int(bins_of([row[f"{kind}_position"]], 10)[0])}
                for row in said
                if row[f"{kind}_position"] is not None
            ]
        )
    ]


def _whereabouts(rows: Sequence[Row]) -> Row:
    return {"reached": _share(row["reached"] for row in rows)}


def _sizes(rows: Sequence[Row]) -> Row:
    return {
        "haystack_tokens": _share(row["haystack_tokens"] for row in rows),
        "prompt_tokens": _share(row["prompt_tokens"] for row in rows),
    }


def _marginal(
    said: Sequence[Row], plan: Plan, axis: str, more: Callable[[Sequence[Row]], Row]
) -> Table:
    """Accuracy along one axis for each number of distractors; patients are resampled.

    ``ci_low`` and ``ci_high`` follow ``protocol.intervals``: widened ones are null for fewer than 5
    patients with a judged item there (:func:`core.stats.reported_interval`).
    """
    rows: Table = []
    for named, own in of_cells(said, plan):
        for (distractors,), group in _split(own, "distractors").items():
            places = _split(group, axis)
            index = {place: i for i, (place,) in enumerate(places)}
            judged = [row for row in group if row["correct"] is not None]
            bounds: dict[int, tuple[float | None, float | None]] = {}
            if len({row["record"] for row in judged}) > 1:
                name = (axis, named["label"], named["reader"], named["judge"], distractors)
                drawn = clustered_bootstrap(
                    [float(row["correct"]) for row in judged],
                    [row["record"] for row in judged],
                    np.array([index[row[axis]] for row in judged]),
                    plan.protocol.resamples,
                    generator(plan, *name),
                    bin_count=len(index),
                )
                for i in index.values():
                    bounds[i] = (known(drawn.low[i]), known(drawn.high[i]))
                    if plan.protocol.intervals == "widened":
                        here = [row for row in judged if index[row[axis]] == i]
                        bounds[i] = _reported(here, drawn.means[:, i])
            for (place,), there in places.items():
                low, high = bounds.get(index[place], (None, None))
                rows.append(
                    {
                        **named,
                        axis: place,
                        "distractors": distractors,
                        **_counted(there),
                        "patients": len({row["record"] for row in there}),
                        "ci_low": low,
                        "ci_high": high,
                        **more(there),
                    }
                )
    return rows


def _reported(rows: Sequence[Row], means: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """The reported interval of judged rows at one place; patients are the clusters."""
    right, patients = [row["correct"] for row in rows], [row["record"] for row in rows]
    return share_interval(right, patients, means) or (None, None)


def _facts(said: Sequence[Row], plan: Plan) -> Table:
    """Accuracy by kind of needle and number of distractors."""
    return [
        {**named, **dict(zip(("fact", "distractors"), cell, strict=True)), **_counted(rows)}
        for named, own in of_cells(said, plan)
        for cell, rows in _split(own, "fact", "distractors").items()
    ]
