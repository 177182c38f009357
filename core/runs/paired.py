"""Two on the same questions: arms against a baseline, readers against the first; all at once too.

A difference stands with McNemar's exact p, its Holm adjustment in its family, Newcombe's interval
(questions independent) and one by resampling patients (their questions belong together); and with
the smallest difference that this many questions could have shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from core.errors import UnknownName
from core.runs.plan import Plan
from core.runs.tables import Table, entry_columns, generator, literal
from core.stats.clustered import cluster_totals
from core.stats.multiple import benjamini_hochberg, holm_adjust
from core.stats.paired import cochran_q, mcnemar_exact, newcombe_paired
from core.stats.power import smallest_difference
from core.stats.reported import paired_floor, reported_interval
from core.storage.rows import Ask

POWER, ALPHA = 0.8, 0.05
Key = tuple[str, ...]
BOUNDS = ("all_pairs", "low_this", "low_base", "high_this", "high_base")
"""Pairs with unscored ones, and those that only one got right were this one's unscored answers all
wrong and the baseline's all right (low), or the other way round (high)."""


def _pairs(ask: Ask, plan: Plan, baseline: str, others: str, same: Sequence[str]) -> dict[Key, Any]:
    """Counts of pairs by (label, reader, judge), with each patient's difference and number.

    ``baseline`` and ``others`` are SQL conditions on ``judged``, ``same`` the columns that make
    two rows a pair beside the question. Each value: counts of the four cells, and the interval
    of the difference by resampling patients.
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
        SELECT label, reader, judge, sum(both_right)::BIGINT AS both_right,
            sum(only_this)::BIGINT AS only_this, sum(only_baseline)::BIGINT AS only_baseline,
            sum(n)::BIGINT AS n,
            {", ".join(f"sum({name})::BIGINT AS {name}" for name in BOUNDS)},
            list(patient ORDER BY patient) FILTER (n > 0) AS patients,
            list([both_right, only_this, only_baseline, n - both_right - only_this - only_baseline]
                ORDER BY patient) FILTER (n > 0) AS cells
        FROM pairs GROUP BY ALL HAVING sum(n) > 0 ORDER BY label, reader, judge
        """
    )
    _resample(rows, plan, baseline)
    return {(row["label"], row["reader"], row["judge"]): row for row in rows}


def _resample(rows: Table, plan: Plan, baseline: str) -> None:
    """Put the patients' interval of each difference into its row: ``patient_low``, ``…_high``."""
    everyone = sorted({patient for row in rows for patient in row["patients"]})
    place = {patient: i for i, patient in enumerate(everyone)}
    totals = np.zeros((len(everyone), 2 * len(rows)))
    for i, row in enumerate(rows):
        at = [place[patient] for patient in row["patients"]]
        row["cells"] = np.array(row["cells"], dtype=np.float64)
        totals[at, 2 * i] = row["cells"][:, 1] - row["cells"][:, 2]
        totals[at, 2 * i + 1] = row["cells"].sum(axis=1)
    if not everyone:
        return
    # The same draws of patients for every row: intervals can be compared line by line.
    drawn = cluster_totals(totals, plan.protocol.resamples, generator(plan, "paired", baseline))
    gains, sizes = drawn[:, ::2], drawn[:, 1::2]
    shares = np.divide(gains, sizes, out=np.full(gains.shape, np.nan), where=sizes > 0)
    for i, row in enumerate(rows):
        ends = reported_interval(shares[:, i], len(row["patients"]), paired_floor(row["cells"]))
        row["patient_low"], row["patient_high"] = ends or (None, None)


NO_PAIR: dict[str, Any] = {
    "n": 0,
    "only_this": 0,
    "only_baseline": 0,
    **dict.fromkeys(
        (
            "difference",
            "difference_low",
            "difference_high",
            "patient_low",
            "patient_high",
            "bound_low",
            "bound_high",
            "p",
            "p_bound",
        )
    ),
    "unscored": 0,
}


