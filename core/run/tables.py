"""Tables of verdicts: accuracy by band, given hit and miss, paired tests, agreement, failures.

Counts come from DuckDB; from them follow shares and intervals, so a table costs the same for 300
answers and for a million. Unparsed and failed verdicts stay out of every denominator and are
counted beside it. Intervals' draws are seeded by the protocol's seed and the row's own name, so
a row's interval depends on nothing but its counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import combinations
from math import isnan
from typing import Any

import numpy as np

from core.run.evidence import UNLOCATED
from core.run.folder import Plan
from core.run.spec import ArmEntry
from core.stats import (
    bootstrap_proportion,
    cohen_kappa,
    gwet_ac1,
    holm_adjust,
    mcnemar_exact,
    positive_agreement,
    raw_agreement,
    wilson_interval,
)
from core.store import RowStore
from core.types import BANDS

Table = list[dict[str, Any]]
ALL_BANDS = (*(name for name, _, _ in BANDS), "middle", "edge", "overall")


def bands_of(row: Mapping[str, Any]) -> list[str]:
    """The bands in which a row with ``band`` and ``middle`` counts."""
    if row["band"] == UNLOCATED:
        return ["overall"]
    return [row["band"], "middle" if row["middle"] else "edge", "overall"]


def intervals(hits: int, n: int, plan: Plan, *name: object) -> dict[str, Any]:
    """Share with percentile bootstrap and Wilson bounds; all null where n is 0."""
    if n == 0:
        return dict.fromkeys(("share", "ci_low", "ci_high", "wilson_low", "wilson_high"))
    own = blake2b("\0".join(map(str, name)).encode("utf-8", "surrogatepass"), digest_size=8)
    rng = np.random.default_rng([plan.protocol.seed, int.from_bytes(own.digest(), "big")])
    drawn = bootstrap_proportion(hits, n, plan.protocol.resamples, rng)
    wilson = wilson_interval(hits, n)
    return {
        "share": drawn.estimate,
        "ci_low": drawn.low,
        "ci_high": drawn.high,
        "wilson_low": wilson.low,
        "wilson_high": wilson.high,
    }


def entry_columns(entry: ArmEntry) -> dict[str, Any]:
    """How a row names its arm entry; ``label`` tells apart what arm and k do not."""
    return {"arm": entry.name, "k": entry.k, "label": entry.label}


def _cells(plan: Plan) -> Iterable[tuple[ArmEntry, str, str]]:
    for entry in plan.arms:
        for reader in plan.readers:
            for judge in plan.judges:
                yield entry, reader, judge


def _counted(store: RowStore) -> dict[tuple[str, str, str, str], Counter[str]]:
    """(label, reader, judge, band) → how many correct, incorrect, unparsed, failed, refusals."""
    found: dict[tuple[str, str, str, str], Counter[str]] = {}
    rows = store.select(
        "verdicts",
        "label, reader, judge, band, middle, outcome, count(*) AS n, "
        "count(*) FILTER (refusal) AS refusals",
        "true GROUP BY ALL",
    )
    for row in rows:
        own = [UNLOCATED] if row["band"] == UNLOCATED else []
        for band in [*bands_of(row), *own]:
            count = found.setdefault((row["label"], row["reader"], row["judge"], band), Counter())
            count[row["outcome"]] += row["n"]
            count["refusals"] += row["refusals"]
    return found


def _accuracy_row(
    plan: Plan, entry: ArmEntry, reader: str, judge: str, band: str, count: Counter[str]
) -> dict[str, Any]:
    n = count["correct"] + count["incorrect"]
    found = intervals(count["correct"], n, plan, "accuracy", entry.label, reader, judge, band)
    return {
        **entry_columns(entry),
        "reader": reader,
        "judge": judge,
        "band": band,
        "n": n,
        "correct": count["correct"],
        "accuracy": found.pop("share"),
        **found,
        "refusals": count["refusals"],
        "unparsed": count["unparsed"],
        "failed": count["failed"],
    }


def accuracy(store: RowStore, plan: Plan) -> Table:
    """One row each arm entry × reader × judge × band; accuracy is null where n is 0."""
    counted = _counted(store)
    return [
        _accuracy_row(
            plan, *cell, band, counted.get((cell[0].label, *cell[1:], band), Counter[str]())
        )
        for cell in _cells(plan)
        for band in ALL_BANDS
    ]


def unlocated(store: RowStore, plan: Plan) -> Table:
    """Accuracy where the evidence was not found in the record; such rows count in overall."""
    counted = _counted(store)
    rows: Table = []
    for cell in _cells(plan):
        count = counted.get((cell[0].label, *cell[1:], UNLOCATED))
        if count:
            rows.append(_accuracy_row(plan, *cell, UNLOCATED, count))
    return rows


def hit_miss(store: RowStore, plan: Plan) -> Table:
    """Accuracy where evidence stood in the prompt, and where it did not."""
    verdicts = store.select("verdicts", "answer_key, label, reader, judge, outcome")
    held = {
        row["key"]: row["evidence_in_prompt"]
        for row in store.select("answers", "key, evidence_in_prompt")
    }
    counted: dict[tuple[str, str, str, str], Counter[str]] = {}
    names = {True: "in prompt", False: "not in prompt", None: UNLOCATED}
    for row in verdicts:
        evidence = names[held.get(row["answer_key"])]
        key = (row["label"], row["reader"], row["judge"], evidence)
        counted.setdefault(key, Counter())[row["outcome"]] += 1
    rows: Table = []
    for entry, reader, judge in _cells(plan):
        for evidence in ("in prompt", "not in prompt"):
            count = counted.get((entry.label, reader, judge, evidence), Counter[str]())
            n = count["correct"] + count["incorrect"]
            found = intervals(
                count["correct"], n, plan, "hit_miss", entry.label, reader, judge, evidence
            )
            rows.append(
                {
                    **entry_columns(entry),
                    "reader": reader,
                    "judge": judge,
                    "evidence": evidence,
                    "n": n,
                    "correct": count["correct"],
                    "accuracy": found.pop("share"),
                    **found,
                }
            )
    return rows


def _outcomes(store: RowStore) -> dict[tuple[str, str, str], dict[str, bool]]:
    """(label, reader, judge) → instruction → right or not, where the judge said one of the two."""
    found: dict[tuple[str, str, str], dict[str, bool]] = {}
    wanted = "outcome IN ('correct', 'incorrect')"
    for row in store.select("verdicts", "label, reader, judge, instruction, outcome", wanted):
        key = (row["label"], row["reader"], row["judge"])
        found.setdefault(key, {})[row["instruction"]] = row["outcome"] == "correct"
    return found


def paired(store: RowStore, plan: Plan) -> Table:
    """Every arm entry against the first one on the questions both were judged on.

    McNemar's exact p, and Holm's adjustment within a reader and judge.
    """
    found = _outcomes(store)
    rows: Table = []
    baseline, *others = plan.arms
    for reader in plan.readers:
        for judge in plan.judges:
            base = found.get((baseline.label, reader, judge), {})
            family: Table = []
            for entry in others:
                here = found.get((entry.label, reader, judge), {})
                both = base.keys() & here.keys()
                only_base = sum(base[i] and not here[i] for i in both)
                only_here = sum(here[i] and not base[i] for i in both)
                family.append(
                    {
                        **entry_columns(entry),
                        "baseline": baseline.label,
                        "reader": reader,
                        "judge": judge,
                        "n": len(both),
                        "only_this": only_here,
                        "only_baseline": only_base,
                        "difference": (only_here - only_base) / len(both) if both else None,
                        "p": mcnemar_exact(only_here, only_base) if both else None,
                    }
                )
            tested = [row for row in family if row["p"] is not None]
            adjusted = holm_adjust([row["p"] for row in tested]).tolist() if tested else []
            for row in family:
                row["p_holm"] = None
            for row, p in zip(tested, adjusted, strict=True):
                row["p_holm"] = p
            rows += family
    return rows


def _known(value: float) -> float | None:
    return None if isnan(value) else value


def agreement(store: RowStore, plan: Plan) -> Table:
    """How far each two judges agree, over all arms, where both said correct or incorrect."""
    found = _outcomes(store)
    rows: Table = []
    for reader in plan.readers:
        for first, second in combinations(plan.judges, 2):
            pairs: list[tuple[bool, bool]] = []
            for entry in plan.arms:
                a = found.get((entry.label, reader, first), {})
                b = found.get((entry.label, reader, second), {})
                pairs += [(a[i], b[i]) for i in sorted(a.keys() & b.keys())]
            row: dict[str, Any] = {"reader": reader, "first": first, "second": second}
            row |= dict.fromkeys(("raw", "kappa", "ac1", "positive_agreement"))
            row["n"] = len(pairs)
            if pairs:
                left, right = (np.array(side) for side in zip(*pairs, strict=True))
                row |= {
                    "raw": raw_agreement(left, right),
                    "kappa": _known(cohen_kappa(left, right)),
                    "ac1": gwet_ac1(left, right),
                    "positive_agreement": _known(positive_agreement(left, right)),
                }
            rows.append(row)
    return rows


def failures(store: RowStore, plan: Plan) -> Table:
    """How often each reason made an item fail."""
    rows: Table = []
    for table in store.schemas:
        judged = "reader, judge" if table == "verdicts" else "NULL AS judge"
        columns = f"'{table}' AS stage, arm, k, label, {judged}, reason, count(*) AS count"
        rows += store.select(table, columns, "status = 'failed' GROUP BY ALL")
    order = {entry.label: i for i, entry in enumerate(plan.arms)}
    return sorted(
        rows,
        key=lambda row: (row["stage"], order[row["label"]], -row["count"], row["reason"] or ""),
    )
