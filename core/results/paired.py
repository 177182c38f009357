"""Paired comparisons: arms against a baseline, readers against the first reader, all arms at once.

A difference has McNemar's exact p with Holm's adjustment in its family, Newcombe's interval
(questions independent), a patient-level bootstrap interval, and bounds over all outcomes that the
unscored answers could have had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import UnknownName
from core.results.tables import entry_columns, generator
from core.runs.experiment import Table
from core.runs.plan import ArmConfig, Plan
from core.stats.intervals import cluster_totals, ratio
from core.stats.paired import (
    benjamini_hochberg,
    cochran_q,
    holm_adjust,
    mcnemar_exact,
    newcombe_paired,
    paired_floor,
    reported_interval,
    smallest_difference,
)
from core.storage.rows import Ask, literal

POWER, ALPHA = 0.8, 0.05
Floats = NDArray[np.float64]
Key = tuple[str, ...]
BOUNDS = ("low_this", "low_base", "high_this", "high_base")
"""Pairs that only one got right, if the unscored answers of this one were all wrong and the
baseline's all right (low), or the other way round (high)."""
DIFFERENCE = (
    "difference", "difference_low", "difference_high", "patient_low", "patient_high",
    "bound_low", "bound_high", "p", "p_bound",
)  # fmt: skip


def difference(
    cells: Floats, draws: Floats, pairs: int, bounds: tuple[int, int, int, int]
) -> dict[str, Any]:
    """Columns of a paired difference of shares, the first minus the second.

    ``cells`` [patients, 4]: scored pairs of each patient (at least one in all) that both, only the
    first, only the second or neither got right; ``draws`` [resamples]: the difference on resampled
    patients; ``pairs``: their number with unscored ones; ``bounds``: the four counts of
    :data:`BOUNDS`. ``p_bound`` is McNemar's p of the bound on the other side of the difference,
    and 1 where that bound is 0 or of the other sign.
    """
    counts = [int(total) for total in cells.sum(axis=0)]
    interval = newcombe_paired(*counts)
    ends = reported_interval(draws, len(cells), paired_floor(cells))
    low, high = (bounds[0] - bounds[1]) / pairs, (bounds[2] - bounds[3]) / pairs
    gain = counts[1] > counts[2]
    against = bounds[:2] if gain else bounds[2:]
    holds = low > 0 if gain else high < 0
    values = (
        interval.estimate, interval.low, interval.high, *(ends or (None, None)), low, high,
        mcnemar_exact(counts[1], counts[2]), mcnemar_exact(*against) if holds else 1.0,
    )  # fmt: skip
    columns: dict[str, Any] = dict(zip(DIFFERENCE, values, strict=True))
    return columns | {"n": sum(counts), "unscored": pairs - sum(counts)}


def no_pair(unscored: int = 0) -> dict[str, Any]:
    """The columns of :func:`difference` without a scored pair."""
    return {**dict.fromkeys(DIFFERENCE), "n": 0, "unscored": unscored}


def resampled(totals: Floats, plan: Plan, *name: object) -> Floats:
    """Differences on resampled patients [resamples, m]: ``totals`` [patients, 2 m] holds pairs won
    less pairs lost and pairs of each of m comparisons; all share the draws of patients."""
    drawn = cluster_totals(totals, plan.protocol.resamples, generator(plan, *name))
    return ratio(drawn[:, ::2], drawn[:, 1::2])