def _difference(found: dict[str, Any] | None) -> dict[str, Any]:
    """The columns of a comparison: counts, difference with both intervals, exact p."""
    if found is None:
        return dict(NO_PAIR)
    both, this, base, n = (found[k] for k in ("both_right", "only_this", "only_baseline", "n"))
    interval = newcombe_paired(both, this, base, n - both - this - base)
    return {
        "n": n,
        "only_this": this,
        "only_baseline": base,
        "difference": interval.estimate,
        "difference_low": interval.low,
        "difference_high": interval.high,
        "patient_low": found["patient_low"],
        "patient_high": found["patient_high"],
        "unscored": found["all_pairs"] - n,
        **bounds(this - base, *(found[name] for name in BOUNDS)),
        "p": mcnemar_exact(this, base),
    }


def bounds(
    gain: int, n: int, low_this: int, low_base: int, high_this: int, high_base: int
) -> dict[str, float]:
    """The difference were all unscored answers against this one, or for it, and McNemar's p then.

    ``gain``: scored pairs that only this one got right less those that only the baseline did; n
    and the other counts as in :data:`BOUNDS`. ``p_bound`` is of the bound against the sign of
    ``gain``, and 1 where that bound is 0 or of the other sign.
    """
    low, high = (low_this - low_base) / n, (high_this - high_base) / n
    against = (low_this, low_base) if gain > 0 else (high_this, high_base)
    holds = low > 0 if gain > 0 else high < 0
    p = mcnemar_exact(*against) if holds else 1.0
    return {"bound_low": low, "bound_high": high, "p_bound": p}


def conclusion(row: Mapping[str, Any]) -> str | None:
    """What a comparison shows at .05 after Holm: "better", "worse", "no difference shown", or "not
    claimed" where the unscored answers could overturn it; None without a pair."""
    if row["p_holm"] is None:
        return None
    if row["p_holm"] > ALPHA:
        return "no difference shown"
    if row["p_bound_holm"] > ALPHA:
        return "not claimed: unscored answers could overturn it"
    return "better" if row["difference"] > 0 else "worse"


def adjust(family: Table) -> None:
    """Put adjusted p values (Holm; Benjamini and Hochberg) and the verdict into a family of tests.

    Rows need ``p``, ``p_bound`` and ``difference``, all None where there is no pair.
    """
    tested = [row for row in family if row["p"] is not None]
    p = [row["p"] for row in tested]
    for row in family:
        row["p_holm"] = row["p_bh"] = row["p_bound_holm"] = None
    for row, holm, bh in zip(tested, holm_adjust(p), benjamini_hochberg(p), strict=True):
        row["p_holm"], row["p_bh"] = float(holm), float(bh)
    bound = holm_adjust([row["p_bound"] for row in tested])
    for row, holm in zip(tested, bound, strict=True):
        row["p_bound_holm"] = float(holm)
    for row in family:
        row["verdict"] = conclusion(row)


def paired(ask: Ask, plan: Plan, baseline: str = "") -> Table:
    """Every arm entry against ``baseline`` (a label; the first entry) on questions both answered.

    A family of tests, for Holm, is the comparisons of one reader and judge. Raises UnknownName.
    """
    labels = [entry.label for entry in plan.arms]
    baseline = baseline or labels[0]
    if baseline not in labels:
        raise UnknownName("arm of the run", baseline, labels)
    base = f"label = {literal(baseline)}"
    found = _pairs(ask, plan, base, f"NOT ({base})", ("reader", "judge"))
    rows: Table = []
    for reader in plan.readers:
        for judge in plan.judges:
            family: Table = [
                {
                    **entry_columns(entry),
                    "baseline": baseline,
                    "reader": reader,
                    "judge": judge,
                    **_difference(found.get((entry.label, reader, judge))),
                }
                for entry in plan.arms
                if entry.label != baseline
            ]
            adjust(family)
            rows += family
    return rows


