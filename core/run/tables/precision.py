"""Precision of selections: what share of the lines that were kept are hits (PROTOCOL, Stage 1).

Questions are resampled, not lines: the lines of one selection stand or fall together. The same
resampled questions serve every arm and criterion of a band.
"""

from __future__ import annotations

import numpy as np

from core.run.plan import Plan
from core.run.tables.common import WIDE_BANDS, Table, bands_of, entry_columns, generator, known
from core.run.tables.stage1_facts import OF, Stage1Facts
from core.stats import cluster_totals, clustered_intervals, reported_interval, share_floor


def precision(facts: Stage1Facts, plan: Plan) -> Table:
    """One row each arm entry × criterion × kept or picked × band (overall, middle, edge).

    ``of`` "kept" counts every line of the context, "picked" those that the arm itself chose;
    ``n`` are the lines, ``questions`` the selections they come from. Only questions for which the
    criterion is known count; precision is null where there is no line.
    """
    cells = [(entry, c, of) for entry in plan.arms for c in facts.criteria for of in OF]
    place = {(entry.label, c.name, of): i for i, (entry, c, of) in enumerate(cells)}
    table: Table = [{} for _ in range(len(cells) * len(WIDE_BANDS))]
    for b, band in enumerate(WIDE_BANDS):
        rows = [row for row in facts.rows if band in bands_of(row)]
        number = {name: i for i, name in enumerate(sorted({row["instruction"] for row in rows}))}
        hits = np.zeros((len(number), len(cells)))
        lines = np.zeros((len(number), len(cells)))
        asked = np.zeros(len(cells), dtype=np.int64)
        for row in rows:
            for c in facts.criteria:
                for of in OF:
                    hit = row[f"{c.column}_{of}"]
                    if hit is not None and row[of] is not None:
                        at = number[row["instruction"]], place[row["label"], c.name, of]
                        hits[at], lines[at] = hit, row[of]
                        asked[at[1]] += 1
        ends: list[tuple[float, float] | None] = [None] * len(cells)
        if number:
            both = np.hstack([hits, lines])
            drawn = cluster_totals(
                both, plan.protocol.resamples, generator(plan, "precision", band)
            )
            met, all_lines = drawn[:, : len(cells)], drawn[:, len(cells) :]
            shares = np.divide(met, all_lines, out=np.full(met.shape, np.nan), where=all_lines > 0)
            if plan.protocol.intervals == "percentile":
                ends = list(zip(*(of.tolist() for of in clustered_intervals(shares)), strict=True))
            else:
                for i in np.flatnonzero(lines.sum(axis=0)):
                    floor = share_floor(hits[:, i], lines[:, i])
                    ends[i] = reported_interval(shares[:, i], int((lines[:, i] > 0).sum()), floor)
        for i, (entry, c, of) in enumerate(cells):
            n, met_all = int(lines[:, i].sum()), int(hits[:, i].sum())
            low, high = ends[i] or (np.nan, np.nan)
            table[i * len(WIDE_BANDS) + b] = {
                **entry_columns(entry),
                "criterion": c.name,
                "of": of,
                "band": band,
                "questions": int(asked[i]),
                "n": n,
                "hits": met_all,
                "precision": met_all / n if n else None,
                "ci_low": known(low),
                "ci_high": known(high),
            }
    return table