def _pairs(ask: Ask, plan: Plan, baseline: str, others: str, same: Sequence[str]) -> dict[Key, Any]:
    """Columns of each comparison by (label, reader, judge).

    ``baseline`` and ``others`` are SQL conditions on ``judged``; ``same``: the columns that make
    two rows a pair in addition to the question.
    """
    using = ", ".join((*same, "question"))
    rows = ask(
        f"""
        WITH base AS (
            SELECT {using}, correct AS base FROM judged WHERE {baseline} AND NOT unjudgeable
        ), pairs AS (
            SELECT label, reader, judge, patient,
                count(*) FILTER (correct AND base) AS both_right,
                count(*) FILTER (correct AND NOT base) AS only_this,
                count(*) FILTER (base AND NOT correct) AS only_baseline,
                count(*) FILTER (correct IS NOT NULL AND base IS NOT NULL) AS n,
                count(*) AS all_pairs,
                count(*) FILTER (coalesce(correct, false) AND NOT coalesce(base, true)) AS low_this,
                count(*) FILTER (coalesce(base, true) AND NOT coalesce(correct, false)) AS low_base,
                count(*) FILTER (coalesce(correct, true) AND NOT coalesce(base, false))
                    AS high_this,
                count(*) FILTER (coalesce(base, false) AND NOT coalesce(correct, true)) AS high_base
            FROM judged JOIN base USING ({using}) WHERE {others} AND NOT unjudgeable
            GROUP BY ALL
        )
        SELECT label, reader, judge,
            {", ".join(f"sum({name})::BIGINT AS {name}" for name in ("all_pairs", *BOUNDS))},
            list(patient ORDER BY patient) FILTER (n > 0) AS patients,
            list([both_right, only_this, only_baseline, n - both_right - only_this - only_baseline]
                ORDER BY patient) FILTER (n > 0) AS cells
        FROM pairs GROUP BY ALL HAVING sum(n) > 0 ORDER BY label, reader, judge
        """
    )
    if not rows:
        return {}
    everyone = sorted({patient for row in rows for patient in row["patients"]})
    totals = np.zeros((len(everyone), 2 * len(rows)))
    tables = [np.array(row["cells"], dtype=np.float64) for row in rows]
    for i, (row, cells) in enumerate(zip(rows, tables, strict=True)):
        at = np.searchsorted(everyone, row["patients"])
        totals[at, 2 * i] = cells[:, 1] - cells[:, 2]
        totals[at, 2 * i + 1] = cells.sum(axis=1)
    draws = resampled(totals, plan, "paired", baseline)
    return {
        (row["label"], row["reader"], row["judge"]): {
            "only_this": int(cells[:, 1].sum()),
            "only_baseline": int(cells[:, 2].sum()),
            **difference(
                cells, draws[:, i], row["all_pairs"],
                (row["low_this"], row["low_base"], row["high_this"], row["high_base"]),
            ),
        }
        for i, (row, cells) in enumerate(zip(rows, tables, strict=True))
    }  # fmt: skip


def conclusion(row: Mapping[str, Any]) -> str | None:
    """What a comparison shows at .05 after Holm: "better", "worse", "no difference shown", or "not
    claimed: …" where the interval by patient includes 0 (McNemar's test takes items of a patient as
    independent) or the unscored answers could reverse it; None without a pair."""
    if row["p_holm"] is None:
        return None
    if row["p_holm"] > ALPHA:
        return "no difference shown"
    if row["patient_low"] is not None and row["patient_low"] <= 0 <= row["patient_high"]:
        return "not claimed: its interval by patient includes 0"
    if row["p_bound_holm"] > ALPHA:
        return "not claimed: unscored answers could reverse it"
    return "better" if row["difference"] > 0 else "worse"


def adjust_holm(family: Table) -> None:
    """Put ``p_holm`` and ``p_bound_holm`` into rows with ``p`` and ``p_bound``, None in both where
    there is no test."""
    tested = [row for row in family if row["p"] is not None]
    for name in ("p", "p_bound"):
        for row in family:
            row[f"{name}_holm"] = None
        adjusted = holm_adjust([row[name] for row in tested])
        for row, p in zip(tested, adjusted.tolist(), strict=True):
            row[f"{name}_holm"] = p


def adjust(family: Table) -> None:
    """Put adjusted p values (Holm; Benjamini and Hochberg) and the verdict into a family of tests.

    Rows need ``p``, ``p_bound`` and ``difference``, all None where there is no pair.
    """
    adjust_holm(family)
    adjusted = iter(benjamini_hochberg([r["p"] for r in family if r["p"] is not None]).tolist())
    for row in family:
        row["p_bh"] = None if row["p"] is None else next(adjusted)
        row["verdict"] = conclusion(row)


def _families(
    plan: Plan,
    baseline: str,
    differences: Mapping[Key, Any],
    readers: Sequence[str],
    arms: Sequence[ArmConfig],
) -> Table:
    """A row each reader × judge × arm entry, adjusted over the entries."""
    empty = {"only_this": 0, "only_baseline": 0, **no_pair()}
    rows: Table = []
    for reader in readers:
        for judge in plan.judges:
            family: Table = [
                {
                    **entry_columns(entry),
                    "baseline": baseline,
                    "reader": reader,
                    "judge": judge,
                    **differences.get((entry.label, reader, judge), empty),
                }
                for entry in arms
            ]
            adjust(family)
            rows += family
    return rows


def paired(ask: Ask, plan: Plan, baseline: str = "") -> Table:
    """Every arm entry against ``baseline`` (a label; the first entry) on questions both answered.

    A family of tests, for Holm, is the comparisons of one reader and judge. Raises UnknownName.
    """
    labels = [entry.label for entry in plan.arms]
    baseline = baseline or labels[0]
    if baseline not in labels:
        raise UnknownName("arm of the run", baseline, labels)
    base = f"label = {literal(baseline)}"
    differences = _pairs(ask, plan, base, f"NOT ({base})", ("reader", "judge"))
    arms = [entry for entry in plan.arms if entry.label != baseline]
    return _families(plan, baseline, differences, plan.readers, arms)