def readers(ask: Ask, plan: Plan) -> Table:
    """Every further reader against the first, arm by arm; Holm over the arms of a reader and judge.

    The same prompt budget may hold more or less for another reader: it counts its own tokens.
    """
    first, *others = plan.readers
    if not others:
        return []
    base = f"reader = {literal(first)}"
    found = _pairs(ask, plan, base, f"NOT ({base})", ("label", "judge"))
    rows: Table = []
    for reader in others:
        for judge in plan.judges:
            family: Table = [
                {
                    **entry_columns(entry),
                    "baseline": first,
                    "reader": reader,
                    "judge": judge,
                    **_difference(found.get((entry.label, reader, judge))),
                }
                for entry in plan.arms
            ]
            adjust(family)
            rows += family
    return rows


def omnibus(ask: Ask, plan: Plan) -> Table:
    """Whether all arms are equally often right: Cochran's Q, on questions judged under all arms."""
    k = len(plan.arms)
    if k < 2:
        return []
    patterns: dict[Key, list[tuple[list[int], int]]] = defaultdict(list)
    for row in ask(
        f"""
        WITH whole AS (
            SELECT reader, judge, question, list(correct::INT ORDER BY label) AS pattern
            FROM judged WHERE correct IS NOT NULL GROUP BY ALL HAVING count(*) = {k}
        )
        SELECT reader, judge, pattern, count(*) AS times FROM whole GROUP BY ALL ORDER BY ALL
        """
    ):
        patterns[row["reader"], row["judge"]].append((row["pattern"], row["times"]))
    rows: Table = []
    for reader in plan.readers:
        for judge in plan.judges:
            row: dict[str, Any] = {
                "reader": reader,
                "judge": judge,
                "arms": k,
                "n": 0,
                "telling": 0,
            }
            row |= dict.fromkeys(("statistic", "df", "p"))
            seen = patterns.get((reader, judge))
            if seen:
                outcomes, times = zip(*seen, strict=True)
                q = cochran_q(outcomes, times)
                row |= {"n": q.n, "telling": q.telling, "statistic": q.statistic}
                row |= {"df": q.df, "p": q.p}
            rows.append(row)
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
        apart = median((row["only_this"] + row["only_baseline"]) / row["n"] for row in family)
        rows.append(
            {
                "baseline": baseline,
                "reader": reader,
                "judge": judge,
                "comparisons": len(family),
                "n": n,
                "discordant": apart,
                "power": POWER,
                "alpha": ALPHA,
                "alone": smallest_difference(n, apart, POWER, ALPHA),
                "among_all": smallest_difference(n, apart, POWER, ALPHA / len(family)),
            }
        )
    return rows


def multiplicity(tables: dict[str, Table]) -> Table:
    """How many tests a report made, family by family, and how many stand before and after Holm.

    ``below_05_holm`` counts by ``p_bound_holm``: differences that hold after Holm's adjustment
    whatever the unscored answers are.

    Tests that are not here were not made: accuracy by band, kind of question or hit is told with
    intervals, without a p.
    """
    rows: Table = []
    for name, over, adjusted in (
        ("paired", "arms", "Holm; Benjamini and Hochberg beside it"),
        ("readers", "arms", "Holm; Benjamini and Hochberg beside it"),
    ):
        families: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        for row in tables[name]:
            if row["p"] is not None:
                families[row["baseline"], row["reader"], row["judge"]].append(row)
        for (baseline, reader, judge), family in families.items():
            rows.append(
                {
                    "table": name,
                    "baseline": baseline,
                    "test": f"McNemar, exact, against {baseline}, over {over}",
                    "reader": reader,
                    "judge": judge,
                    "tests": len(family),
                    "adjusted": adjusted,
                    "below_05": sum(row["p"] <= ALPHA for row in family),
                    "below_05_holm": sum(row["p_bound_holm"] <= ALPHA for row in family),
                    "below_05_bh": sum(row["p_bh"] <= ALPHA for row in family),
                }
            )
    for row in tables["omnibus"]:
        if row["p"] is not None:
            rows.append(
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
            )
    return rows