def readers(ask: Ask, plan: Plan) -> Table:
    """Every further reader against the first, arm by arm; Holm over the arms of a reader and judge.

    The same prompt budget may hold more or less for another reader: it counts its own tokens.
    """
    first, *others = plan.readers
    if not others:
        return []
    base = f"reader = {literal(first)}"
    differences = _pairs(ask, plan, base, f"NOT ({base})", ("label", "judge"))
    return _families(plan, first, differences, others, plan.arms)


def omnibus(ask: Ask, plan: Plan) -> Table:
    """Whether all arms are equally often right: Cochran's Q, on questions judged under all arms."""
    k = len(plan.arms)
    if k < 2:
        return []
    patterns: dict[Key, list[tuple[list[int], int]]] = defaultdict(list)
    for row in ask(
        f"""
        WITH complete AS (
            SELECT reader, judge, question, list(correct::INT ORDER BY label) AS pattern
            FROM judged WHERE correct IS NOT NULL GROUP BY ALL HAVING count(*) = {k}
        )
        SELECT reader, judge, pattern, count(*) AS times FROM complete GROUP BY ALL ORDER BY ALL
        """
    ):
        patterns[row["reader"], row["judge"]].append((row["pattern"], row["times"]))
    rows: Table = []
    for reader, judge in product(plan.readers, plan.judges):
        row: dict[str, Any] = {"reader": reader, "judge": judge, "arms": k, "n": 0, "telling": 0}
        row |= dict.fromkeys(("statistic", "df", "p"))
        seen = patterns.get((reader, judge))
        rows.append(row | asdict(cochran_q(*zip(*seen, strict=True))) if seen else row)
    return rows


def detectable(comparisons: Table) -> Table:
    """The smallest difference that a reader's and judge's comparisons could have shown.

    From the rows of :func:`paired`: at the median number of questions and the median share on
    which two arms differ, with power .8, by one test at .05 (``alone``) and as the first step of
    Holm over all comparisons of the family (``among_all``). Null where five questions or fewer.
    """
    families: dict[Key, Table] = defaultdict(list)
    for row in comparisons:
        if row["n"]:
            families[row["baseline"], row["reader"], row["judge"]].append(row)
    rows: Table = []
    for (baseline, reader, judge), family in families.items():
        n = int(median(row["n"] for row in family))
        discordant = median((row["only_this"] + row["only_baseline"]) / row["n"] for row in family)
        rows.append(
            {
                "baseline": baseline,
                "reader": reader,
                "judge": judge,
                "comparisons": len(family),
                "n": n,
                "discordant": discordant,
                "power": POWER,
                "alpha": ALPHA,
                "alone": smallest_difference(n, discordant, POWER, ALPHA),
                "among_all": smallest_difference(n, discordant, POWER, ALPHA / len(family)),
            }
        )
    return rows


def multiplicity(tables: dict[str, Table]) -> Table:
    """How many tests a report made, family by family, and how many are significant before and
    after Holm.

    ``below_05_holm`` counts by ``p_bound_holm``: differences that hold after Holm's adjustment
    whatever the unscored answers are. Accuracy by band, kind of question or hit has intervals and
    no test.
    """
    rows: Table = []
    for name in ("paired", "readers"):
        families: dict[Key, Table] = defaultdict(list)
        for row in tables[name]:
            if row["p"] is not None:
                families[row["baseline"], row["reader"], row["judge"]].append(row)
        rows += [
            {
                "table": name,
                "baseline": baseline,
                "test": f"McNemar, exact, against {baseline}, over arms",
                "reader": reader,
                "judge": judge,
                "tests": len(family),
                "adjusted": "Holm; Benjamini and Hochberg beside it",
                "below_05": sum(row["p"] <= ALPHA for row in family),
                "below_05_holm": sum(row["p_bound_holm"] <= ALPHA for row in family),
                "below_05_bh": sum(row["p_bh"] <= ALPHA for row in family),
            }
            for (baseline, reader, judge), family in families.items()
        ]
    return rows + [
        {
            "table": "omnibus",
            "baseline": None,
            "test": "Cochran's Q over all arms",
            "reader": row["reader"],
            "judge": row["judge"],
            "tests": 1,
            "adjusted": "one test a reader and judge; not adjusted",
            "below_05": int(row["p"] <= ALPHA),
            "below_05_holm": None,
            "below_05_bh": None,
        }
        for row in tables["omnibus"]
        if row["p"] is not None
    ]
